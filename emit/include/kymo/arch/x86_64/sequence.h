/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence that writes a whole record and publishes it with its last
 * store [ring.md 5.1]. Three forms: a payload of 1 to 4 words held in registers; words in memory
 * and one piece behind them, as an event with a string at its end has; and a payload gathered from
 * any number of pieces.
 *
 *	if slot.rseq_offset == 0 goto out
 *	rseq.rseq_cs = &descriptor
 *   1:	cpu = rseq.cpu_id;			if cpu >= slot.cpu_count goto out
 *	id = event.id[slot];			if id == 0 goto out
 *	ring = rings + cpu * 128; p = rings + data_offset + cpu * stride
 *	word = tsc << 16 | id
 *	h = ring.head
 *	if low(h + step) - low(ring.tail) > slot.room
 *		if not slot.counts_full or low(step) > slot.room goto out
 *		ring.lost_full = ring.lost_full + 1, goto 2
 *	p += low(h) & slot.mask
 *	tid = this thread's;			if tid == 0 goto out
 *	p[0..8) = word, ring.last = word, p[8..12) = tid, p[12...) = payload
 *	ring.head = h + step
 *   2:	rseq.rseq_cs = 0			(a library may be unmapped later; the kernel must not look there)
 *
 * The clock read waits for the loads before it, so only two dependent ones stand there: cpu and
 * what follows from it by arithmetic. head is loaded behind it; nothing can come between on this
 * CPU without a restart.
 *
 * A sequence has one store that takes effect, its last. So a record that finds no room is counted by
 * the same instruction that would have published it, with another address: exactly once.
 *
 * Abort, entered by the kernel, goes to out like everything else that is neither written nor counted:
 * whoever called leaves the rest to libkymo, which finds out why. Offsets: struct rseq cpu_id 4,
 * rseq_cs 8; struct kymo_ring head 0, last 8, tail 16; struct kymo_slot as asserted in runtime.h.
 */
#ifndef KYMO_ARCH_X86_64_SEQUENCE_H
#define KYMO_ARCH_X86_64_SEQUENCE_H

#include "../../runtime.h"

/*
 * The signature that glibc registers; it stands before each abort address, inside an undefined
 * instruction.
 */
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
	"movq 48(%[slot]), %%rdx\n\t"                                                              \
	"testq %%rdx, %%rdx\n\t"                                                                   \
	"jz %l[out]\n\t"                                                                           \
	"leaq 3b(%%rip), %%rax\n\t"                                                                \
	"movq %%rax, %%fs:8(%%rdx)\n"                                                              \
	"1:\n\t"

#define KYMO__SEQ_END                                                                              \
	"2:\n\t"                                                                                   \
	"movq 48(%[slot]), %%rax\n\t"          /* 0: forked just now, by a handler */             \
	"testq %%rax, %%rax\n\t"                                                                   \
	"jz 98f\n\t"                                                                               \
	"movq $0, %%fs:8(%%rax)\n"                                                                 \
	"98:\n\t"                                                                                  \
	".pushsection __rseq_failure, \"ax\"\n\t"                                                  \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                               \
	".long " KYMO__RSEQ_SIGNATURE "\n"                                                         \
	"4:\n\t"                                                                                   \
	"jmp %l[out]\n\t"                                                                          \
	".popsection\n\t"

/* clang-format off */
/*
 * Up to the first 12 bytes of the record: rdx = rseq in; r10 = ring, r11 = p, r8 = head out.
 * Clobbers rax, rdx.
 */
