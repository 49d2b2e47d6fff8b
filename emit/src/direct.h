/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * direct.h: one attempt, out of line, to write a record to the only session that wants it: behind a
 * filter that has decided, with contexts that do not change, or into the portable ring. Takes no
 * lock and holds nothing. What it does not write is tried again by record.c, which finds out why.
 *
 * Contexts: what a thread keeps is of one memory, and so is what the sequence writes to. Both are
 * compared inside the sequence, so that a session that takes the place of another one meanwhile, or a
 * child of fork, has its own contexts or comes out [context.md 1].
 */
#ifndef KYMO_DIRECT_H
#define KYMO_DIRECT_H

#include "compact.h"

#if KYMO_ARCH_AARCH64
#include "direct_aarch64.h"
#elif KYMO_ARCH_X86_64

/* clang-format off */
/* slot.serial and fixed.serial are what was seen; then fixed.block and fixed.bytes are of that memory. */
#define DIRECT_CHECK                                                                               \
	"movq %[serial], %%rax\n\t"                                                                \
	"cmpq %%rax, 40(%[slot])\n\t"                                                              \
	"jne %l[out]\n\t"                                                                          \
	"cmpq %%rax, (%[fixed])\n\t"                                                               \
	"jne %l[out]\n\t"
#define DIRECT_PREFIX                                                                              \
	"movq 16(%[fixed]), %%rax\n\t"                                                             \
	"movq %%rax, 12(%%r11)\n\t"                                                                \
	"addq 8(%[fixed]), %%r11\n\t"
#define DIRECT_INPUTS [fixed] "r"(fixed), [serial] "rm"(serial)

#define DIRECT_WORDS(stores, ...)                                                                  \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		DIRECT_CHECK                                                                       \
		KYMO__SEQ_OPEN                                                                     \
		DIRECT_PREFIX                                                                      \
		stores                                                                             \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_END                                                                      \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, DIRECT_INPUTS, __VA_ARGS__                                     \
		: "memory", "cc", "rax", "rdx", "r8", "r10", "r11"                                 \
		: out)
/* clang-format on */

/* As kymo__sequence_words, with contexts in front. step is with them. */
static inline __attribute__((always_inline)) int
direct_fixed_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		   const struct kymo_fixed_contexts *fixed, uint64_t serial, unsigned word_count,
		   const uint64_t *words)
{
	if (word_count <= 1)
		DIRECT_WORDS("movq %[w0], 12(%%r11)\n\t", [w0] "r"(words[0]));
	else if (word_count == 2)
		DIRECT_WORDS("movq %[w0], 12(%%r11)\n\t"
			     "movq %[w1], 20(%%r11)\n\t",
			     [w0] "r"(words[0]), [w1] "r"(words[1]));
	else if (word_count == 3)
		DIRECT_WORDS("movq %[w0], 12(%%r11)\n\t"
			     "movq %[w1], 20(%%r11)\n\t"
			     "movq %[w2], 28(%%r11)\n\t",
			     [w0] "r"(words[0]), [w1] "r"(words[1]), [w2] "r"(words[2]));
	else
		DIRECT_WORDS("movq %[w0], 12(%%r11)\n\t"
			     "movq %[w1], 20(%%r11)\n\t"
			     "movq %[w2], 28(%%r11)\n\t"
			     "movq %[w3], 36(%%r11)\n\t",
			     [w0] "r"(words[0]), [w1] "r"(words[1]), [w2] "r"(words[2]),
			     [w3] "r"(words[3]));
	return 1;
out:
	return 0;
}

/* As kymo__sequence_segs. */
static inline __attribute__((always_inline)) int
direct_fixed_segs(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		  const struct kymo_fixed_contexts *fixed, uint64_t serial,
		  const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(DIRECT_CHECK, DIRECT_PREFIX, DIRECT_INPUTS, [segs] "r"(segs),
		       [segs_end] "r"(segs_end));
	return 1;
out:
	return 0;
}

#endif

#if KYMO_ARCH_SEQUENCE
/*
 * What the calling thread keeps for a slot with contexts. Returns: the serial that it is for, 0 where it
 * keeps nothing; the record's step with them in *step.
 */
static inline uint64_t direct_fixed(const struct kymo_fixed_contexts *fixed, uint64_t *step)
{
	/* In this order: a handler that takes the place of both writes serial last. */
	uint64_t serial = __atomic_load_n(&fixed->serial, __ATOMIC_RELAXED);

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*step += __atomic_load_n(&fixed->bytes, __ATOMIC_RELAXED);
	return serial;
}

/*
 * By the number of words: functions of their own, so that each saves only the registers that it needs. plain
 * has no contexts; fixed has those that the calling thread keeps.
 */
