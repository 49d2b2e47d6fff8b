/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tsc.h: whether the time stamp counter can be the clock of a trace. Both libraries ask, each for
 * itself: neither needs the other.
 */
#ifndef KYMO_TSC_H
#define KYMO_TSC_H

#include <stdbool.h>

#include "kymo/arch/local.h"

#if KYMO_ARCH_X86_64
#include <cpuid.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#endif

/*
 * It counts at one rate, and the kernel trusts it. KYMO_CLOCK=monotonic says that it shall not be;
 * KYMO_CLOCK=tsc that the kernel's trust is enough, for guests whose host hides what the processor is.
 */
static inline bool kymo_tsc_is_clock(void)
{
#if KYMO_ARCH_X86_64
	const char *wish = secure_getenv("KYMO_CLOCK");
	unsigned eax, ebx, ecx, edx;
	char name[16] = "";
	ssize_t got;
	int fd;

	if (wish && !strcmp(wish, "monotonic"))
		return false;
	if ((!wish || strcmp(wish, "tsc")) &&
	    (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8))))
		return false;
	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* a sandbox without /sys: the processor's word has to do */
	got = read(fd, name, sizeof(name) - 1);
	close(fd);
	return got >= 3 && !memcmp(name, "tsc", 3);
#else
	return false;
#endif
}

#endif