#define KYMO__SEQ_OPEN                                                                             \
	"movl %%fs:4(%%rdx), %%eax\n\t"                                                            \
	"cmpl 8(%[slot]), %%eax\n\t"                                                               \
	"jb 11f\n\t"                                                                               \
	"jmp %l[out]\n"                                                                            \
	"10:\n\t"                               /* full */                                         \
	"cmpl $0, 64(%[slot])\n\t"                                                                 \
	"je %l[out]\n\t"                                                                           \
	"cmpl 12(%[slot]), %k[step]\n\t"                                                           \
	"ja %l[out]\n\t"                                                                           \
	"movq 24(%%r10), %%r8\n\t"                                                                 \
	"addq $1, %%r8\n\t"                                                                        \
	"addq $24, %%r10\n\t"                                                                      \
	"jmp 12f\n"                                                                                \
	"11:\n\t"                                                                                  \
	"movl 20(%[slot]), %%r8d\n\t"                                                              \
	"movzwl (%[event],%%r8), %%r8d\n\t"     /* r8: id */                                       \
	"testl %%r8d, %%r8d\n\t"                                                                   \
	"jz %l[out]\n\t"                                                                           \
	"movq (%[slot]), %%r11\n\t"                                                                \
	"movl %%eax, %%r10d\n\t"                                                                   \
	"shlq $7, %%r10\n\t"                                                                       \
	"addq %%r11, %%r10\n\t"                                                                    \
	"imulq 24(%[slot]), %%rax\n\t"                                                             \
	"addq 32(%[slot]), %%r11\n\t"                                                              \
	"addq %%rax, %%r11\n\t"                                                                    \
	"rdtsc\n\t"                                                                                \
	"shlq $32, %%rdx\n\t"                                                                      \
	"orq %%rdx, %%rax\n\t"                                                                     \
	"shlq $16, %%rax\n\t"                                                                      \
	"orq %%r8, %%rax\n\t"                   /* rax: header word */                             \
	"movq (%%r10), %%r8\n\t"                                                                   \
	"leal (%%r8,%[step]), %%edx\n\t"                                                           \
	"subl 16(%%r10), %%edx\n\t"                                                                \
	"cmpl 12(%[slot]), %%edx\n\t"                                                              \
	"ja 10b\n\t"                                                                               \
	"movl 16(%[slot]), %%edx\n\t"                                                              \
	"andl %%r8d, %%edx\n\t"                                                                    \
	"addq %%rdx, %%r11\n\t"                                                                    \
	"movq 56(%[slot]), %%rdx\n\t"                                                              \
	"movl %%fs:(%%rdx), %%edx\n\t"                                                             \
	"testl %%edx, %%edx\n\t"                                                                   \
	"jz %l[out]\n\t"                                                                           \
	"movq %%rax, (%%r11)\n\t"                                                                  \
	"movq %%rax, 8(%%r10)\n\t"                                                                 \
	"movl %%edx, 8(%%r11)\n\t"

/* The publishing store, the last of the sequence; of a record that is lost, the one that counts it. */
#define KYMO__SEQ_COMMIT                                                                           \
	"addq %[step], %%r8\n"                                                                     \
	"12:\n\t"                                                                                  \
	"movq %%r8, (%%r10)\n"

#define KYMO__SEQ_INPUTS [slot] "r"(slot), [event] "r"(event), [step] "r"(step)

#define KYMO__SEQ_WORDS(stores, ...)                                                               \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		KYMO__SEQ_OPEN                                                                     \
		stores                                                                             \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_END                                                                      \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, __VA_ARGS__                                                    \
		: "memory", "cc", "rax", "rdx", "r8", "r10", "r11"                                 \
		: out)
/* clang-format on */

/*
 * kymo__sequence_words: one attempt to write a record whose payload behind the thread id is in
 * w0..w3, word_count (a constant) of them. step is the record's bytes + KYMO_ONE_RECORD.
 * Returns: 1 when it is written, or counted as lost in a full ring; else 0 and nothing has changed.
 */
