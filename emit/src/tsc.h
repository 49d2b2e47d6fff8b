/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tsc.h: whether the processor's own counter can be the clock of a trace: the time stamp counter of
 * x86-64, the count of the generic timer of 64-bit Arm. Both libraries ask, each for itself: neither
 * needs the other.
 */
#ifndef KYMO_TSC_H
#define KYMO_TSC_H

#include <stdbool.h>

#include "kymo/arch/local.h"

#if KYMO_ARCH_X86_64
#include <cpuid.h>
#endif
#if KYMO_ARCH_SEQUENCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the kernel keeps its own time by name. A sandbox without /sys: the processor's word has to do. */
static inline bool kymo_clock_source_is(const char *name)
{
	char text[32] = "";
	size_t bytes = strlen(name);
	ssize_t got;
	int fd;

	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	return got >= (ssize_t)bytes && !memcmp(text, name, bytes);
}
#endif

/*
 * It counts at one rate, and the kernel trusts it. KYMO_CLOCK=monotonic says that it shall not be;
 * KYMO_CLOCK=tsc that the kernel's trust is enough, for guests whose host hides what the processor is.
 */
static inline bool kymo_tsc_is_clock(const char *wish)
{
#if KYMO_ARCH_X86_64
	unsigned eax, ebx, ecx, edx;

	if (!strcmp(wish, "monotonic"))
		return false;
	if (strcmp(wish, "tsc") &&
	    (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8))))
		return false;
	return kymo_clock_source_is("tsc");
#else
	(void)wish;
	return false;
#endif
}

/*
 * kymo_counter_is_clock: the same for KYMO_CLOCK_COUNTER. The generic timer's count has one rate on all
 * processors of a machine, by its architecture. Where a processor counts wrongly, the kernel reads it with
 * care, and lets programs do so by a trap, which is slow and right.
 */
static inline bool kymo_counter_is_clock(const char *wish)
{
#if KYMO_ARCH_AARCH64
	return strcmp(wish, "monotonic") && kymo_clock_source_is("arch_sys_counter");
#else
	return kymo_tsc_is_clock(wish);
#endif
}

#endif
