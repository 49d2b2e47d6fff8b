/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.h: the restartable sequence that writes a compact record [ring.md 11]: as that of
 * sequence.h, but which header a record has, and whether a thread record stands in front of it, is
 * decided inside.
 *
 *	slot, cpu, id, ring, p, word, h, room, tid: as in sequence.h; step is that of the longest form
 *	if ring.state != (tid << 32 | low(h))
 *		p[0] = 31, p[1..9) = word | 0xffff, p[9..13) = tid, p += 13, goto extended
 *	if id <= 29 and (word | 0xffff) - ring.last < 2^43
 *		p[0..4) = low(word >> 11) & ~31 | id, p += 4
 *	else extended:
 *		p[0] = 31, p[1..9) = word, p += 9
 *	payload at p
 *	ring.state = tid << 32 | low(end), ring.last = word
 *	ring.head = h + the record's bytes + KYMO_ONE_RECORD
 *
 * state goes first: an attempt that is aborted behind it leaves a word that is not valid for head, so
 * that last is believed only as the word of the record in front. Offsets: struct kymo_ring state 88.
 */
#ifndef KYMO_ARCH_X86_64_COMPACT_H
#define KYMO_ARCH_X86_64_COMPACT_H

#include "sequence.h"

/* clang-format off */
/*
 * rdx = rseq in. r10 = ring, rdi = where the payload begins, r9 = header word, r8 = head, less what step is
 * too long out. Clobbers rax, rcx, rdx, r11.
 */
#define KYMO__COMPACT_OPEN                                                                         \
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
	"movl 20(%[slot]), %%r9d\n\t"                                                              \
	"movzwl (%[event],%%r9), %%r9d\n\t"     /* r9: id */                                       \
	"testl %%r9d, %%r9d\n\t"                                                                   \
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
	"orq %%rax, %%r9\n\t"                   /* r9: header word */                              \
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
	"movl %%r8d, %%eax\n\t"                                                                    \
	"movq %%rdx, %%rcx\n\t"                                                                    \
	"shlq $32, %%rcx\n\t"                                                                      \
	"orq %%rcx, %%rax\n\t"                  /* rax: what state is, if it is valid and ours */  \
	"cmpq 88(%%r10), %%rax\n\t"                                                                \
	"je 13f\n\t"                                                                               \
	"movb $31, (%%r11)\n\t"                 /* a thread record */                              \
	"movq %%r9, %%rax\n\t"                                                                     \
	"orq $0xffff, %%rax\n\t"                                                                   \
	"movq %%rax, 1(%%r11)\n\t"                                                                 \
	"movl %%edx, 9(%%r11)\n\t"                                                                 \
	"addq $13, %%r11\n\t"                                                                      \
	"jmp 14f\n"                                                                                \
	"13:\n\t"                                                                                  \
	"cmpw $29, %%r9w\n\t"                                                                      \
	"ja 16f\n\t"                                                                               \
	"movq %%r9, %%rax\n\t"                                                                     \
	"orq $0xffff, %%rax\n\t"                                                                   \
	"subq 8(%%r10), %%rax\n\t"                                                                 \
	"shrq $43, %%rax\n\t"                                                                      \
	"jnz 16f\n\t"                                                                              \
	"movq %%r9, %%rax\n\t"                  /* a short header */                               \
	"shrq $11, %%rax\n\t"                                                                      \
	"movl %%r9d, %%ecx\n\t"                                                                    \
	"andl $31, %%ecx\n\t"                                                                      \
	"andl $-32, %%eax\n\t"                                                                     \
	"orl %%ecx, %%eax\n\t"                                                                     \
	"movl %%eax, (%%r11)\n\t"                                                                  \
	"addq $4, %%r11\n\t"                                                                       \
	"subq $18, %%r8\n\t"                   /* shorter than step says */                         \
	"jmp 15f\n"                                                                                \
	"16:\n\t"                                                                                  \
	"subq $13, %%r8\n"                                                                         \
	"14:\n\t"                               /* an extended one */                              \
	"movb $31, (%%r11)\n\t"                                                                    \
	"movq %%r9, 1(%%r11)\n\t"                                                                  \
	"addq $9, %%r11\n"                                                                         \
	"15:\n\t"                                                                                  \
	"movq %%r11, %%rdi\n\t"                 /* rdi: to */

/* Stores state, last and head. */
#define KYMO__COMPACT_COMMIT                                                                       \
	"addq %[step], %%r8\n\t"                                                                   \
	"movq 56(%[slot]), %%rdx\n\t"                                                              \
	"movl %%fs:(%%rdx), %%edx\n\t"                                                             \
	"shlq $32, %%rdx\n\t"                                                                      \
	"movl %%r8d, %%eax\n\t"                                                                    \
	"orq %%rdx, %%rax\n\t"                                                                     \
	"movq %%rax, 88(%%r10)\n\t"                                                                \
	KYMO__COMPACT_STOP                                                                         \
	"movq %%r9, 8(%%r10)\n\t"                                                                  \
	"12:\n\t"                                                                                  \
	"movq %%r8, (%%r10)\n"

/* Where tests abort a sequence: emit/tests/compact.c. */
#ifndef KYMO__COMPACT_STOP
#define KYMO__COMPACT_STOP
#endif
/* clang-format on */

/* clang-format off */
/* The whole of it. check stands in front of everything else inside the sequence. */
#define KYMO__COMPACT_SEGS(check)                                                                  \
	__asm__ goto(KYMO__SEQ_BEGIN_WITH("%%rdx")                                                 \
		check                                                                              \
		KYMO__COMPACT_OPEN                                                                 \
		"movq %[segs], %%rdx\n"                 /* rdx: segment */                         \
		"5:\n\t"                                                                           \
		"cmpq %[segs_end], %%rdx\n\t"                                                      \
		"jae 53f\n\t"                                                                      \
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
		"jmp 5b\n"                                                                         \
		"53:\n\t"                                                                          \
		KYMO__COMPACT_COMMIT                                                               \
		"2:\n\t"                                                                           \
		KYMO__SEQ_CLEAR_ANEW                                                               \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, [segs] "r"(segs), [segs_end] "r"(segs_end)                     \
		: "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"      \
		: out)
/* clang-format on */

/*
 * kymo__sequence_compact: as kymo__sequence_segs, for a memory with compact records, which the caller
 * holds. step is that of the longest form: KYMO_ONE_RECORD + KYMO_THREAD_BYTES + KYMO_EXTENDED_BYTES + the
 * payload.
 */
KYMO__INLINE int kymo__sequence_compact(const struct kymo_slot *slot, const struct kymo_event *event,
					uint64_t step, const struct kymo_seg *segs,
					const struct kymo_seg *segs_end)
{
	KYMO__COMPACT_SEGS("");
	return 1;
out:
	return 0;
}

/*
 * kymo__sequence_compact_alone: the same for a slot that nobody holds. That its memory has compact
 * records, and these no contexts, is looked at inside: another session may have taken the slot.
 */
KYMO__INLINE int kymo__sequence_compact_alone(const struct kymo_slot *slot, const struct kymo_event *event,
					      uint64_t step, const struct kymo_seg *segs,
					      const struct kymo_seg *segs_end)
{
	KYMO__COMPACT_SEGS("cmpl $1, 68(%[slot])\n\tjne %l[out]\n\t");
	return 1;
out:
	return 0;
}

#endif
