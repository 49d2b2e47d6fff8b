/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence of ring.md 5.1 for a user event of any length, from the pieces of
 * kymo/arch/x86_64/sequence.h: three words, of which 20 bytes count, and the data behind them.
 */
#ifndef KYMOP_SEQUENCE_H
#define KYMOP_SEQUENCE_H

#include "kymo/arch/x86_64/sequence.h"

/* clang-format off */
#define KYMOP_SEQUENCE                                                                     \
	KYMO__SEQ_BEGIN                                                                    \
	KYMO__SEQ_STEP                                                                     \
	"movq (%[words]), %%rax\n\t"                                                       \
	"movq %%rax, 12(%%r11)\n\t"                                                        \
	"movq 8(%[words]), %%rax\n\t"                                                      \
	"movq %%rax, 20(%%r11)\n\t"                                                        \
	"movq 16(%[words]), %%rax\n\t"                                                     \
	"movq %%rax, 28(%%r11)\n\t"                                                        \
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

#endif
