/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * local.h: the few operations that differ by processor and need no operating system: the clock of
 * the trace, and updates that are atomic against signal handlers on the same CPU only. Where a
 * processor has nothing cheaper, C11-style atomics serve; they are right, only slower.
 */
#ifndef KYMO_ARCH_LOCAL_H
#define KYMO_ARCH_LOCAL_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__LP64__)
#define KYMO_ARCH_X86_64 1
#else
#define KYMO_ARCH_X86_64 0
#endif
#if defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define KYMO_ARCH_AARCH64 1
#else
#define KYMO_ARCH_AARCH64 0
#endif

/* Whether there is a restartable sequence for this processor, and a counter that it reads: arch/sequence.h. */
#define KYMO_ARCH_SEQUENCE (KYMO_ARCH_X86_64 || KYMO_ARCH_AARCH64)

/*
 * Our functions are not those of the program: its compiler's -finstrument-functions and -pg leave
 * them out.
 */
#define KYMO__UNSEEN __attribute__((no_instrument_function))

#if KYMO_ARCH_X86_64

/* kymo__counter: KYMO_CLOCK_COUNTER, the counter that the sequence reads. */
static inline KYMO__UNSEEN uint64_t kymo__counter(void)
{
	uint32_t low, high;

	__asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* kymo__cas_local: one instruction, hence atomic against signals; not against other CPUs. */
static inline KYMO__UNSEEN int kymo__cas_local(uint64_t *word, uint64_t old_value, uint64_t new_value)
{
	unsigned char ok;

	__asm__ __volatile__("cmpxchgq %[new_value], %[word]\n\tsete %[ok]"
			     : [word] "+m"(*word), [ok] "=q"(ok), "+a"(old_value)
			     : [new_value] "r"(new_value)
			     : "memory", "cc");
	return ok;
}

/* kymo__add_local: as kymo__cas_local. */
static inline KYMO__UNSEEN void kymo__add_local(uint64_t *word, uint64_t value)
{
	__asm__ __volatile__("addq %[value], %[word]"
			     : [word] "+m"(*word)
			     : [value] "er"(value)
			     : "memory", "cc");
}

#else

#if KYMO_ARCH_AARCH64
/*
 * kymo__counter: as on x86-64. Without the barrier the processor may read the counter long before it gets
 * here, and before an earlier reading of it [ring.md 5.1].
 */
static inline KYMO__UNSEEN uint64_t kymo__counter(void)
{
	uint64_t ticks;

	__asm__ __volatile__("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}
#endif

static inline KYMO__UNSEEN int kymo__cas_local(uint64_t *word, uint64_t old_value, uint64_t new_value)
{
	return __atomic_compare_exchange_n(word, &old_value, new_value, 0, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static inline KYMO__UNSEEN void kymo__add_local(uint64_t *word, uint64_t value)
{
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

#endif
#endif
