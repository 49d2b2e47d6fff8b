/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.h: the restartable sequence that writes a whole record and publishes it with its last
 * store [ring.md 5.1]. Three forms: a payload of 1 to 4 words held in registers; an event's own, in
 * the function of the event, which stores each field where it stands in the ring, and a piece behind
 * (KYMO__SEQ_FIELDS_AND_TAIL; tracepoint.h); and a payload gathered from any number of pieces.
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
 * rseq's place is kept in a register up to the last line, or loaded again there, where it is 0 if a handler has
 * forked: that wipes the slot. The child has its struct rseq in the same place.
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

/* clang-format off */
/* 3: where the sequence is, from 1 to 2; abort goes to 4. r = rseq out, else to out. */
#define KYMO__SEQ_DESCRIBE(r)                                                                      \
	".pushsection __rseq_cs, \"aw\"\n\t"                                                       \
	".balign 32\n"                                                                             \
	"3:\n\t"                                                                                   \
	".long 0, 0\n\t"                                                                           \
	".quad 1f, 2f - 1f, 4f\n\t"                                                                \
	".popsection\n\t"                                                                          \
	".pushsection __rseq_cs_ptr_array, \"aw\"\n\t"                                             \
	".quad 3b\n\t"                                                                             \
	".popsection\n\t"                                                                          \
	".pushsection __rseq_failure, \"ax\"\n\t"                                                  \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                               \
	".long " KYMO__RSEQ_SIGNATURE "\n"                                                         \
	"4:\n\t"                                                                                   \
	"jmp %l[out]\n\t"                                                                          \
	".popsection\n\t"                                                                          \
	"movq 48(%[slot]), " r "\n\t"                                                              \
	"testq " r ", " r "\n\t"                                                                   \
	"jz %l[out]\n\t"

#define KYMO__SEQ_BEGIN KYMO__SEQ_BEGIN_WITH("%%r9")
#define KYMO__SEQ_BEGIN_WITH(r)                                                                    \
	KYMO__SEQ_DESCRIBE(r)                                                                      \
	"leaq 3b(%%rip), %%rax\n\t"                                                                \
	"movq %%rax, %%fs:8(" r ")\n"                                                              \
	"1:\n\t"

#define KYMO__SEQ_CLEAR "movq $0, %%fs:8(%%r9)\n\t"
/* Where no register could be kept. 0: forked just now, by a handler. */
#define KYMO__SEQ_CLEAR_ANEW                                                                       \
	"movq 48(%[slot]), %%rax\n\t"                                                              \
	"testq %%rax, %%rax\n\t"                                                                   \
	"jz 98f\n\t"                                                                               \
	"movq $0, %%fs:8(%%rax)\n"                                                                 \
	"98:\n\t"

/*
 * Up to the first 12 bytes of the record: r9 = rseq in; r10 = ring, r11 = p, r8 = head out.
 * Clobbers rax, rdx. longer goes to out where a record is longer than slot.room; aside is code that is
 * jumped to; id loads the event's id to r8d from so many bytes behind its address; clock reads the clock to
 * rax, in the upper 48 bits; end puts the low half of r8 + step into edx.
 */
#define KYMO__SEQ_OPEN(longer, aside, id, clock, end)                                              \
	KYMO__SEQ_OPEN_WITH("%%r9", longer, aside, id, clock, end)
#define KYMO__SEQ_OPEN_WITH(r, longer, aside, id, clock, end)                                      \
	"movl %%fs:4(" r "), %%eax\n\t"                                                            \
	"cmpl 8(%[slot]), %%eax\n\t"                                                               \
	"jb 11f\n\t"                                                                               \
	"jmp %l[out]\n"                                                                            \
	aside                                                                                      \
	"10:\n\t"                               /* full */                                         \
	"cmpl $0, 64(%[slot])\n\t"                                                                 \
	"je %l[out]\n\t"                                                                           \
	longer                                                                                     \
	"movq 24(%%r10), %%r8\n\t"                                                                 \
	"addq $1, %%r8\n\t"                                                                        \
	"addq $24, %%r10\n\t"                                                                      \
	"jmp 12f\n"                                                                                \
	"11:\n\t"                                                                                  \
	"movl 20(%[slot]), %%r8d\n\t"                                                              \
	id                                      /* r8: id */                                       \
	"testl %%r8d, %%r8d\n\t"                                                                   \
	"jz %l[out]\n\t"                                                                           \
	"movq (%[slot]), %%r11\n\t"                                                                \
	"movl %%eax, %%r10d\n\t"                                                                   \
	"shlq $7, %%r10\n\t"                                                                       \
	"addq %%r11, %%r10\n\t"                                                                    \
	"imulq 24(%[slot]), %%rax\n\t"                                                             \
	"addq 32(%[slot]), %%r11\n\t"                                                              \
	"addq %%rax, %%r11\n\t"                                                                    \
	clock                                                                                      \
	"orq %%r8, %%rax\n\t"                   /* rax: header word */                             \
	"movq (%%r10), %%r8\n\t"                                                                   \
	end                                                                                        \
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