KYMO__INLINE int kymo__sequence_words(const struct kymo_slot *slot, const struct kymo_event *event,
				      uint64_t step, unsigned word_count, uint64_t w0, uint64_t w1,
				      uint64_t w2, uint64_t w3)
{
	if (word_count <= 1)
		KYMO__SEQ_WORDS("movq %[w0], 12(%%r11)\n\t", [w0] "r"(w0));
	else if (word_count == 2)
		KYMO__SEQ_WORDS("movq %[w0], 12(%%r11)\n\t"
				"movq %[w1], 20(%%r11)\n\t",
				[w0] "r"(w0), [w1] "r"(w1));
	else if (word_count == 3)
		KYMO__SEQ_WORDS("movq %[w0], 12(%%r11)\n\t"
				"movq %[w1], 20(%%r11)\n\t"
				"movq %[w2], 28(%%r11)\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2));
	else
		KYMO__SEQ_WORDS("movq %[w0], 12(%%r11)\n\t"
				"movq %[w1], 20(%%r11)\n\t"
				"movq %[w2], 28(%%r11)\n\t"
				"movq %[w3], 36(%%r11)\n\t",
				[w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2), [w3] "r"(w3));
	return 1;
out:
	return 0;
}

/* clang-format off */
/*
 * Copies rcx bytes from rsi to rdi, which both move; goes on at label next. Clobbers rax. A piece
 * of the assembly below.
 */
#define KYMO__SEQ_COPY(next)                                                                       \
	"cmpq $16, %%rcx\n\t"                                                                      \
	"ja 7f\n\t"                                                                                \
	"cmpq $8, %%rcx\n\t"                                                                       \
	"jb 75f\n"                                                                                 \
	"6:\n\t"                                /* 8 to 16: the first and the last 8 */            \
	"movq (%%rsi), %%rax\n\t"                                                                  \
	"movq -8(%%rsi,%%rcx), %%rsi\n\t"                                                          \
	"movq %%rax, (%%rdi)\n\t"                                                                  \
	"movq %%rsi, -8(%%rdi,%%rcx)\n\t"                                                          \
	"addq %%rcx, %%rdi\n\t"                                                                    \
	"jmp " next "\n"                                                                           \
	"7:\n\t"                                /* more than 16 */                                 \
	"cmpq $256, %%rcx\n\t"                                                                     \
	"jae 8f\n"                                                                                 \
	"71:\n\t"                                                                                  \
	"movq (%%rsi), %%rax\n\t"                                                                  \
	"movq %%rax, (%%rdi)\n\t"                                                                  \
	"addq $8, %%rsi\n\t"                                                                       \
	"addq $8, %%rdi\n\t"                                                                       \
	"subq $8, %%rcx\n\t"                                                                       \
	"cmpq $16, %%rcx\n\t"                                                                      \
	"ja 71b\n\t"                                                                               \
	"jmp 6b\n"                                                                                 \
	"75:\n\t"                               /* less than 8 */                                  \
	"testb $4, %%cl\n\t"                                                                       \
	"jz 76f\n\t"                                                                               \
	"movl (%%rsi), %%eax\n\t"                                                                  \
	"movl %%eax, (%%rdi)\n\t"                                                                  \
	"movl -4(%%rsi,%%rcx), %%eax\n\t"                                                          \
	"movl %%eax, -4(%%rdi,%%rcx)\n\t"                                                          \
	"addq %%rcx, %%rdi\n\t"                                                                    \
	"jmp " next "\n"                                                                           \
	"76:\n\t"                                                                                  \
	"testb $2, %%cl\n\t"                                                                       \
	"jz 77f\n\t"                                                                               \
	"movzwl (%%rsi), %%eax\n\t"                                                                \
	"movw %%ax, (%%rdi)\n\t"                                                                   \
	"addq $2, %%rsi\n\t"                                                                       \
	"addq $2, %%rdi\n"                                                                         \
	"77:\n\t"                                                                                  \
	"testb $1, %%cl\n\t"                                                                       \
	"jz " next "\n\t"                                                                          \
	"movzbl (%%rsi), %%eax\n\t"                                                                \
	"movb %%al, (%%rdi)\n\t"                                                                   \
	"addq $1, %%rdi\n\t"                                                                       \
	"jmp " next "\n"                                                                           \
	"8:\n\t"                                                                                   \
	"rep movsb\n\t"                                                                            \
	"jmp " next "\n"

#define KYMO__SEQ_TAIL(words_moved)                                                                \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		KYMO__SEQ_OPEN                                                                     \
		words_moved                                                                        \
		"movq %[tail], %%rsi\n\t"                                                          \
		"movq %[tail_bytes], %%rcx\n\t"                                                    \
		"leaq 12(%%r11,%[fixed_bytes]), %%rdi\n\t"                                         \
		KYMO__SEQ_COPY("9f")                                                               \
		"9:\n\t"                                                                           \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_END                                                                      \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, [words] "r"(words), [fixed_bytes] "r"(fixed_bytes),            \
		  [tail] "rm"(tail), [tail_bytes] "rm"(tail_bytes)                                 \
		: "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11"            \
		: out)

#define KYMO__SEQ_MOVE(at) "movq " #at "(%[words]), %%rax\n\tmovq %%rax, 12+" #at "(%%r11)\n\t"
/* clang-format on */

/*
 * kymo__sequence_tail: as kymo__sequence_words, for fixed_bytes (1 to 32, word_count words of them,
 * a constant) in words, followed by tail_bytes from tail. Whole words go first; the tail overwrites
 * what is too much.
 */
