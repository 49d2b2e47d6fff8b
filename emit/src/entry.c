/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * entry.c: what the inline path calls when its attempt did not write: asks filters, and makes one
 * attempt for each session from what is in registers or on the stack already. The rest is record.c's.
 * No locks, no atomics, no system calls.
 */
#include "direct.h"
#include "filter.h"
#include "kymo/tracepoint.h"

/* Where tests let a signal handler run: emit/tests/several.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

static const uint8_t zeros[KYMO_RECORD_MAX];
#if !KYMO_ARCH_SEQUENCE
#define write_words write_words_portable
#endif
static void write_words(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1,
			uint64_t w2, uint64_t w3);
static void write_segs(struct kymo_event *event, uint64_t step, const struct kymo_seg *segs,
		       const struct kymo_seg *segs_end);

struct kymo_rt kymo_runtime = {
	.abi = KYMO_ABI_VERSION,
	.zeros = zeros,
	.write_words = write_words,
	.write_segs = write_segs,
};

#if KYMO_ARCH_SEQUENCE
static inline const struct kymo_slot *slot_of(uint32_t wanted)
{
	return &kymo_process->slots[__builtin_ctz(wanted)];
}

/*
 * Several sessions want the record as it is: the slots, or none where that is not so any more. In
 * this order: a slot that was added with a filter is not seen without it [register.c].
 */
static inline uint32_t wanted_as_it_is(const struct kymo_event *event)
{
	uint32_t wanted = __atomic_load_n(&event->enabled, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&event->first, __ATOMIC_RELAXED) == &kymo_process->several ? wanted : 0;
}

/*
 * One attempt for each of the slots. The first reads the clock; the others take it, where nothing has come
 * between, and start afresh where something has. Returns those that were not written.
 */
static inline __attribute__((always_inline)) uint32_t
write_each(uint32_t wanted, const struct kymo_event *event, uint64_t step, const uint64_t *words,
	   const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	intptr_t rseq_offset = slot_of(wanted)->rseq_offset;
	struct kymo_shared shared;
	uint32_t left = 0;

	while (wanted) {
		const struct kymo_slot *slot = slot_of(wanted);

		if (KYMO__UNLIKELY(!(words ? direct_first_words(slot, event, step, &shared, words) :
					     direct_first_segs(slot, event, step, &shared, segs, segs_end)))) {
			left |= wanted & -wanted;
			wanted &= wanted - 1;
			continue;
		}
		for (wanted &= wanted - 1; wanted; wanted &= wanted - 1) {
			slot = slot_of(wanted);
			KYMO_TEST_STOP(BETWEEN);
			if (KYMO__UNLIKELY(!(words ? direct_next_words(slot, event, step, &shared, words) :
						     direct_next_segs(slot, event, step, &shared, segs, segs_end))))
				break;
		}
	}
	/* Not as the slot says now: a handler may have forked. */
	if (KYMO__LIKELY(rseq_offset != 0))
		kymo__sequence_clear(rseq_offset);
	return left;
}

/* The same for a payload in pieces. */
static __attribute__((noinline)) uint32_t write_segs_each(uint32_t wanted, const struct kymo_event *event,
							  uint64_t step, const struct kymo_seg *segs,
							  const struct kymo_seg *segs_end)
{
	return write_each(wanted, event, step, NULL, segs, segs_end);
}
#endif

/* What is known of a record behind the only filter of its event. */
enum answer {
	REJECTED,
	TO_ONE, /* selected, for the slot of the filter */
	UNKNOWN, /* decided again where the sessions are known that want the event now */
};

/*
 * The only filter of an event is asked before anything else is done: a record that it rejects costs
 * neither the clock nor thread-local storage.
 */
static inline __attribute__((always_inline)) enum answer ask(uintptr_t only, const uint64_t *words)
{
	if (!only)
		return UNKNOWN;
	if (kymo_filter_rejects(kymo_filter_only(only), words))
		return REJECTED;
	return only & KYMO_ONLY_DECIDES ? TO_ONE : UNKNOWN;
}

