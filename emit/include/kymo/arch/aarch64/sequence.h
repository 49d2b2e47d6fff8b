/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence of x86_64/sequence.h, from the same pseudocode, for 64-bit Arm
 * [ring.md 5.1]. What is different:
 *
 * The clock is the generic timer's virtual count. The processor may read it early, and two readings of it
 * in either order. So an isb stands in front: it ends all that was before, the clock read of the record before
 * this one included. None stands behind: the word goes into the ring, and head is stored after it. The
 * isb stands behind the branch on cpu_count: that orders the loads of the slot's other members behind that
 * of cpu_count, for a slot that is taken for another session meanwhile.
 *
 * Memory is weakly ordered. head is published by a store-release (stlr), and so is lost_full by the same
 * instruction. tail is loaded plainly: a store does not go ahead of a branch that depends on a load, and the
 * stores into the ring are behind the test for room. (An ldar would wait for the stlr of the record before.)
 *
 * Conditional branches reach 1 MiB only, and a compiler may put out elsewhere. So they go to 96, which
 * goes on to out.
 *
 * Offsets: struct rseq cpu_id 4, rseq_cs 8; struct kymo_ring head 0, last 8, tail 16, lost_full 24;
 * struct kymo_slot as asserted in runtime.h.
 */
#ifndef KYMO_ARCH_AARCH64_SEQUENCE_H
#define KYMO_ARCH_AARCH64_SEQUENCE_H

#include "../../runtime.h"

/* The signature that glibc registers, and that stands before each abort address: brk #0x45e0. */
#define KYMO__RSEQ_SIGNATURE "0xd428bc00"

/* clang-format off */
/* 3: where the sequence is, from 1 to 2; abort goes to 4. x15 = thread pointer, x8 = rseq, x10 = 3 out. */
#define KYMO__SEQ_DESCRIBE									\
	".pushsection __rseq_cs, \"aw\"\n\t"							\
	".balign 32\n"										\
	"3:\n\t"										\
	".long 0, 0\n\t"									\
	".quad 1f, 2f - 1f, 4f\n\t"								\
	".popsection\n\t"									\
	".pushsection __rseq_cs_ptr_array, \"aw\"\n\t"						\
	".quad 3b\n\t"										\
	".popsection\n\t"									\
	".pushsection __rseq_failure, \"ax\"\n\t"						\
	".balign 4\n\t"										\
	".inst " KYMO__RSEQ_SIGNATURE "\n"							\
	"4:\n\t"										\
	"b %l[out]\n\t"										\
	".popsection\n\t"									\
	"ldr x9, [%[slot], #48]\n\t"								\
	"cbz x9, 96f\n\t"									\
	"mrs x15, tpidr_el0\n\t"								\
	"add x8, x15, x9\n\t"									\
	"adrp x10, 3b\n\t"									\
	"add x10, x10, :lo12:3b\n\t"

#define KYMO__SEQ_BEGIN										\
	KYMO__SEQ_DESCRIBE									\
	"str x10, [x8, #8]\n"									\
	"1:\n\t"

#define KYMO__SEQ_CLEAR "str xzr, [x8, #8]\n\t"

/* The same, where x8 is no longer rseq: not there if a handler has forked, which wipes the slot. */
#define KYMO__SEQ_CLEAR_ANEW									\
	"ldr x9, [%[slot], #48]\n\t"								\
	"cbz x9, 98f\n\t"									\
	"add x9, x15, x9\n\t"									\
	"str xzr, [x9, #8]\n"									\
	"98:\n\t"

/*
 * Up to the place of the record: x15 = thread pointer, x8 = rseq in; x9 = tid, x10 = ring, x11 = p, x12 = head,
 * x13 = header word out. Clobbers x14. longer goes to 96 where a record is longer than slot.room; aside is
 * code that is jumped to; clock reads the clock to x13; end puts the low half of x12 + step into w14.
 */
