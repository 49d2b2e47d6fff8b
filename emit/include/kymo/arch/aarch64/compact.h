/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.h: the restartable sequence of x86_64/compact.h, from the same pseudocode, for 64-bit Arm [ring.md 11].
 * What is different, beside what sequence.h tells: state and last are stored with release, as head is. Who sees a
 * state or a last also sees the head that was published in front of it; so whoever finds the same head on both sides of
 * a look at them has not seen those of a later record. The slot's is_compact is looked at behind the isb, which orders
 * that load behind the one of cpu_count. Offsets: struct kymo_ring last 8, state 88.
 */
#ifndef KYMO_ARCH_AARCH64_COMPACT_H
#define KYMO_ARCH_AARCH64_COMPACT_H

#include "sequence.h"

/* Where tests abort a sequence: emit/tests/compact.c. */
#ifndef KYMO__COMPACT_STOP
#define KYMO__COMPACT_STOP
#endif

/* clang-format off */
/*
 * x8 = header word (rseq is no longer kept), x11 = the payload's place - 12, x12 = head, less what step is too
 * long out. Clobbers x9, x13, x14, x16.
 */
#define KYMO__COMPACT_OPEN(clock)								\
	KYMO__SEQ_AT(KYMO__SEQ_LONGER, "", clock, KYMO__SEQ_STEP_END)				\
	"mov x8, x13\n\t"									\
	"ldr x16, [x10, #88]\n\t"								\
	"mov w14, w12\n\t"									\
	"orr x14, x14, x9, lsl #32\n\t"	/* what state is, if it is valid and ours */	\
	"orr x13, x8, #0xffff\n\t"								\
	"cmp x14, x16\n\t"									\
	"b.eq 13f\n\t"										\
	"mov w14, #31\n\t"			/* a thread record */				\
	"strb w14, [x11]\n\t"									\
	"stur x13, [x11, #1]\n\t"								\
	"stur w9, [x11, #9]\n\t"								\
	"add x11, x11, #13\n\t"								\
	"b 14f\n"										\
	"13:\n\t"										\
	"ldr x16, [x10, #8]\n\t"								\
	"and w14, w8, #0xffff\n\t"								\
	"cmp w14, #29\n\t"									\
	"b.hi 16f\n\t"										\
	"sub x13, x13, x16\n\t"								\
	"lsr x13, x13, #43\n\t"								\
	"cbnz x13, 16f\n\t"									\
	"lsr x13, x8, #11\n\t"			/* a short header */				\
	"bfi w13, w8, #0, #5\n\t"								\
	"str w13, [x11]\n\t"									\
	"sub x11, x11, #8\n\t"									\
	"sub x12, x12, #18\n\t"		/* shorter than step says */			\
	"b 15f\n"										\
	"16:\n\t"										\
	"sub x12, x12, #13\n"									\
	"14:\n\t"				/* an extended one */				\
	"mov w14, #31\n\t"									\
	"strb w14, [x11]\n\t"									\
	"stur x8, [x11, #1]\n\t"								\
	"sub x11, x11, #3\n"									\
	"15:\n\t"										\
	"cmp %[segs], %[segs_end]\n\t"		/* there may be no payload */			\
	"b.hs 53f\n\t"

/* Stores state, last and head. */
#define KYMO__COMPACT_COMMIT									\
	"53:\n\t"										\
	"add x12, x12, %[step]\n\t"								\
	"ldr x9, [%[slot], #56]\n\t"								\
	"ldr w9, [x15, x9]\n\t"								\
	"mov w14, w12\n\t"									\
	"orr x14, x14, x9, lsl #32\n\t"							\
	"add x13, x10, #88\n\t"								\
	"stlr x14, [x13]\n\t"									\
	KYMO__COMPACT_STOP									\
	"add x13, x10, #8\n\t"									\
	"stlr x8, [x13]\n"									\
	KYMO__SEQ_STORE_HEAD									\
	KYMO__SEQ_CLEAR_ANEW

/* Of a slot that nobody holds: whether its memory has compact records, and these no contexts. */
#define KYMO__COMPACT_CHECK									\
	"ldr w9, [%[slot], #68]\n\t"								\
	"cmp w9, #1\n\t"									\
	"b.ne 96b\n\t"
/* clang-format on */

/* kymo__sequence_compact: as in x86_64/compact.h. */
KYMO__INLINE int kymo__sequence_compact(const struct kymo_slot *slot, const struct kymo_event *event,
					uint64_t step, const struct kymo_seg *segs,
					const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_BEGIN KYMO__COMPACT_OPEN(KYMO__SEQ_CLOCK), KYMO__COMPACT_COMMIT,
		       [segs] "r"(segs), [segs_end] "r"(segs_end));
	return 1;
out:
	return 0;
}

/* kymo__sequence_compact_alone: as in x86_64/compact.h. */
KYMO__INLINE int kymo__sequence_compact_alone(const struct kymo_slot *slot, const struct kymo_event *event,
					      uint64_t step, const struct kymo_seg *segs,
					      const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_BEGIN KYMO__COMPACT_OPEN(KYMO__SEQ_CLOCK KYMO__COMPACT_CHECK),
		       KYMO__COMPACT_COMMIT, [segs] "r"(segs), [segs_end] "r"(segs_end));
	return 1;
out:
	return 0;
}

#endif
