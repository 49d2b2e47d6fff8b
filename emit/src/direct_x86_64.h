/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * direct_x86_64.h: the sequences of direct.h for x86-64, by the macros of sequence.h. A part of direct.h,
 * which says what they are for.
 */
#ifndef KYMO_DIRECT_X86_64_H
#define KYMO_DIRECT_X86_64_H

#include "internal.h"

/* clang-format off */
/* Up to four words of payload, as many as step says. 9: the end. */
#define DIRECT_WORDS                                                                       \
	"movq %[words], %%rax\n\t"                                                         \
	"movq %%rax, 12(%%r11)\n\t"                                                        \
	"cmpl $20, %k[step]\n\t"                                                           \
	"jbe 9f\n\t"                                                                       \
	"movq 8+%[words], %%rax\n\t"                                                       \
	"movq %%rax, 20(%%r11)\n\t"                                                        \
	"cmpl $28, %k[step]\n\t"                                                           \
	"jbe 9f\n\t"                                                                       \
	"movq 16+%[words], %%rax\n\t"                                                      \
	"movq %%rax, 28(%%r11)\n\t"                                                        \
	"cmpl $36, %k[step]\n\t"                                                           \
	"jbe 9f\n\t"                                                                       \
	"movq 24+%[words], %%rax\n\t"                                                      \
	"movq %%rax, 36(%%r11)\n"                                                          \
	"9:\n\t"
#define DIRECT_WORDS_IN [words] "m"(*(const uint64_t (*)[KYMO_WORDS_MAX])words)

/*
 * With kept contexts in front, if they are of the memory that the slot has: its serial is compared behind
 * the load of rings, which is published behind it. step is the record's without them.
 */
#define DIRECT_CHECK                                                                       \
	"movq 40(%[slot]), %%rdx\n\t"                                                      \
	"testq %%rdx, %%rdx\n\t"                                                           \
	"jz %l[out]\n\t"                                                                   \
	"cmpq %%rdx, %%fs:(%[fixed])\n\t"                                                       \
	"jne %l[out]\n\t"
#define DIRECT_FIXED_OPEN                                                                  \
	KYMO__SEQ_OPEN("movl %k[step], %%eax\n\t"                                          \
		       "addl %%fs:8(%[fixed]), %%eax\n\t"                                       \
		       "cmpl 12(%[slot]), %%eax\n\tja %l[out]\n\t",                        \
		       "", KYMO__SEQ_ID, DIRECT_CHECK KYMO__SEQ_CLOCK,                     \
		       KYMO__SEQ_STEP_END "addl %%fs:8(%[fixed]), %%edx\n\t")                   \
	"movq %%fs:16(%[fixed]), %%rax\n\t"                                                     \
	"movq %%rax, 12(%%r11)\n\t"                                                        \
	"addq %%fs:8(%[fixed]), %%r11\n\t"
#define DIRECT_FIXED_COMMIT "addq %%fs:8(%[fixed]), %%r8\n\t" KYMO__SEQ_COMMIT
/* clang-format on */

/* Where a thread keeps contexts: from the thread pointer. */
static inline uintptr_t direct_kept(const struct kymo_slot *slot, uint32_t index)
{
	return (uintptr_t)slot->thread_offset + offsetof(struct kymo_self, fixed) +
	       index % KYMO_FIXED_MAX * sizeof(struct kymo_fixed_contexts);
}

#define DIRECT_CLOBBERS KYMO__SEQ_CLOBBERS
#define DIRECT_SHARED_IN KYMO__SEQ_SHARED_IN
#define DIRECT_SEGS_IN [segs] "r"(segs), [segs_end] "rm"(segs_end)

#endif