#define KYMO__SEQ_AT(longer, aside, clock, end)							\
	"ldr w14, [x8, #4]\n\t"									\
	"ldr w10, [%[slot], #8]\n\t"								\
	"cmp w14, w10\n\t"									\
	"b.lo 11f\n"										\
	"96: b %l[out]\n"									\
	aside											\
	"10:\n\t"				/* full */					\
	"ldr w13, [%[slot], #64]\n\t"								\
	"cbz w13, 96b\n\t"									\
	"ldr w13, [%[slot], #12]\n\t"								\
	longer											\
	"ldr x12, [x10, #24]!\n\t"								\
	"add x12, x12, #1\n\t"									\
	"b 12f\n"										\
	"11:\n\t"										\
	clock											\
	"ldr w11, [%[slot], #20]\n\t"								\
	"ldrh w12, [%[event], x11]\n\t"		/* x12: id */					\
	"cbz w12, 96b\n\t"									\
	"orr x13, x12, x13, lsl #16\n\t"	/* x13: header word */				\
	"ldr x11, [%[slot]]\n\t"								\
	"ldr x9, [%[slot], #24]\n\t"								\
	"add x10, x11, x14, lsl #7\n\t"								\
	"madd x11, x14, x9, x11\n\t"								\
	"ldr x9, [%[slot], #32]\n\t"								\
	"add x11, x11, x9\n\t"									\
	"ldr x12, [x10]\n\t"									\
	"ldr w9, [x10, #16]\n\t"								\
	end											\
	"sub w14, w14, w9\n\t"									\
	"ldr w9, [%[slot], #12]\n\t"								\
	"cmp w14, w9\n\t"									\
	"b.hi 10b\n\t"										\
	"ldr w9, [%[slot], #16]\n\t"								\
	"and w9, w9, w12\n\t"									\
	"add x11, x11, x9\n\t"									\
	"ldr x9, [%[slot], #56]\n\t"								\
	"ldr w9, [x15, x9]\n\t"									\
	"cbz w9, 96b\n\t"

/* Up to the first 12 bytes of the record. Clobbers x9, x13, x14. */
#define KYMO__SEQ_OPEN(longer, aside, clock, end)						\
	KYMO__SEQ_AT(longer, aside, clock, end)							\
	"str x13, [x11]\n\t"									\
	"str x13, [x10, #8]\n\t"								\
	"str w9, [x11, #8]\n\t"

#define KYMO__SEQ_CLOCK										\
	"isb\n\t"										\
	"mrs x13, cntvct_el0\n\t"

/* Where step is in a register. */
#define KYMO__SEQ_LONGER									\
	"cmp %w[step], w13\n\t"									\
	"b.hi 96b\n\t"
#define KYMO__SEQ_STEP_END "add w14, w12, %w[step]\n\t"
#define KYMO__SEQ_STEP KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", KYMO__SEQ_CLOCK, KYMO__SEQ_STEP_END)

/* The publishing store, the last of the sequence; of a record that is lost, the one that counts it. */
#define KYMO__SEQ_STORE_HEAD									\
	"12:\n\t"										\
	"stlr x12, [x10]\n"									\
	"2:\n\t"
#define KYMO__SEQ_COMMIT "add x12, x12, %[step]\n" KYMO__SEQ_STORE_HEAD

#define KYMO__SEQ_INPUTS [slot] "r"(slot), [event] "r"(event), [step] "r"(step)
#define KYMO__SEQ_CLOBBERS "memory", "cc", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17"

/* An event's own record, as in x86_64/sequence.h. */
#define KYMO__SEQ_FIELD(n)								\
	"ldr x9, [%[fields], #%c[from_" #n "]]\n\tstur x9, [x11, #%c[at_" #n "]]\n\t"
#define KYMO__SEQ_COUNT(n) "stur %[tail_bytes], [x11, #%c[at_" #n "]]\n\t"

#define KYMO__SEQ_OWN_STEP									\
	"mov x9, #%c[record]\n\t"								\
	"add x12, x12, #%c[bytes]\n\t"								\
	"add x12, x12, x9\n"

#define KYMO__SEQ_TAIL_MAX 256u
#define KYMO__SEQ_FIELDS_AND_TAIL(slot_, event_, bytes_, fields_, tail_, tail_bytes_, stores, ...)\
	__asm__ goto(KYMO__SEQ_BEGIN								\
		KYMO__SEQ_OPEN("add w14, %w[tail_bytes], #%c[bytes]\n\tcmp w14, w13\n\tb.hi 96b\n\t", \
			       KYMO__SEQ_TAIL_ASIDE, KYMO__SEQ_CLOCK,				\
			       "add w14, w12, #%c[bytes]\n\tadd w14, w14, %w[tail_bytes]\n\t")	\
		stores										\
		"add x13, x11, #%c[bytes]\n\t"		/* x13: to */				\
		"sub x14, %[tail_bytes], #8\n\t"						\
		"cmp x14, #8\n\t"								\
		"b.hi 7b\n\t"									\
		"ldr x9, [%[tail]]\n\t"		/* 8 to 16: the first and the last 8 */		\
		"str x9, [x13]\n"								\
		"6:\n\t"									\
		"ldr x9, [%[tail], x14]\n\t"							\
		"str x9, [x13, x14]\n"								\
		"9:\n\t"									\
		"add x12, x12, %[tail_bytes]\n\t"						\
		KYMO__SEQ_OWN_STEP								\
		KYMO__SEQ_STORE_HEAD								\
		KYMO__SEQ_CLEAR									\
		:										\
		: [slot] "r"(slot_), [event] "r"(&(event_)), [bytes] "i"(bytes_),		\
		  [record] "i"(KYMO_ONE_RECORD), [fields] "r"(fields_), [tail] "r"(tail_),	\
		  [tail_bytes] "r"(tail_bytes_) __VA_ARGS__					\
		: KYMO__SEQ_CLOBBERS								\
		: out)