KYMO__INLINE int kymo__sequence_tail(const struct kymo_slot *slot, const struct kymo_event *event,
				     uint64_t step, unsigned word_count, const uint64_t *words,
				     uint64_t fixed_bytes, const void *tail, uint64_t tail_bytes)
{
	if (word_count <= 1)
		KYMO__SEQ_TAIL(KYMO__SEQ_MOVE(0));
	else if (word_count == 2)
		KYMO__SEQ_TAIL(KYMO__SEQ_MOVE(0) KYMO__SEQ_MOVE(8));
	else if (word_count == 3)
		KYMO__SEQ_TAIL(KYMO__SEQ_MOVE(0) KYMO__SEQ_MOVE(8) KYMO__SEQ_MOVE(16));
	else
		KYMO__SEQ_TAIL(KYMO__SEQ_MOVE(0) KYMO__SEQ_MOVE(8) KYMO__SEQ_MOVE(16)
				       KYMO__SEQ_MOVE(24));
	return 1;
out:
	return 0;
}

/* clang-format off */
/*
 * The payload from pieces, from %r11 + 12 on. check stands in front of everything else inside the
 * sequence, prefix in front of the pieces; both are empty here.
 */
#define KYMO__SEQ_SEGS(check, prefix, ...)                                                         \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		check                                                                              \
		KYMO__SEQ_OPEN                                                                     \
		prefix                                                                             \
		"movq %[segs], %%rdx\n\t"               /* rdx: segment */                         \
		"leaq 12(%%r11), %%rdi\n"               /* rdi: to */                              \
		"5:\n\t"                                                                           \
		"movq (%%rdx), %%rsi\n\t"               /* rsi: from */                            \
		"movq 8(%%rdx), %%rcx\n\t"              /* rcx: bytes */                           \
		"testq %%rcx, %%rcx\n\t"                                                           \
		"js 51f\n\t"                                                                       \
		KYMO__SEQ_COPY("65f")                                                              \
		"51:\n\t"                               /* whole words; the next piece overwrites what is too much */ \
		"btrq $63, %%rcx\n\t"                                                              \
		"leaq (%%rdi,%%rcx), %%r11\n"                                                      \
		"52:\n\t"                                                                          \
		"movq (%%rsi), %%rax\n\t"                                                          \
		"movq %%rax, (%%rdi)\n\t"                                                          \
		"addq $8, %%rsi\n\t"                                                               \
		"addq $8, %%rdi\n\t"                                                               \
		"cmpq %%r11, %%rdi\n\t"                                                            \
		"jb 52b\n\t"                                                                       \
		"movq %%r11, %%rdi\n"                                                              \
		"65:\n\t"                               /* next */                                 \
		"addq $16, %%rdx\n\t"                                                              \
		"cmpq %[segs_end], %%rdx\n\t"                                                      \
		"jb 5b\n\t"                                                                        \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_END                                                                      \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, __VA_ARGS__                                                    \
		: "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11"            \
		: out)
/* clang-format on */

/*
 * kymo__sequence_segs: as kymo__sequence_words, the payload behind the thread id copied from pieces
 * inside the sequence. Staged pieces go by whole words, as they were stored: a load across two
 * stores would wait for both.
 */
KYMO__INLINE int kymo__sequence_segs(const struct kymo_slot *slot, const struct kymo_event *event,
				     uint64_t step, const struct kymo_seg *segs,
				     const struct kymo_seg *segs_end)
{
	KYMO__SEQ_SEGS("", "", [segs] "r"(segs), [segs_end] "r"(segs_end));
	return 1;
out:
	return 0;
}

/* After an attempt that did not write: the kernel must not find our descriptor later. */
KYMO__INLINE void kymo__sequence_clear(intptr_t rseq_offset)
{
	__asm__ __volatile__("movq $0, %%fs:8(%0)" : : "r"(rseq_offset) : "memory");
}

/*
 * The CPU that the calling thread is on, as the kernel last wrote it; huge where the thread is not
 * registered.
 */
KYMO__INLINE uint32_t kymo__sequence_cpu(intptr_t rseq_offset)
{
	uint32_t cpu;

	__asm__ __volatile__("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(rseq_offset));
	return cpu;
}

KYMO__INLINE char *kymo__thread_pointer(void)
{
	char *pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

#endif
