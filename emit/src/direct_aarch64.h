/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * direct_aarch64.h: the sequence with contexts in front of the payload, for 64-bit Arm. A part of direct.h,
 * which has the same for x86-64, and says what is compared.
 */
#ifndef KYMO_DIRECT_AARCH64_H
#define KYMO_DIRECT_AARCH64_H

#include "internal.h"

/* clang-format off */
#define DIRECT_CHECK                                                                               \
	"ldr x14, [%[slot], #40]\n\t"                                                              \
	"cmp x14, %[serial]\n\t"                                                                   \
	"b.ne 96f\n\t"                                                                             \
	"ldr x14, [%[fixed]]\n\t"                                                                  \
	"cmp x14, %[serial]\n\t"                                                                   \
	"b.ne 96f\n\t"
#define DIRECT_PREFIX                                                                              \
	"ldp x9, x14, [%[fixed], #8]\n\t"                                                          \
	"stur x14, [x11, #12]\n\t"                                                                 \
	"add x11, x11, x9\n\t"
#define DIRECT_INPUTS [fixed] "r"(fixed), [serial] "r"(serial)

#define DIRECT_WORDS(stores, ...)                                                                  \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		DIRECT_CHECK                                                                       \
		KYMO__SEQ_STEP                                                                     \
		DIRECT_PREFIX                                                                      \
		stores                                                                             \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_CLEAR                                                                    \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, DIRECT_INPUTS, __VA_ARGS__                                     \
		: KYMO__SEQ_CLOBBERS                                                               \
		: out)
/* clang-format on */

/* As kymo__sequence_words, with contexts in front. step is with them. */
static inline __attribute__((always_inline)) int
direct_fixed_words(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
		   const struct kymo_fixed_contexts *fixed, uint64_t serial, unsigned word_count,
		   const uint64_t *words)
{
	if (word_count <= 1)
		DIRECT_WORDS("stur %[w0], [x11, #12]\n\t", [w0] "r"(words[0]));
	else if (word_count == 2)
		DIRECT_WORDS("stur %[w0], [x11, #12]\n\t"
			     "stur %[w1], [x11, #20]\n\t",
			     [w0] "r"(words[0]), [w1] "r"(words[1]));
	else if (word_count == 3)
		DIRECT_WORDS("stur %[w0], [x11, #12]\n\t"
			     "stur %[w1], [x11, #20]\n\t"
			     "stur %[w2], [x11, #28]\n\t",
			     [w0] "r"(words[0]), [w1] "r"(words[1]), [w2] "r"(words[2]));
	else
		DIRECT_WORDS("stur %[w0], [x11, #12]\n\t"
			     "stur %[w1], [x11, #20]\n\t"
			     "stur %[w2], [x11, #28]\n\t"
			     "stur %[w3], [x11, #36]\n\t",
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
