/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ring.h: writes one record to the ring of every session that wants it, for events that have no sequence of
 * their own (tracepoint.h). The functions here try the sequence once, where there is one session; whatever
 * else may be needed is done by libkymo: several sessions, a restart, a full ring, a thread's first record,
 * the portable ring. Knows nothing of field types.
 *
 * They are static and not inlined, one copy for each source file and payload width.
 */
#ifndef KYMO_RING_H
#define KYMO_RING_H

#include "arch/sequence.h"

#define KYMO__EMIT static __attribute__((noinline, unused)) KYMO__UNSEEN void

/* A record's thread id stands between its header and its payload. */
#define KYMO__BEFORE_PAYLOAD (KYMO_RECORD_HEADER + 4u)

/* Null when no session wants the event; what it is otherwise is this file's business. */
KYMO__INLINE const struct kymo_slot *kymo__wanted(const struct kymo_event *event)
{
	return __atomic_load_n(&event->first, __ATOMIC_RELAXED);
}

/*
 * kymo__emit_words: writes a record whose payload behind the thread id is packed in word_count (a
 * constant) words. slot is what kymo__wanted gave; step is the record's bytes + KYMO_ONE_RECORD. The
 * functions below have their arguments in an order in which few of them move.
 * Context:  any, signal handlers included. Bounded: 64 restarts a session [ring.md 5.4].
 * Ordering: publishes with one store of head [ring.md 7].
 */
KYMO__INLINE void kymo__emit_words(const struct kymo_slot *slot, struct kymo_event *event, uint64_t step,
				   unsigned word_count, uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
#if KYMO_ARCH_SEQUENCE
	if (KYMO__LIKELY(kymo__sequence_words(slot, event, step, word_count, w0, w1, w2, w3)))
		return;
#endif
	(void)slot;
	(void)word_count;
	kymo__module.rt->write_words(event, step, w0, w1, w2, w3);
}

KYMO__EMIT kymo__emit_words_1(const struct kymo_slot *slot, uint64_t w0, struct kymo_event *event, uint64_t step)
{
	kymo__emit_words(slot, event, step, 1, w0, 0, 0, 0);
}

KYMO__EMIT kymo__emit_words_2(const struct kymo_slot *slot, uint64_t w0, struct kymo_event *event, uint64_t step,
			      uint64_t w1)
{
	kymo__emit_words(slot, event, step, 2, w0, w1, 0, 0);
}

KYMO__EMIT kymo__emit_words_3(const struct kymo_slot *slot, uint64_t w0, struct kymo_event *event, uint64_t step,
			      uint64_t w1, uint64_t w2)
{
	kymo__emit_words(slot, event, step, 3, w0, w1, w2, 0);
}

KYMO__EMIT kymo__emit_words_4(const struct kymo_slot *slot, uint64_t w0, struct kymo_event *event, uint64_t step,
			      uint64_t w1, uint64_t w2, uint64_t w3)
{
	kymo__emit_words(slot, event, step, 4, w0, w1, w2, w3);
}

/* kymo__write_words: chooses by the constant payload_bytes. */
KYMO__INLINE void kymo__write_words(struct kymo_event *event, const struct kymo_slot *slot,
				    unsigned payload_bytes, uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
	uint64_t step = KYMO_ONE_RECORD + KYMO__BEFORE_PAYLOAD + payload_bytes;

	if (payload_bytes <= 8)
		kymo__emit_words_1(slot, w0, event, step);
	else if (payload_bytes <= 16)
		kymo__emit_words_2(slot, w0, event, step, w1);
	else if (payload_bytes <= 24)
		kymo__emit_words_3(slot, w0, event, step, w1, w2);
	else
		kymo__emit_words_4(slot, w0, event, step, w1, w2, w3);
}

/*
 * kymo__write_segs: writes a record whose payload behind the thread id is the concatenation of the
 * pieces. step is the record's bytes + KYMO_ONE_RECORD.
 * Context and ordering: as kymo__emit_words. The bytes are copied inside the sequence; a piece that
 * another thread changes meanwhile gives changed bytes, never a torn record.
 */
KYMO__EMIT kymo__write_segs(struct kymo_event *event, uint64_t step, const struct kymo_seg *segs,
			    const struct kymo_seg *segs_end, const struct kymo_slot *slot)
{
#if KYMO_ARCH_SEQUENCE
	if (KYMO__LIKELY(step <= KYMO_ONE_RECORD + KYMO_RECORD_MAX) &&
	    KYMO__LIKELY(kymo__sequence_segs(slot, event, step, segs, segs_end)))
		return;
#endif
	(void)slot;
	kymo__module.rt->write_segs(event, step, segs, segs_end);
}

#endif
