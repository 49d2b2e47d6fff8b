/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence of ring.md 5.1 for a user event of any length, from the pieces of
 * kymo/arch/x86_64/sequence.h, and the two forms of it that write 4 bytes to several streams with one clock read.
 */
#ifndef KYMOP_SEQUENCE_H
#define KYMOP_SEQUENCE_H

#include "kymo/arch/x86_64/sequence.h"

/* clang-format off */
/* Three words, of which 20 bytes count. */
#define KYMOP_WORDS                                                                        \
	"movq (%[words]), %%rax\n\t"                                                       \
	"movq %%rax, 12(%%r11)\n\t"                                                        \
	"movq 8(%[words]), %%rax\n\t"                                                      \
	"movq %%rax, 20(%%r11)\n\t"                                                        \
	"movq 16(%[words]), %%rax\n\t"                                                     \
	"movq %%rax, 28(%%r11)\n\t"
#define KYMOP_SEQUENCE                                                                     \
	KYMO__SEQ_BEGIN                                                                    \
	KYMO__SEQ_STEP                                                                     \
	KYMOP_WORDS                                                                        \
	"movq %[data], %%rsi\n\t"                                                          \
	"movq %[data_bytes], %%rcx\n\t"                                                    \
	"leaq 32(%%r11), %%rdi\n\t"                                                        \
	KYMO__SEQ_COPY("9f")                                                               \
	"9:\n\t"                                                                           \
	KYMO__SEQ_COMMIT                                                                   \
	KYMO__SEQ_CLEAR
/* clang-format on */

/*
 * kymop_sequence: one attempt. step is the record's bytes + KYMO_ONE_RECORD.
 * Returns: 1 when it is written; else 0 and nothing has changed.
 */
KYMO__INLINE int kymop_sequence(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
				const uint64_t *words, const void *data, uint64_t data_bytes)
{
	__asm__ goto(KYMOP_SEQUENCE
		     :
		     : KYMO__SEQ_INPUTS, [words] "r"(words), [data] "rm"(data), [data_bytes] "rm"(data_bytes)
		     : KYMO__SEQ_CLOBBERS, "rcx", "rsi", "rdi"
		     : out);
	return 1;
out:
	return 0;
}

/*
 * kymop_sequence_first, kymop_sequence_next: one attempt for one of several streams, with 4 bytes of data in the upper
 * half of words[2]. The first reads the clock; the next takes it, if nothing has come between the two [ring.md 5.9].
 * Neither clears rseq.rseq_cs. Returns: as kymop_sequence.
 */
KYMO__INLINE int kymop_sequence_first(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
				      struct kymo_shared *shared, const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_FIRST KYMOP_WORDS KYMO__SEQ_COMMIT
		     :
		     : KYMO__SEQ_INPUTS, KYMO__SEQ_SHARED_IN, [words] "r"(words)
		     : KYMO__SEQ_CLOBBERS
		     : out);
	return 1;
out:
	return 0;
}

KYMO__INLINE int kymop_sequence_next(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
				     struct kymo_shared *shared, const uint64_t *words)
{
	__asm__ goto(KYMO__SEQ_NEXT KYMOP_WORDS KYMO__SEQ_COMMIT
		     :
		     : KYMO__SEQ_INPUTS, KYMO__SEQ_SHARED_IN, [words] "r"(words)
		     : KYMO__SEQ_CLOBBERS
		     : out);
	return 1;
out:
	return 0;
}

#endif
