/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * direct.h: one attempt, out of line, to write a record: behind a filter that has decided, with contexts that
 * do not change, to each of several sessions, or into the portable ring. Takes no lock and holds nothing. What
 * it does not write is tried again by record.c, which finds out why.
 *
 * Contexts: what a thread keeps is of one memory, and so is what the sequence writes to. Both are
 * compared inside the sequence, so that a session that takes the place of another one meanwhile, or a
 * child of fork, has its own contexts or comes out [context.md 1].
 *
 * Several sessions: one clock read for all [ring.md 5.9].
 */
#ifndef KYMO_DIRECT_H
#define KYMO_DIRECT_H

#include "compact.h"

#if KYMO_ARCH_SEQUENCE
#if KYMO_ARCH_AARCH64
#include "direct_aarch64.h"
#else
#include "direct_x86_64.h"
#endif

/* A payload of as many words as step says; KYMO_WORDS_MAX may be read. */
static inline __attribute__((always_inline)) bool
direct_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_BEGIN KYMO__SEQ_STEP DIRECT_WORDS KYMO__SEQ_COMMIT KYMO__SEQ_CLEAR
		     :
		     : KYMO__SEQ_INPUTS, DIRECT_WORDS_IN
		     : DIRECT_CLOBBERS
		     : out);
	return true;
out:
	return false;
}

/* The same, and as kymo__sequence_segs, with contexts in front. step is without them. */
static inline __attribute__((always_inline)) bool
direct_fixed_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		uintptr_t fixed, const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_BEGIN DIRECT_FIXED_OPEN DIRECT_WORDS DIRECT_FIXED_COMMIT KYMO__SEQ_CLEAR
		     :
		     : KYMO__SEQ_INPUTS, [fixed] "r"(fixed), DIRECT_WORDS_IN
		     : DIRECT_CLOBBERS
		     : out);
	return true;
out:
	return false;
}

static inline __attribute__((always_inline)) bool
direct_fixed_segs(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		uintptr_t fixed, const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_BEGIN DIRECT_FIXED_OPEN, DIRECT_FIXED_COMMIT KYMO__SEQ_CLEAR,
		       [fixed] "r"(fixed), DIRECT_SEGS_IN);
	return true;
out:
	return false;
}

/* The first of several sessions, and one behind another. Neither clears rseq.rseq_cs. */
static inline __attribute__((always_inline)) bool
direct_first_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		struct kymo_shared *shared, const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_FIRST DIRECT_WORDS KYMO__SEQ_COMMIT
		     :
		     : KYMO__SEQ_INPUTS, DIRECT_SHARED_IN, DIRECT_WORDS_IN
		     : DIRECT_CLOBBERS
		     : out);
	return true;
out:
	return false;
}

static inline __attribute__((always_inline)) bool
direct_first_segs(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		struct kymo_shared *shared, const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_FIRST, KYMO__SEQ_COMMIT, DIRECT_SHARED_IN, DIRECT_SEGS_IN);
	return true;
out:
	return false;
}

static inline __attribute__((always_inline)) bool
direct_next_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		struct kymo_shared *shared, const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_NEXT DIRECT_WORDS KYMO__SEQ_COMMIT
		     :
		     : KYMO__SEQ_INPUTS, DIRECT_SHARED_IN, DIRECT_WORDS_IN
		     : DIRECT_CLOBBERS
		     : out);
	return true;
out:
	return false;
}

static inline __attribute__((always_inline)) bool
direct_next_segs(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		struct kymo_shared *shared, const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_NEXT, KYMO__SEQ_COMMIT, DIRECT_SHARED_IN, DIRECT_SEGS_IN);
	return true;
out:
	return false;
}

static inline bool direct_rseq_segs(uint32_t index, const struct kymo_event *event, uint64_t step,
				    const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	const struct kymo_slot *slot = &kymo_process->slots[index];

	if (!kymo_with_contexts[index])
		return kymo__sequence_segs(slot, event, step, segs, segs_end);
	if (slot->is_compact == 1)
		return kymo_compact_direct(slot, event, step, segs, segs_end);
	return step - KYMO_ONE_RECORD <= KYMO_RECORD_MAX - KYMO_FIXED_BYTES_MAX &&
	       direct_fixed_segs(slot, event, step, direct_kept(slot, index), segs, segs_end);
}
#endif

/*
 * kymo_direct_segs: pieces, KYMO_RECORD_MAX bytes at most.
 * Returns: whether the record is written, or counted as lost in a full ring.
 */
static inline bool kymo_direct_segs(uint32_t index, struct kymo_event *event, uint64_t step,
				    const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
#if KYMO_ARCH_SEQUENCE
	if (kymo_kind == KYMO_KIND_RSEQ)
		return direct_rseq_segs(index, event, step, segs, segs_end);
#endif
	return !kymo_with_contexts[index] &&
	       kymo_portable_segs(index, event, step, segs, segs_end);
}

/*
 * kymo_alone_at: the slot that alone wants the event's records, all of them, as bytes from slots[0]; UINT32_MAX:
 * there is none.
 */
static inline uint32_t kymo_alone_at(const struct kymo_event *event)
{
	const struct kymo_slot *first = __atomic_load_n(&event->first, __ATOMIC_ACQUIRE);
	uintptr_t at = (uintptr_t)first - (uintptr_t)kymo_process->alone;

	return at < sizeof(kymo_process->alone) ? (uint32_t)at : UINT32_MAX;
}

/* kymo_alone: its number; KYMO_SLOTS: there is none. */
static inline uint32_t kymo_alone(const struct kymo_event *event)
{
	uint32_t at = kymo_alone_at(event);

	return at != UINT32_MAX ? at / (uint32_t)sizeof(struct kymo_slot) : KYMO_SLOTS;
}

#endif
