/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * entry.c: what the inline path calls when its attempt did not write: asks filters, and makes one
 * attempt for each session from what is in registers or on the stack already. The rest is record.c's.
 * No locks, no atomics, no system calls.
 */
#include "direct.h"
#include "filter.h"
#include "kymo/tracepoint.h"

static const uint8_t zeros[KYMO_RECORD_MAX];
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
/*
 * Several sessions want the record as it is: the slots, or none where that is not so any more. In
 * this order: a slot that was added with a filter is not seen without it [register.c].
 */
static inline uint32_t wanted_as_it_is(const struct kymo_event *event)
{
	uint32_t wanted = __atomic_load_n(&event->enabled, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&event->first, __ATOMIC_RELAXED) == &kymo_process->several ? wanted : 0;
}

/* One attempt for each of the slots, from registers. Returns those that it did not write. */
static inline __attribute__((always_inline)) uint32_t
write_each(uint32_t wanted, const struct kymo_event *event, uint64_t step, unsigned word_count,
	   uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
	uint32_t left = 0;

	for (; wanted; wanted &= wanted - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);

		if (KYMO__UNLIKELY(!kymo__sequence_words(&kymo_process->slots[slot], event, step,
							 word_count, w0, w1, w2, w3)))
			left |= 1u << slot;
	}
	return left;
}

static inline __attribute__((always_inline)) uint32_t
write_words_each(uint32_t wanted, const struct kymo_event *event, uint64_t step, uint64_t w0,
		 uint64_t w1, uint64_t w2, uint64_t w3)
{
	switch ((step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD + 7) / 8) {
	case 0:
	case 1:
		return write_each(wanted, event, step, 1, w0, w1, w2, w3);
	case 2:
		return write_each(wanted, event, step, 2, w0, w1, w2, w3);
	case 3:
		return write_each(wanted, event, step, 3, w0, w1, w2, w3);
	default:
		return write_each(wanted, event, step, 4, w0, w1, w2, w3);
	}
}

/* The same for a payload in pieces. */
static __attribute__((noinline)) uint32_t write_segs_each(uint32_t wanted,
							  const struct kymo_event *event,
							  uint64_t step, const struct kymo_seg *segs,
							  const struct kymo_seg *segs_end)
{
	uint32_t left = 0;

	for (; wanted; wanted &= wanted - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);

		if (KYMO__UNLIKELY(!kymo__sequence_segs(&kymo_process->slots[slot], event, step, segs,
							segs_end)))
			left |= 1u << slot;
	}
	return left;
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
static __attribute__((noinline)) void write_left(uint32_t wanted, struct kymo_event *event,
						 uint64_t step, uint64_t w0, uint64_t w1,
						 uint64_t w2, uint64_t w3)
{
	const uint64_t words[KYMO_WORDS_MAX + 1] = { w0, w1, w2, w3, 0 };
	struct kymo_seg seg = { words, (step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD) | KYMO_SEG_STAGED };

	kymo_write_to(wanted, event, step, &seg, &seg + 1, __builtin_frame_address(0));
	/* Not by a jump: our words are read meanwhile. */
	__asm__ __volatile__("");
}
#endif

/* A record of words on its way out of line. */
struct staged {
	uint64_t words[KYMO_WORDS_MAX + 1];
	struct kymo_event *event;
	uint64_t step;
};

/* Filters, contexts, the portable ring: whatever is not as it is. */
static inline __attribute__((always_inline)) void
write_filtered(struct kymo_event *event, uint64_t step, const struct kymo_filters *filters,
	       uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
	struct staged staged = { { w0, w1, w2, w3, 0 }, event, step };
	uint32_t alone = KYMO_SLOTS;

	/* From here on they are in memory only: registers are free, and nothing needs to be saved. */
	__asm__("" : "+m"(staged));
	if (filters) {
		uintptr_t only = __atomic_load_n(&filters->only, __ATOMIC_ACQUIRE);
		enum answer answer = ask(only, staged.words);

		if (KYMO__LIKELY(answer == REJECTED))
			return;
		if (answer == TO_ONE)
			alone = only & KYMO_ONLY_SLOT;
	}
	if (alone >= KYMO_SLOTS)
		alone = kymo_alone(staged.event);
	if (alone < KYMO_SLOTS && kymo_direct_words(alone, staged.event, staged.step, staged.words))
		return;
	/* Loaded again: a register that outlives the attempt would have to be saved before the filter is asked. */
	__asm__("" : "+m"(staged));
	write_staged(staged.event, staged.step, staged.words, __builtin_frame_address(0));
	/* Not by a jump: our words are read meanwhile. */
	__asm__ __volatile__("");
}

static __attribute__((noinline)) void write_unfiltered(struct kymo_event *event, uint64_t step, uint64_t w0,
						       uint64_t w1, uint64_t w2, uint64_t w3)
{
	write_filtered(event, step, NULL, w0, w1, w2, w3);
}

#if KYMO_ARCH_SEQUENCE
/* Without filters: most likely several sessions that want the record as it is. */
static __attribute__((noinline)) void write_several(struct kymo_event *event, uint64_t step,
						    uint64_t w0, uint64_t w1, uint64_t w2,
						    uint64_t w3)
{
	uint32_t left = wanted_as_it_is(event);

	if (KYMO__UNLIKELY(!left)) {
		write_unfiltered(event, step, w0, w1, w2, w3);
		return;
	}
	left = write_words_each(left, event, step, w0, w1, w2, w3);
	if (KYMO__UNLIKELY(left))
		write_left(left, event, step, w0, w1, w2, w3);
}
#endif

static void write_words(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1,
			uint64_t w2, uint64_t w3)
{
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);

	if (filters) {
		write_filtered(event, step, filters, w0, w1, w2, w3);
		return;
	}
#if KYMO_ARCH_SEQUENCE
	if (__atomic_load_n(&event->first, __ATOMIC_RELAXED) == &kymo_process->several) {
		write_several(event, step, w0, w1, w2, w3);
		return;
	}
#endif
	write_unfiltered(event, step, w0, w1, w2, w3);
}

/* The portable ring, without filters. */
static __attribute__((noinline)) void portable_unfiltered(struct kymo_event *event, uint64_t step, uint64_t w0,
							  uint64_t w1, uint64_t w2, uint64_t w3)
{
	uint32_t alone = kymo_alone(event);

	if (KYMO__UNLIKELY(alone >= KYMO_SLOTS) || KYMO__UNLIKELY(kymo_with_contexts[alone]) ||
	    KYMO__UNLIKELY(!kymo_portable_words(alone, event, step, w0, w1, w2, w3)))
		write_unfiltered(event, step, w0, w1, w2, w3);
}

/* The same where there is no sequence to try. */
static void write_words_portable(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1,
				 uint64_t w2, uint64_t w3)
{
	const struct kymo_filters *filters = __atomic_load_n(&event->filters, __ATOMIC_ACQUIRE);

	if (filters)
		write_filtered(event, step, filters, w0, w1, w2, w3);
	else
		portable_unfiltered(event, step, w0, w1, w2, w3);
}

/* kymo_record_init: after the ring was chosen. */
void kymo_record_init(void)
{
	if (kymo_kind == KYMO_KIND_PORTABLE)
		kymo_runtime.write_words = write_words_portable;
}