#define DIRECT_OF(count)                                                                           \
	static __attribute__((noinline)) bool direct_plain_##count(                                \
		const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,       \
		const uint64_t *words)                                                             \
	{                                                                                          \
		return kymo__sequence_words(slot, event, step, count, words[0], words[1],          \
					    words[2], words[3]);                                   \
	}                                                                                          \
	static __attribute__((noinline)) bool direct_fixed_##count(                                \
		const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,       \
		const uint64_t *words, const struct kymo_fixed_contexts *fixed)                    \
	{                                                                                          \
		uint64_t serial = direct_fixed(fixed, &step);                                      \
                                                                                                   \
		return serial && direct_fixed_words(slot, event, step, fixed, serial, count,       \
						    words);                                        \
	}
DIRECT_OF(1)
DIRECT_OF(2)
DIRECT_OF(3)
DIRECT_OF(4)

static __attribute__((noinline)) bool direct_rseq_words(uint32_t index, const struct kymo_event *event,
							uint64_t step, const uint64_t *words)
{
	const struct kymo_slot *slot = &kymo_process->slots[index];
	uint64_t bytes = step - KYMO_ONE_RECORD - KYMO__BEFORE_PAYLOAD;

	if (slot->is_compact == 1) {
		const struct kymo_seg seg = { words, bytes | KYMO_SEG_STAGED };

		return kymo_compact_direct(slot, event, step, &seg, &seg + 1);
	}
	if (kymo_with_contexts[index]) {
		const struct kymo_fixed_contexts *fixed = &kymo_self()->fixed[index % KYMO_FIXED_MAX];

		return bytes <= 8  ? direct_fixed_1(slot, event, step, words, fixed) :
		       bytes <= 16 ? direct_fixed_2(slot, event, step, words, fixed) :
		       bytes <= 24 ? direct_fixed_3(slot, event, step, words, fixed) :
				     direct_fixed_4(slot, event, step, words, fixed);
	}
	return bytes <= 8  ? direct_plain_1(slot, event, step, words) :
	       bytes <= 16 ? direct_plain_2(slot, event, step, words) :
	       bytes <= 24 ? direct_plain_3(slot, event, step, words) :
			     direct_plain_4(slot, event, step, words);
}

static inline bool direct_rseq_segs(uint32_t index, const struct kymo_event *event, uint64_t step,
				    const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	const struct kymo_slot *slot = &kymo_process->slots[index];
	const struct kymo_fixed_contexts *fixed;
	uint64_t serial;

	if (slot->is_compact == 1)
		return kymo_compact_direct(slot, event, step, segs, segs_end);
	if (!kymo_with_contexts[index])
		return kymo__sequence_segs(slot, event, step, segs, segs_end);
	fixed = &kymo_self()->fixed[index % KYMO_FIXED_MAX];
	serial = direct_fixed(fixed, &step);
	return serial && step - KYMO_ONE_RECORD <= KYMO_RECORD_MAX &&
	       direct_fixed_segs(slot, event, step, fixed, serial, segs, segs_end);
}

#endif

/*
 * kymo_direct_words: a payload of words, as kymo__write_words packs them; KYMO_WORDS_MAX may be read.
 * Returns: whether the record is written, or counted as lost in a full ring.
 */
static inline bool kymo_direct_words(uint32_t index, struct kymo_event *event, uint64_t step,
				     const uint64_t *words)
{
#if KYMO_ARCH_SEQUENCE
	if (KYMO__LIKELY(kymo_kind == KYMO_KIND_RSEQ))
		return direct_rseq_words(index, event, step, words);
#endif
	return !kymo_with_contexts[index] && kymo_portable_words(index, event, step, words[0], words[1], words[2], words[3]);
}

/* kymo_direct_segs: the same for pieces, KYMO_RECORD_MAX bytes at most. */
static inline bool kymo_direct_segs(uint32_t index, struct kymo_event *event, uint64_t step,
				    const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
#if KYMO_ARCH_SEQUENCE
	if (kymo_kind == KYMO_KIND_RSEQ)
		return direct_rseq_segs(index, event, step, segs, segs_end);
#endif
	return !kymo_with_contexts[index] && kymo_portable_segs(index, event, step, segs, segs_end);
}

/* kymo_alone: the slot that alone wants the event's records, all of them; KYMO_SLOTS: there is none. */
static inline uint32_t kymo_alone(const struct kymo_event *event)
{
	const struct kymo_slot *first = __atomic_load_n(&event->first, __ATOMIC_ACQUIRE);
	uintptr_t at = (uintptr_t)first - (uintptr_t)kymo_process->alone;

	return at < sizeof(kymo_process->alone) ? (uint32_t)(at / sizeof(struct kymo_slot)) : KYMO_SLOTS;
}

#endif
