/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence that writes a whole record and publishes it with its last store
 * [ring.md 5.1]. Two forms: a payload of 1 to 4 words held in registers, and a payload gathered from pieces.
 *
 *	rseq.rseq_cs = &descriptor
 *   1:	cpu = rseq.cpu_id;			if cpu >= slot.cpu_count goto nowhere
 *	ring, data = slot.lanes[cpu]
 *	h = ring.head
 *	if low(h) - low(ring.tail) + bytes > slot.room goto full
 *	p = data + (low(h) & slot.mask)
 *	word = tsc << 16;			if *id == 0 goto off
 *	word |= *id
 *	p[0] = word, ring.last = word, p[1...] = payload
 *	ring.head = h + bytes + 2^32
 *   2:	rseq.rseq_cs = 0			(a library may be unmapped later; the kernel must not look there)
 *   4:	abort, entered by the kernel: the caller decides whether to start again
 *
 * Offsets: struct rseq cpu_id 4, rseq_cs 8; struct kymo_slot lanes 0, cpu_count 8, room 12, mask 16;
 * struct kymo_lane ring 0, data 8; struct kymo_ring head 0, last 8, tail 16. The headers below us assert them.
 */
#ifndef KYMO_ARCH_X86_64_SEQUENCE_H
#define KYMO_ARCH_X86_64_SEQUENCE_H

#include "../../runtime.h"

/* The signature that glibc registers; it stands before each abort address, inside an undefined instruction. */
#define KYMO__RSEQ_SIGNATURE "0x53053053"

#define KYMO__SEQ_BEGIN                                                                            \
	".pushsection __rseq_cs, \"aw\"\n\t"                                                       \
	".balign 32\n"                                                                             \
	"3:\n\t"                                                                                   \
	".long 0, 0\n\t"                                                                           \
	".quad 1f, 2f - 1f, 4f\n\t"                                                                \
	".popsection\n\t"                                                                          \
	".pushsection __rseq_cs_ptr_array, \"aw\"\n\t"                                             \
	".quad 3b\n\t"                                                                             \
	".popsection\n\t"                                                                          \
	"leaq 3b(%%rip), %%rax\n\t"                                                                \
	"movq %%rax, %%fs:8(%[rseq])\n"                                                            \
	"1:\n\t"

#define KYMO__SEQ_END                                                                              \
	"2:\n\t"                                                                                   \
	"movq $0, %%fs:8(%[rseq])\n\t"                                                             \
	".pushsection __rseq_failure, \"ax\"\n\t"                                                  \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                               \
	".long " KYMO__RSEQ_SIGNATURE "\n"                                                         \
	"4:\n\t"                                                                                   \
	"jmp %l[aborted]\n\t"                                                                      \
	".popsection\n\t"

/* clang-format off */
#define KYMO__SEQ_WORDS(stores, ...)                                                               \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		"movl %%fs:4(%[rseq]), %%eax\n\t"                                                  \
		"cmpl 8(%[slot]), %%eax\n\t"                                                       \
		"jae %l[nowhere]\n\t"                                                              \
		"movq 0(%[slot]), %%rcx\n\t"                                                       \
		"shlq $4, %%rax\n\t"                                                               \
		"movq 8(%%rcx,%%rax), %%r8\n\t"         /* r8: data */                             \
		"movq (%%rcx,%%rax), %%rcx\n\t"         /* rcx: ring */                            \
		"movq (%%rcx), %%r9\n\t"                /* r9: head */                             \
		"movl %%r9d, %%eax\n\t"                                                            \
		"subl 16(%%rcx), %%eax\n\t"                                                        \
		"addl %k[bytes], %%eax\n\t"                                                        \
		"cmpl 12(%[slot]), %%eax\n\t"                                                      \
		"ja %l[full]\n\t"                                                                  \
		"movl 16(%[slot]), %%eax\n\t"                                                      \
		"andl %%r9d, %%eax\n\t"                                                            \
		"addq %%rax, %%r8\n\t"                  /* r8: where the record goes */            \
		"rdtsc\n\t"                                                                        \
		"shlq $32, %%rdx\n\t"                                                              \
		"orq %%rdx, %%rax\n\t"                                                             \
		"shlq $16, %%rax\n\t"                                                              \
		"movzwl (%[id]), %%edx\n\t"                                                        \
		"testl %%edx, %%edx\n\t"                                                           \
		"jz %l[off]\n\t"                                                                   \
		"orq %%rdx, %%rax\n\t"                  /* rax: header word */                     \
		"movq %%rax, (%%r8)\n\t"                                                           \
		"movq %%rax, 8(%%rcx)\n\t"                                                         \
		stores                                                                             \
		"movabsq $0x100000000, %%rax\n\t"                                                  \
		"addq %[bytes], %%r9\n\t"                                                          \
		"addq %%rax, %%r9\n\t"                                                             \
		"movq %%r9, (%%rcx)\n"                  /* the publishing store */                 \
		KYMO__SEQ_END                                                                      \
		:                                                                                  \
		: [rseq] "r"(rseq), [slot] "r"(slot), [id] "r"(id), [bytes] "er"(bytes),           \
		  __VA_ARGS__                                                                      \
		: "memory", "cc", "rax", "rcx", "rdx", "r8", "r9"                                  \
		: off, full, nowhere, aborted)