/* Other lengths of a tail. No input may change: out is entered from anywhere, and needs them. x14 = tail_bytes - 8. */
#define KYMO__SEQ_TAIL_ASIDE									\
	"7:\n\t"										\
	"cmp %[tail_bytes], #8\n\t"								\
	"b.lo 75f\n\t"										\
	"mov x14, #0\n"			/* more than 16: words, then the last 8 */		\
	"71:\n\t"										\
	"ldr x9, [%[tail], x14]\n\t"								\
	"str x9, [x13, x14]\n\t"								\
	"add x14, x14, #8\n\t"									\
	"add x9, x14, #8\n\t"									\
	"cmp x9, %[tail_bytes]\n\t"								\
	"b.lo 71b\n\t"										\
	"sub x14, %[tail_bytes], #8\n\t"							\
	"b 6f\n"										\
	"75:\n\t"				/* 4 to 7: the first and the last 4 */		\
	"tbz %w[tail_bytes], #2, 76f\n\t"							\
	"ldr w9, [%[tail]]\n\t"									\
	"str w9, [x13]\n\t"									\
	"sub x14, %[tail_bytes], #4\n\t"							\
	"ldr w9, [%[tail], x14]\n\t"								\
	"str w9, [x13, x14]\n\t"								\
	"b 9f\n"										\
	"76:\n\t"				/* 1 to 3: the first, the middle and the last */ \
	"cbz %[tail_bytes], 9f\n\t"								\
	"ldrb w9, [%[tail]]\n\t"								\
	"strb w9, [x13]\n\t"									\
	"lsr x14, %[tail_bytes], #1\n\t"							\
	"ldrb w9, [%[tail], x14]\n\t"								\
	"strb w9, [x13, x14]\n\t"								\
	"sub x14, %[tail_bytes], #1\n\t"							\
	"ldrb w9, [%[tail], x14]\n\t"								\
	"strb w9, [x13, x14]\n\t"								\
	"b 9f\n"

#define KYMO__SEQ_WORDS(stores, ...)								\
	__asm__ goto(KYMO__SEQ_BEGIN								\
		KYMO__SEQ_STEP									\
		stores										\
		KYMO__SEQ_COMMIT								\
		KYMO__SEQ_CLEAR									\
		:										\
		: KYMO__SEQ_INPUTS, __VA_ARGS__							\
		: KYMO__SEQ_CLOBBERS								\
		: out)
/* clang-format on */