/* For the sessions whose filter selects the record. One that is too long is not looked at: its loss counts. */
static void write_segs(struct kymo_event *event, uint64_t step, const struct kymo_seg *segs,
		       const struct kymo_seg *segs_end)
{
	uint32_t wanted = __atomic_load_n(&event->enabled, __ATOMIC_ACQUIRE);
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);
	uint64_t bytes = step - KYMO_ONE_RECORD;
	uint32_t alone = bytes <= KYMO_RECORD_MAX ? kymo_alone(event) : KYMO_SLOTS;

	if (filters && segs->bytes >= (filters->staged_bytes | KYMO_SEG_STAGED)) {
		uintptr_t only = __atomic_load_n(&filters->only, __ATOMIC_ACQUIRE);
		enum answer answer = ask(only, segs->at);

		if (answer == REJECTED)
			return;
		if (answer == TO_ONE && bytes <= KYMO_RECORD_MAX)
			alone = only & KYMO_ONLY_SLOT;
	}
	if (alone < KYMO_SLOTS && kymo_direct_segs(alone, event, step, segs, segs_end))
		return;
#if KYMO_ARCH_SEQUENCE
	{
		uint32_t as_it_is = !filters && bytes <= KYMO_RECORD_MAX ? wanted_as_it_is(event) : 0;

		if (as_it_is) {
			wanted = write_segs_each(as_it_is, event, step, segs, segs_end);
			if (!wanted)
				return;
			goto write;
		}
	}
#endif
	if (filters && bytes <= KYMO_RECORD_MAX)
		wanted = kymo_filters_pass(filters, wanted, segs, segs_end, bytes - KYMO__BEFORE_PAYLOAD);
#if KYMO_ARCH_SEQUENCE
write:
#endif
	if (wanted)
		kymo_write_to(wanted, event, step, segs, segs_end, __builtin_frame_address(0));
	/* Not by a jump: our frame is read meanwhile. */
	__asm__ __volatile__("");
}

static __attribute__((noinline)) void write_staged(struct kymo_event *event, uint64_t step,
						   const uint64_t *words, const void *frame)
{
	struct kymo_seg seg = { words, (step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD) | KYMO_SEG_STAGED };
	uint32_t wanted = __atomic_load_n(&event->enabled, __ATOMIC_ACQUIRE);
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);

	if (filters)
		wanted = kymo_filters_pass(filters, wanted, &seg, &seg + 1, seg.bytes & ~KYMO_SEG_STAGED);
	if (wanted)
		kymo_write_to(wanted, event, step, &seg, &seg + 1, frame);
}

#if KYMO_ARCH_SEQUENCE
/* For those of several sessions that the first attempt did not write to. */
static __attribute__((noinline)) void write_left(uint32_t wanted, struct kymo_event *event, uint64_t step,
						 const uint64_t *words, const void *frame)
{
	struct kymo_seg seg = { words, (step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD) | KYMO_SEG_STAGED };

	kymo_write_to(wanted, event, step, &seg, &seg + 1, frame);
}

/* Without filters: most likely several sessions that want the record as it is. */
static __attribute__((noinline)) void write_several(struct kymo_event *event, uint64_t step, uint64_t w0,
						    uint64_t w1, uint64_t w2, uint64_t w3)
{
	const uint64_t words[KYMO_WORDS_MAX + 1] = { w0, w1, w2, w3, 0 };
	uint32_t wanted = wanted_as_it_is(event);

	if (KYMO__UNLIKELY(!wanted))
		write_staged(event, step, words, __builtin_frame_address(0));
	else if (KYMO__UNLIKELY(wanted = write_each(wanted, event, step, words, NULL, NULL)))
		write_left(wanted, event, step, words, __builtin_frame_address(0));
}

/* Behind a filter and with contexts: apart, so that without them no register needs to be saved. */
static __attribute__((noinline)) bool write_selected_fixed(uint32_t index, struct kymo_event *event,
							   uint64_t step, const uint64_t *words)
{
	const struct kymo_slot *slot = &kymo_process->slots[index];

	return direct_fixed_words(slot, event, step, direct_kept(slot, index), words);
}

/* Where the filter has decided for one slot. */
static inline __attribute__((always_inline)) bool
write_selected(uint32_t index, struct kymo_event *event, uint64_t step, const uint64_t *words)
{
	if (KYMO__UNLIKELY(kymo_with_contexts[index]))
		return write_selected_fixed(index, event, step, words);
	return direct_words(&kymo_process->slots[index], event, step, words);
}