#define KYMO__SEQ_CLOCK                                                                            \
	"rdtsc\n\t"                                                                                \
	"shlq $32, %%rdx\n\t"                                                                      \
	"orq %%rdx, %%rax\n\t"                                                                     \
	"shlq $16, %%rax\n\t"

/* Where event and step are in registers. */
#define KYMO__SEQ_LONGER                                                                           \
	"cmpl 12(%[slot]), %k[step]\n\t"                                                           \
	"ja %l[out]\n\t"
#define KYMO__SEQ_ID "movzwl (%[event],%%r8), %%r8d\n\t"
#define KYMO__SEQ_STEP_END "leal (%%r8,%[step]), %%edx\n\t"
#define KYMO__SEQ_STEP                                                                             \
	KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", KYMO__SEQ_ID, KYMO__SEQ_CLOCK, KYMO__SEQ_STEP_END)

/*
 * One record for several slots [ring.md 5.9]; clock and before: the members of a struct kymo_shared. The first reads
 * the clock, and leaves it and where it is to those behind. Neither form clears rseq.rseq_cs.
 */
#define KYMO__SEQ_FIRST                                                                       \
	KYMO__SEQ_BEGIN                                                                    \
	"movq %%rax, %[before]\n\t"                                                     \
	KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", KYMO__SEQ_ID,                                 \
		       KYMO__SEQ_CLOCK "movq %%rax, %[clock]\n\t", KYMO__SEQ_STEP_END)
/* One behind another. The exchange is the last instruction in front of the sequence, its test the first inside. */
#define KYMO__SEQ_NEXT                                                                        \
	KYMO__SEQ_DESCRIBE("%%r9")                                                           \
	"leaq 3b(%%rip), %%rdx\n\t"                                                        \
	"movq %[before], %%rax\n\t"                                                     \
	"cmpxchgq %%rdx, %%fs:8(%%r9)\n"                                                   \
	"1:\n\t"                                                                           \
	"jne %l[out]\n\t"                                                                  \
	"movq %%rdx, %[before]\n\t"                                                     \
	KYMO__SEQ_OPEN(KYMO__SEQ_LONGER, "", KYMO__SEQ_ID, "movq %[clock], %%rax\n\t",  \
		       KYMO__SEQ_STEP_END)

#define KYMO__SEQ_SHARED_IN [clock] "m"(shared->clock), [before] "m"(shared->sequence)

/* The publishing store, the last of the sequence; of a record that is lost, the one that counts it. */
#define KYMO__SEQ_STORE_HEAD                                                                       \
	"12:\n\t"                                                                                  \
	"movq %%r8, (%%r10)\n"                                                                     \
	"2:\n\t"
#define KYMO__SEQ_COMMIT "addq %[step], %%r8\n" KYMO__SEQ_STORE_HEAD

#define KYMO__SEQ_INPUTS [slot] "r"(slot), [event] "r"(event), [step] "r"(step)
#define KYMO__SEQ_CLOBBERS "memory", "cc", "rax", "rdx", "r8", "r9", "r10", "r11"

/*
 * An event's own record. bytes_ of it are in front of the tail, a constant; tail_bytes_ are less than
 * KYMO__SEQ_TAIL_MAX. stores are KYMO__SEQ_FIELD and KYMO__SEQ_COUNT of the fields, in their order, with the operands
 * behind: each stores a whole word, and the next one overwrites what is too much.
 */
#define KYMO__SEQ_FIELD(n)                                                                   \
	"movq %c[from_" #n "](%[fields]), %%rax\n\tmovq %%rax, %c[at_" #n "](%%r11)\n\t"
#define KYMO__SEQ_COUNT(n) "movq %[tail_bytes], %c[at_" #n "](%%r11)\n\t"

#define KYMO__SEQ_OWN_ID                                                                           \
	"leaq %[event], %%rdx\n\t"                                                                 \
	"movzwl (%%rdx,%%r8), %%r8d\n\t"

