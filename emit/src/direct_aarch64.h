/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* direct_aarch64.h: as direct_x86_64.h, for 64-bit Arm. */
#ifndef KYMO_DIRECT_AARCH64_H
#define KYMO_DIRECT_AARCH64_H

#include "internal.h"

/* clang-format off */
/* Up to four words of payload, as many as step says. 9: the end. */
#define DIRECT_WORDS                                                                       \
	"ldr x9, [%[words]]\n\t"                                                           \
	"stur x9, [x11, #12]\n\t"                                                          \
	"cmp %w[step], #20\n\t"                                                            \
	"b.ls 9f\n\t"                                                                      \
	"ldr x9, [%[words], #8]\n\t"                                                       \
	"stur x9, [x11, #20]\n\t"                                                          \
	"cmp %w[step], #28\n\t"                                                            \
	"b.ls 9f\n\t"                                                                      \
	"ldr x9, [%[words], #16]\n\t"                                                      \
	"stur x9, [x11, #28]\n\t"                                                          \
	"cmp %w[step], #36\n\t"                                                            \
	"b.ls 9f\n\t"                                                                      \
	"ldr x9, [%[words], #24]\n\t"                                                      \
	"stur x9, [x11, #36]\n"                                                            \
	"9:\n\t"
#define DIRECT_WORDS_IN [words] "r"(words)

/* With kept contexts in front. step is the record's without them. The check stands behind the isb. */
#define DIRECT_CHECK                                                                       \
	"ldr x9, [%[slot], #40]\n\t"                                                       \
	"cbz x9, 96b\n\t"                                                                  \
	"ldr x10, [%[fixed]]\n\t"                                                          \
	"cmp x9, x10\n\t"                                                                  \
	"b.ne 96b\n\t"
#define DIRECT_FIXED_OPEN                                                                  \
	KYMO__SEQ_OPEN("ldr w14, [%[fixed], #8]\n\t"                                       \
		       "add w14, w14, %w[step]\n\t"                                        \
		       "cmp w14, w13\n\tb.hi 96b\n\t",                                     \
		       "", KYMO__SEQ_CLOCK DIRECT_CHECK,                                   \
		       "ldr w14, [%[fixed], #8]\n\tadd w14, w14, w12\n\tadd w14, w14, %w[step]\n\t") \
	"ldp x9, x14, [%[fixed], #8]\n\t"                                                  \
	"stur x14, [x11, #12]\n\t"                                                         \
	"add x11, x11, x9\n\t"
#define DIRECT_FIXED_COMMIT "ldr x9, [%[fixed], #8]\n\tadd x12, x12, x9\n\t" KYMO__SEQ_COMMIT

/* The first of several: its clock, and where it is, for those behind it. */
#define KYMO__SEQ_FIRST                                                                       \
	KYMO__SEQ_BEGIN                                                                    \
	"str x10, [%[shared], #8]\n\t"                                                     \
	KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", KYMO__SEQ_CLOCK "str x13, [%[shared]]\n\t", KYMO__SEQ_STEP_END)
/*
 * One behind another. The exclusive store is the last instruction in front of the sequence, its test the first
 * inside; whatever interrupts the thread in front of it takes the reservation away. The isb orders the loads of
 * the slot's members, as in front of a clock read.
 */
#define KYMO__SEQ_NEXT                                                                        \
	KYMO__SEQ_DESCRIBE                                                                 \
	"ldr x14, [%[shared], #8]\n\t"                                                     \
	"add x16, x8, #8\n\t"                                                              \
	"ldxr x9, [x16]\n\t"                                                               \
	"cmp x9, x14\n\t"                                                                  \
	"b.ne 96f\n\t"                                                                     \
	"stxr w9, x10, [x16]\n"                                                            \
	"1:\n\t"                                                                           \
	"cbnz w9, 96f\n\t"                                                                 \
	"str x10, [%[shared], #8]\n\t"                                                     \
	KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", "isb\n\tldr x13, [%[shared]]\n\t", KYMO__SEQ_STEP_END)
/* clang-format on */

/* Where a thread keeps contexts. */
static inline uintptr_t direct_kept(const struct kymo_slot *slot, uint32_t index)
{
	(void)slot;
	return (uintptr_t)&kymo_self()->fixed[index % KYMO_FIXED_MAX];
}

#define DIRECT_CLOBBERS KYMO__SEQ_CLOBBERS
#define DIRECT_SHARED_IN [shared] "r"(shared)
#define DIRECT_SEGS_IN [segs] "r"(segs), [segs_end] "r"(segs_end)

#endif