/* clang-format on */

enum kymo_outcome {
	KYMO_WRITTEN,
	KYMO_OFF,     /* this event is not wanted here any more */
	KYMO_FULL,
	KYMO_NOWHERE, /* the session is gone, or has no lane for this CPU */
	KYMO_ABORTED,
};

/*
 * kymo__sequence_words: one attempt to write a record of bytes bytes (header included) whose payload is in w.
 * word_count is a constant in optimised code, so one of the four forms remains.
 * Returns: enum kymo_outcome. Only KYMO_WRITTEN has changed anything.
 */
KYMO__INLINE int kymo__sequence_words(intptr_t rseq, const struct kymo_slot *slot,
				      const uint16_t *id, uint64_t bytes, unsigned word_count,
				      uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3)
{
	if (word_count <= 1)
		KYMO__SEQ_WORDS("movq %[w0], 8(%%r8)\n\t", [w0] "r"(w0));
	else if (word_count == 2)
		KYMO__SEQ_WORDS("movq %[w0], 8(%%r8)\n\t"
				"movq %[w1], 16(%%r8)\n\t",
				[w0] "r"(w0), [w1] "r"(w1));
	else if (word_count == 3)
		KYMO__SEQ_WORDS("movq %[w0], 8(%%r8)\n\t"
				"movq %[w1], 16(%%r8)\n\t"
				"movq %[w2], 24(%%r8)\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2));
	else
		KYMO__SEQ_WORDS("movq %[w0], 8(%%r8)\n\t"
				"movq %[w1], 16(%%r8)\n\t"
				"movq %[w2], 24(%%r8)\n\t"
				"movq %[w3], 32(%%r8)\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2), [w3] "r"(w3));
	return KYMO_WRITTEN;
off:
	return KYMO_OFF;
full:
	return KYMO_FULL;
nowhere:
	return KYMO_NOWHERE;
aborted:
	return KYMO_ABORTED;
}

/* What the gathering form needs, in memory, because registers are short. The assembly knows the offsets. */
struct kymo__gather {
	const struct kymo_slot *slot;
	const uint16_t *id;
	const struct kymo_seg *segs, *segs_end;
	uint64_t bytes; /* of the record, header included */
};
KYMO_CHECK_OFFSET(struct kymo__gather, segs, 16);
KYMO_CHECK_OFFSET(struct kymo__gather, bytes, 32);

/*
 * kymo__sequence_segs: as kymo__sequence_words, the payload copied from pieces inside the sequence.
 * Pieces of 256 bytes and more go by "rep movsb", shorter ones by words.
 */
KYMO__INLINE int kymo__sequence_segs(intptr_t rseq, const struct kymo__gather *gather)
{
	/* clang-format off */
	__asm__ goto(KYMO__SEQ_BEGIN
		"movq 0(%[gather]), %%rsi\n\t"          /* rsi: slot */
		"movl %%fs:4(%[rseq]), %%eax\n\t"
		"cmpl 8(%%rsi), %%eax\n\t"
		"jae %l[nowhere]\n\t"
		"movq 0(%%rsi), %%r8\n\t"
		"shlq $4, %%rax\n\t"
		"movq 8(%%r8,%%rax), %%rdi\n\t"         /* rdi: data */
		"movq (%%r8,%%rax), %%r8\n\t"           /* r8: ring */
		"movq (%%r8), %%r9\n\t"                 /* r9: head */
		"movl %%r9d, %%eax\n\t"
		"subl 16(%%r8), %%eax\n\t"
		"addl 32(%[gather]), %%eax\n\t"
		"cmpl 12(%%rsi), %%eax\n\t"
		"ja %l[full]\n\t"
		"movl 16(%%rsi), %%eax\n\t"
		"andl %%r9d, %%eax\n\t"
		"addq %%rax, %%rdi\n\t"                 /* rdi: where the record goes */
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rdx, %%rax\n\t"
		"shlq $16, %%rax\n\t"
		"movq 8(%[gather]), %%rdx\n\t"
		"movzwl (%%rdx), %%edx\n\t"
		"testl %%edx, %%edx\n\t"
		"jz %l[off]\n\t"
		"orq %%rdx, %%rax\n\t"
		"movq %%rax, (%%rdi)\n\t"
		"movq %%rax, 8(%%r8)\n\t"
		"addq $8, %%rdi\n\t"
		"movq 16(%[gather]), %%rdx\n"           /* rdx: segment */
		"5:\n\t"
		"cmpq 24(%[gather]), %%rdx\n\t"
		"jae 9f\n\t"
		"movq (%%rdx), %%rsi\n\t"
		"movq 8(%%rdx), %%rcx\n\t"
		"addq $16, %%rdx\n\t"
		"cmpq $256, %%rcx\n\t"
		"jae 8f\n"
		"6:\n\t"
		"subq $8, %%rcx\n\t"
		"jb 7f\n\t"
		"movq (%%rsi), %%rax\n\t"
		"movq %%rax, (%%rdi)\n\t"
		"addq $8, %%rsi\n\t"
		"addq $8, %%rdi\n\t"
		"jmp 6b\n"
		"7:\n\t"                                /* rcx: rest - 8, same low bits */
		"testb $4, %%cl\n\t"
		"jz 71f\n\t"
		"movl (%%rsi), %%eax\n\t"
		"movl %%eax, (%%rdi)\n\t"
		"addq $4, %%rsi\n\t"
		"addq $4, %%rdi\n"
		"71:\n\t"
		"testb $2, %%cl\n\t"
		"jz 72f\n\t"
		"movzwl (%%rsi), %%eax\n\t"
		"movw %%ax, (%%rdi)\n\t"
		"addq $2, %%rsi\n\t"
		"addq $2, %%rdi\n"
		"72:\n\t"
		"testb $1, %%cl\n\t"
		"jz 5b\n\t"
		"movzbl (%%rsi), %%eax\n\t"
		"movb %%al, (%%rdi)\n\t"
		"addq $1, %%rdi\n\t"
		"jmp 5b\n"
		"8:\n\t"
		"rep movsb\n\t"
		"jmp 5b\n"
		"9:\n\t"
		"movabsq $0x100000000, %%rax\n\t"
		"addq 32(%[gather]), %%r9\n\t"
		"addq %%rax, %%r9\n\t"
		"movq %%r9, (%%r8)\n"                   /* the publishing store */
		KYMO__SEQ_END
		:
		: [rseq] "r"(rseq), [gather] "r"(gather)
		: "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9"
		: off, full, nowhere, aborted);
	/* clang-format on */
	return KYMO_WRITTEN;
off:
	return KYMO_OFF;
full:
	return KYMO_FULL;
nowhere:
	return KYMO_NOWHERE;
aborted:
	return KYMO_ABORTED;
}

/*
 * kymo__sequence_count: adds 1 to the loss counter at byte offset counter_offset of the control block of the CPU that it runs on.
 * Returns: KYMO_WRITTEN (counted), KYMO_NOWHERE, KYMO_ABORTED.
 */
KYMO__INLINE int kymo__sequence_count(intptr_t rseq, const struct kymo_slot *slot,
				      uintptr_t counter_offset)
{
	/* clang-format off */
	__asm__ goto(KYMO__SEQ_BEGIN
		"movl %%fs:4(%[rseq]), %%eax\n\t"
		"cmpl 8(%[slot]), %%eax\n\t"
		"jae %l[nowhere]\n\t"
		"movq 0(%[slot]), %%rcx\n\t"
		"shlq $4, %%rax\n\t"
		"movq (%%rcx,%%rax), %%rcx\n\t"
		"addq $1, (%%rcx,%[counter])\n"
		KYMO__SEQ_END
		:
		: [rseq] "r"(rseq), [slot] "r"(slot), [counter] "r"(counter_offset)
		: "memory", "cc", "rax", "rcx"
		: nowhere, aborted);
	/* clang-format on */
	return KYMO_WRITTEN;
nowhere:
	return KYMO_NOWHERE;
aborted:
	return KYMO_ABORTED;
}

KYMO__INLINE char *kymo__thread_pointer(void)
{
	char *pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* After an outcome that left the sequence early: the kernel must not find our descriptor later. */
KYMO__INLINE void kymo__sequence_clear(intptr_t rseq)
{
	__asm__ __volatile__("movq $0, %%fs:8(%0)" : : "r"(rseq) : "memory");
}

#endif