/* kymo__sequence_words: as in x86_64/sequence.h. */
KYMO__INLINE int kymo__sequence_words(const struct kymo_slot *slot, const struct kymo_event *event,
				      uint64_t step, unsigned word_count, uint64_t w0, uint64_t w1,
				      uint64_t w2, uint64_t w3)
{
	if (word_count <= 1)
		KYMO__SEQ_WORDS("stur %[w0], [x11, #12]\n\t", [w0] "r"(w0));
	else if (word_count == 2)
		KYMO__SEQ_WORDS("stur %[w0], [x11, #12]\n\t"
				"stur %[w1], [x11, #20]\n\t",
				[w0] "r"(w0), [w1] "r"(w1));
	else if (word_count == 3)
		KYMO__SEQ_WORDS("stur %[w0], [x11, #12]\n\t"
				"stur %[w1], [x11, #20]\n\t"
				"stur %[w2], [x11, #28]\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2));
	else
		KYMO__SEQ_WORDS("stur %[w0], [x11, #12]\n\t"
				"stur %[w1], [x11, #20]\n\t"
				"stur %[w2], [x11, #28]\n\t"
				"stur %[w3], [x11, #36]\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2), [w3] "r"(w3));
	return 1;
out:
	return 0;
}

/* clang-format off */
/*
 * Copies x14 bytes from x13 to x11, which moves; goes on at label next. Clobbers x9, x13, x14, x16. A
 * piece of the assembly below.
 */
#define KYMO__SEQ_COPY(next)									\
	"cmp x14, #16\n\t"									\
	"b.hi 7f\n\t"										\
	"cmp x14, #8\n\t"									\
	"b.lo 75f\n"										\
	"ldr x9, [x13]\n\t"			/* 8 to 16: the first and the last 8 */		\
	"add x13, x13, x14\n\t"									\
	"ldur x16, [x13, #-8]\n\t"								\
	"str x9, [x11]\n\t"									\
	"add x11, x11, x14\n\t"									\
	"stur x16, [x11, #-8]\n\t"								\
	"b " next "\n"										\
	"7:\n\t"				/* more than 16: the last 16 again */		\
	"ldp x9, x16, [x13], #16\n\t"								\
	"stp x9, x16, [x11], #16\n\t"								\
	"sub x14, x14, #16\n\t"									\
	"cmp x14, #16\n\t"									\
	"b.hi 7b\n\t"										\
	"add x13, x13, x14\n\t"									\
	"ldp x9, x16, [x13, #-16]\n\t"								\
	"add x11, x11, x14\n\t"									\
	"stp x9, x16, [x11, #-16]\n\t"								\
	"b " next "\n"										\
	"75:\n\t"				/* less than 8 */				\
	"tbz w14, #2, 76f\n\t"									\
	"ldr w9, [x13]\n\t"									\
	"add x13, x13, x14\n\t"									\
	"ldur w16, [x13, #-4]\n\t"								\
	"str w9, [x11]\n\t"									\
	"add x11, x11, x14\n\t"									\
	"stur w16, [x11, #-4]\n\t"								\
	"b " next "\n"										\
	"76:\n\t"										\
	"tbz w14, #1, 77f\n\t"									\
	"ldrh w9, [x13], #2\n\t"								\
	"strh w9, [x11], #2\n"									\
	"77:\n\t"										\
	"tbz w14, #0, " next "\n\t"								\
	"ldrb w9, [x13]\n\t"									\
	"strb w9, [x11], #1\n\t"								\
	"b " next "\n"

/* The payload from pieces, from x11 + 12 on, behind begin; end publishes. */
#define KYMO__SEQ_SEGS(begin, end, ...)								\
	__asm__ goto(begin									\
		"mov x17, %[segs]\n\t"			/* x17: segment */			\
		"add x11, x11, #12\n"			/* x11: to */				\
		"5:\n\t"									\
		"ldp x13, x14, [x17], #16\n\t"		/* x13: from, x14: bytes */		\
		"tbnz x14, #63, 51f\n\t"							\
		KYMO__SEQ_COPY("65f")								\
		"51:\n\t"				/* whole words; the next piece overwrites what is too much */ \
		"and x14, x14, #0x7fffffffffffffff\n\t"						\
		"add x16, x11, x14\n"								\
		"52:\n\t"									\
		"ldr x9, [x13], #8\n\t"								\
		"str x9, [x11], #8\n\t"								\
		"cmp x11, x16\n\t"								\
		"b.lo 52b\n\t"									\
		"mov x11, x16\n"								\
		"65:\n\t"				/* next */				\
		"cmp x17, %[segs_end]\n\t"							\
		"b.lo 5b\n\t"									\
		end										\
		:										\
		: KYMO__SEQ_INPUTS, __VA_ARGS__							\
		: KYMO__SEQ_CLOBBERS								\
		: out)
/* clang-format on */

/* kymo__sequence_segs: as in x86_64/sequence.h. */
KYMO__INLINE int kymo__sequence_segs(const struct kymo_slot *slot, const struct kymo_event *event,
				     uint64_t step, const struct kymo_seg *segs,
				     const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS(KYMO__SEQ_BEGIN KYMO__SEQ_STEP, KYMO__SEQ_COMMIT KYMO__SEQ_CLEAR,
		       [segs] "r"(segs), [segs_end] "r"(segs_end));
	return 1;
out:
	return 0;
}

KYMO__INLINE char *kymo__thread_pointer(void)
{
	char *pointer;

	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
	return pointer;
}

/* After an attempt that did not write: the kernel must not find our descriptor later. */
KYMO__INLINE void kymo__sequence_clear(intptr_t rseq_offset)
{
	*(volatile uint64_t *)(void *)(kymo__thread_pointer() + rseq_offset + 8) = 0;
}

/*
 * The CPU that the calling thread is on, as the kernel last wrote it; huge where the thread is not
 * registered.
 */
KYMO__INLINE uint32_t kymo__sequence_cpu(intptr_t rseq_offset)
{
	return *(volatile uint32_t *)(void *)(kymo__thread_pointer() + rseq_offset + 4);
}

#endif