#define KYMO__SEQ_TAIL_MAX 256u
#define KYMO__SEQ_FIELDS_AND_TAIL(slot_, event_, bytes_, fields_, tail_, tail_bytes_, stores, ...) \
	__asm__ goto(KYMO__SEQ_BEGIN                                                               \
		KYMO__SEQ_OPEN("leal %c[bytes](%[tail_bytes]), %%edx\n\t"                          \
			       "cmpl 12(%[slot]), %%edx\n\tja %l[out]\n\t",                        \
			       KYMO__SEQ_TAIL_ASIDE, KYMO__SEQ_OWN_ID, KYMO__SEQ_CLOCK,            \
			       "leal %c[bytes](%%r8,%[tail_bytes]), %%edx\n\t")                    \
		stores                                                                             \
		"leaq -8(%[tail_bytes]), %%rdx\n\t"                                                \
		"cmpq $8, %%rdx\n\t"                                                               \
		"ja 7b\n\t"                                                                        \
		"movq (%[tail]), %%rax\n\t"             /* 8 to 16: the first and the last 8 */    \
		"movq %%rax, %c[bytes](%%r11)\n"                                                   \
		"6:\n\t"                                                                           \
		"movq (%[tail],%%rdx), %%rax\n\t"                                                  \
		"movq %%rax, %c[bytes](%%r11,%%rdx)\n"                                             \
		"9:\n\t"                                                                           \
		"movabsq %[step], %%rdx\n\t"                                                       \
		"addq %[tail_bytes], %%r8\n\t"                                                     \
		"addq %%rdx, %%r8\n"                                                               \
		KYMO__SEQ_STORE_HEAD                                                               \
		KYMO__SEQ_CLEAR                                                                    \
		:                                                                                  \
		: [slot] "r"(slot_), [event] "m"(event_), [bytes] "i"(bytes_),                     \
		  [step] "i"(KYMO_ONE_RECORD + (bytes_)), [fields] "r"(fields_), [tail] "r"(tail_), \
		  [tail_bytes] "r"(tail_bytes_) __VA_ARGS__                                        \
		: KYMO__SEQ_CLOBBERS                                                               \
		: out)

/* Other lengths of a tail. No input may change: out is entered from anywhere, and needs them. rdx = tail_bytes - 8. */
#define KYMO__SEQ_TAIL_ASIDE                                                                       \
	"7:\n\t"                                                                                   \
	"cmpq $8, %[tail_bytes]\n\t"                                                               \
	"jb 75f\n\t"                                                                               \
	"movl $8, %%edx\n"                      /* more than 16: words, then the last 8 */         \
	"71:\n\t"                                                                                  \
	"movq -8(%[tail],%%rdx), %%rax\n\t"                                                        \
	"movq %%rax, %c[bytes]-8(%%r11,%%rdx)\n\t"                                                 \
	"addq $8, %%rdx\n\t"                                                                       \
	"cmpq %[tail_bytes], %%rdx\n\t"                                                            \
	"jb 71b\n\t"                                                                               \
	"leaq -8(%[tail_bytes]), %%rdx\n\t"                                                        \
	"jmp 6f\n"                                                                                 \
	"75:\n\t"                               /* 4 to 7: the first and the last 4 */             \
	"testb $4, %b[tail_bytes]\n\t"                                                             \
	"jz 76f\n\t"                                                                               \
	"movl (%[tail]), %%eax\n\t"                                                                \
	"movl %%eax, %c[bytes](%%r11)\n\t"                                                         \
	"movl -4(%[tail],%[tail_bytes]), %%eax\n\t"                                                \
	"movl %%eax, %c[bytes]-4(%%r11,%[tail_bytes])\n\t"                                         \
	"jmp 9f\n"                                                                                 \
	"76:\n\t"                               /* 1 to 3: the first, the middle and the last */   \
	"testq %[tail_bytes], %[tail_bytes]\n\t"                                                   \
	"jz 9f\n\t"                                                                                \
	"movzbl (%[tail]), %%eax\n\t"                                                              \
	"movb %%al, %c[bytes](%%r11)\n\t"                                                          \
	"movl %k[tail_bytes], %%edx\n\t"                                                           \
	"shrl $1, %%edx\n\t"                                                                       \
	"movzbl (%[tail],%%rdx), %%eax\n\t"                                                        \
	"movb %%al, %c[bytes](%%r11,%%rdx)\n\t"                                                    \
	"movzbl -1(%[tail],%[tail_bytes]), %%eax\n\t"                                              \
	"movb %%al, %c[bytes]-1(%%r11,%[tail_bytes])\n\t"                                          \
	"jmp 9f\n"

/* One register less: kymo__emit_words_1 saves none. */
#define KYMO__SEQ_WORDS(stores, ...)                                                               \
	__asm__ goto(KYMO__SEQ_BEGIN_WITH("%%rdx")                                                 \
		KYMO__SEQ_OPEN_WITH("%%rdx", KYMO__SEQ_LONGER, "", KYMO__SEQ_ID, KYMO__SEQ_CLOCK,  \
				    KYMO__SEQ_STEP_END)                                            \
		stores                                                                             \
		KYMO__SEQ_COMMIT                                                                   \
		KYMO__SEQ_CLEAR_ANEW                                                               \
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
/* The payload from pieces, from %r11 + 12 on, behind begin; end publishes. */
#define KYMO__SEQ_SEGS(begin, end, ...)                                                            \
	__asm__ goto(begin                                                                         \
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
		end                                                                                \
		:                                                                                  \
		: KYMO__SEQ_INPUTS, __VA_ARGS__                                                    \
		: KYMO__SEQ_CLOBBERS, "rcx", "rsi", "rdi"                                          \
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
	KYMO__SEQ_SEGS(KYMO__SEQ_BEGIN KYMO__SEQ_STEP, KYMO__SEQ_COMMIT KYMO__SEQ_CLEAR,
		       [segs] "r"(segs), [segs_end] "rm"(segs_end));
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
