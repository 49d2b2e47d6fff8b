/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ring.h: writes one record to the ring of every session that wants it. The functions here try the sequence once,
 * for the first of these sessions; whatever else may be needed is done by libkymo: further sessions, a restart, a
 * full ring, a thread's first record, the portable ring. Knows nothing of field types.
 *
 * They are static and not inlined, one copy for each source file and payload width: a tracepoint's own code stays small,
 * and the call is direct.
 */
#ifndef KYMO_RING_H
#define KYMO_RING_H

#include "runtime.h"
#if KYMO_ARCH_X86_64
#include "arch/x86_64/sequence.h"
#endif

#define KYMO__EMIT static __attribute__((noinline, unused)) void

/* The sessions that want this event now, a bit each. */
KYMO__INLINE uint32_t kymo__enabled(const struct kymo_event *event)
{
	return __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
}

#if KYMO_ARCH_X86_64
/*
 * kymo__thread: the calling thread's state.
 * Its generation differs from the process's on the first record of a thread, in a new child, and always where the
 * portable ring is used; then the sequence may not be tried.
 */
KYMO__INLINE const struct kymo_thread *kymo__thread(const struct kymo_rt *rt)
{
	return (const struct kymo_thread *)(void *)(kymo__thread_pointer() + rt->thread_offset);
}

KYMO__INLINE int kymo__may_try(const struct kymo_rt *rt, uint32_t wanted)
{
	return KYMO__LIKELY(kymo__thread(rt)->generation == *rt->fork_generation && wanted);
}
#endif

/*
 * kymo__emit_words: writes a record whose payload of payload_bytes (4 to 32, constant) is packed in words. The low half of
 * the first word is zero, for the thread id.
 * Context:  any, signal handlers included. Bounded: KYMO_RESTARTS restarts a session.
 * Ordering: publishes with one store of head [ring.md 7].
 */
KYMO__INLINE void kymo__emit_words(struct kymo_event *event, unsigned payload_bytes,
				   unsigned word_count, uint64_t w0, uint64_t w1, uint64_t w2,
				   uint64_t w3)
{
	const struct kymo_rt *rt = kymo__module.rt;
	uint32_t wanted = kymo__enabled(event);

#if KYMO_ARCH_X86_64
	if (kymo__may_try(rt, wanted)) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);

		if (KYMO__LIKELY(kymo__sequence_words(
					 rt->rseq_offset, &rt->slots[slot], &event->id[slot],
					 KYMO_RECORD_HEADER + payload_bytes, word_count,
					 w0 | kymo__thread(rt)->tid, w1, w2, w3) == KYMO_WRITTEN)) {
			wanted &= wanted - 1;
			if (KYMO__LIKELY(!wanted))
				return;
		}
	}
#endif
	(void)word_count;
	rt->write_words(event, (uint64_t)payload_bytes << 32 | wanted, w0, w1, w2, w3);
}

KYMO__EMIT kymo__emit_words_1(struct kymo_event *event, unsigned payload_bytes, uint64_t w0)
{
	kymo__emit_words(event, payload_bytes, 1, w0, 0, 0, 0);
}

KYMO__EMIT kymo__emit_words_2(struct kymo_event *event, unsigned payload_bytes, uint64_t w0,
			      uint64_t w1)
{
	kymo__emit_words(event, payload_bytes, 2, w0, w1, 0, 0);
}

KYMO__EMIT kymo__emit_words_3(struct kymo_event *event, unsigned payload_bytes, uint64_t w0,
			      uint64_t w1, uint64_t w2)
{
	kymo__emit_words(event, payload_bytes, 3, w0, w1, w2, 0);
}

KYMO__EMIT kymo__emit_words_4(struct kymo_event *event, unsigned payload_bytes, uint64_t w0,
			      uint64_t w1, uint64_t w2, uint64_t w3)
{
	kymo__emit_words(event, payload_bytes, 4, w0, w1, w2, w3);
}

/* kymo__write_words: chooses by the constant payload_bytes. */
KYMO__INLINE void kymo__write_words(struct kymo_event *event, unsigned payload_bytes,
				    const uint64_t *words)
{
	if (payload_bytes <= 8)
		kymo__emit_words_1(event, payload_bytes, words[0]);
	else if (payload_bytes <= 16)
		kymo__emit_words_2(event, payload_bytes, words[0], words[1]);
	else if (payload_bytes <= 24)
		kymo__emit_words_3(event, payload_bytes, words[0], words[1], words[2]);
	else
		kymo__emit_words_4(event, payload_bytes, words[0], words[1], words[2], words[3]);
}

/*
 * kymo__write_segs: writes a record whose payload is the concatenation of the pieces, payload_bytes in all. The first piece
 * begins with 4 bytes for the thread id and is writable.
 * Context and ordering: as kymo__emit_words. The bytes are copied inside the sequence; a piece that another thread
 * changes meanwhile gives changed bytes, never a torn record.
 */
KYMO__EMIT kymo__write_segs(struct kymo_event *event, const struct kymo_seg *segs,
			    const struct kymo_seg *segs_end, uint64_t payload_bytes)
{
	const struct kymo_rt *rt = kymo__module.rt;
	uint32_t wanted = kymo__enabled(event);

#if KYMO_ARCH_X86_64
	if (kymo__may_try(rt, wanted) && payload_bytes <= KYMO_RECORD_MAX - KYMO_RECORD_HEADER) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);
		struct kymo__gather gather = { &rt->slots[slot], &event->id[slot], segs, segs_end,
					       KYMO_RECORD_HEADER + payload_bytes };

		*(uint32_t *)(uintptr_t)segs->at = kymo__thread(rt)->tid;
		if (KYMO__LIKELY(kymo__sequence_segs(rt->rseq_offset, &gather) == KYMO_WRITTEN)) {
			wanted &= wanted - 1;
			if (KYMO__LIKELY(!wanted))
				return;
		}
	}
#endif
	rt->write_segs(event, wanted, segs, segs_end, payload_bytes);
}

#endif