/* Behind a filter: a record that it rejects is stored for it to look at, and no more. */
static __attribute__((noinline)) void write_filtered(struct kymo_event *event, uint64_t step, uint64_t w0,
						     uint64_t w1, uint64_t w2, uint64_t w3)
{
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);
	uintptr_t only = __atomic_load_n(&filters->only, __ATOMIC_ACQUIRE);
	struct {
		uint64_t words[KYMO_WORDS_MAX + 1]; /* the last is read with the one in front of it, and masked */
		struct kymo_event *event;
		uint64_t step;
	} staged;
	enum answer answer;

	__asm__("" : "=m"(staged));
	staged.words[0] = w0;
	staged.words[1] = w1;
	staged.words[2] = w2;
	staged.words[3] = w3;
	staged.event = event;
	staged.step = step;
	/* From here on they are in memory only: registers are free, and nothing needs to be saved. */
	__asm__("" : "+m"(staged));
	answer = ask(only, staged.words);
	if (answer == REJECTED)
		return;
	if (answer == TO_ONE &&
	    write_selected(only & KYMO_ONLY_SLOT, staged.event, staged.step, staged.words))
		return;
	/* Loaded again: a register that outlives the attempt would have to be saved before the filter is asked. */
	__asm__("" : "+m"(staged));
	write_staged(staged.event, staged.step, staged.words, __builtin_frame_address(0));
}

/* For one session for which the thread keeps nothing: compact records, or contexts that change. */
static __attribute__((noinline)) void write_otherwise(const struct kymo_slot *slot,
						      struct kymo_event *event, uint64_t step,
						      const uint64_t *words, const void *frame)
{
	const struct kymo_seg seg = { words, (step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD) | KYMO_SEG_STAGED };

	if (slot->is_compact != 1 || !kymo_compact_direct(slot, event, step, &seg, &seg + 1))
		write_staged(event, step, words, frame);
}

/* One session with contexts; or whatever is not as it is. */
static __attribute__((noinline)) void write_alone(struct kymo_event *event, uint64_t step, uint64_t w0,
						  uint64_t w1, uint64_t w2, uint64_t w3)
{
	uint64_t words[KYMO_WORDS_MAX + 1] = { w0, w1, w2, w3, 0 };
	uint32_t at = kymo_alone_at(event);
	const struct kymo_slot *slot = (const void *)((const char *)kymo_process->slots + at);

	if (KYMO__UNLIKELY(at == UINT32_MAX))
		write_staged(event, step, words, __builtin_frame_address(0));
	else if (KYMO__UNLIKELY(!direct_fixed_words(slot, event, step, direct_kept(slot, at / sizeof(*slot)), words)))
		write_otherwise(slot, event, step, words, __builtin_frame_address(0));
}

/* Those that it jumps to have the frame of the function that the tracepoint called. */
static void write_words(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
	if (__atomic_load_n(&event->filters, __ATOMIC_ACQUIRE))
		write_filtered(event, step, w0, w1, w2, w3);
	else if (__atomic_load_n(&event->first, __ATOMIC_RELAXED) == &kymo_process->several)
		write_several(event, step, w0, w1, w2, w3);
	else
		write_alone(event, step, w0, w1, w2, w3);
}
#endif

/* The same where there is no sequence to try. */
static void write_words_portable(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1,
				 uint64_t w2, uint64_t w3)
{
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);
	const uint64_t words[KYMO_WORDS_MAX + 1] = { w0, w1, w2, w3, 0 };
	uint32_t alone = KYMO_SLOTS;

	if (filters) {
		uintptr_t only = __atomic_load_n(&filters->only, __ATOMIC_ACQUIRE);
		enum answer answer = ask(only, words);

		if (KYMO__LIKELY(answer == REJECTED))
			return;
		if (answer == TO_ONE)
			alone = only & KYMO_ONLY_SLOT;
	} else {
		alone = kymo_alone(event);
	}
	if (KYMO__UNLIKELY(alone >= KYMO_SLOTS) || KYMO__UNLIKELY(kymo_with_contexts[alone]) ||
	    KYMO__UNLIKELY(!kymo_portable_words(alone, event, step, words)))
		write_staged(event, step, words, __builtin_frame_address(0));
}

/* kymo_record_init: after the ring was chosen. */
void kymo_record_init(void)
{
	if (kymo_kind == KYMO_KIND_PORTABLE)
		kymo_runtime.write_words = write_words_portable;
}
