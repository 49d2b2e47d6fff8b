/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clockless.c: threads that may not read a clock any more. prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
 * and prctl(PR_SET_TSC, PR_TSC_SIGSEGV) take the time stamp counter away, and with it the vDSO's
 * clocks: the next record would end the program by SIGSEGV. (On 64-bit Arm the second call does, from
 * Linux 6.12 on. The first is treated alike: a thread's first record makes system calls.) libkymo hears of it
 * because prctl and syscall are its own here; before the kernel does it, all events go out of line, where the
 * thread's records are counted as lost. Filters of system calls are heard of in the same way, and end the helper
 * thread: see kymo_sandbox_begins. So do calls that need a process of one thread, for as long as they take. Not seen:
 * system calls by the program's own assembly.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

bool kymo_any_clockless;

#if KYMO_ARCH_SEQUENCE

/* Straight to the kernel: libc's syscall is replaced below. Returns as the kernel does. */
static long call(long number, const long *args)
{
#if KYMO_ARCH_AARCH64
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = args[0];
	register long x1 __asm__("x1") = args[1];
	register long x2 __asm__("x2") = args[2];
	register long x3 __asm__("x3") = args[3];
	register long x4 __asm__("x4") = args[4];
	register long x5 __asm__("x5") = args[5];

	__asm__ __volatile__("svc #0"
			     : "+r"(x0)
			     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			     : "memory", "cc");
	return x0;
#else
	register long r10 __asm__("r10") = args[3];
	register long r8 __asm__("r8") = args[4];
	register long r9 __asm__("r9") = args[5];
	long result = number;

	__asm__ __volatile__("syscall"
			     : "+a"(result)
			     : "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return result;
#endif
}

static bool takes_clock_away(long number, const long *args)
{
	if (number == SYS_seccomp)
		return args[0] == SECCOMP_SET_MODE_STRICT;
	if (number != SYS_prctl)
		return false;
	return (args[0] == PR_SET_SECCOMP && args[1] == SECCOMP_MODE_STRICT) ||
	       (args[0] == PR_SET_TSC && args[1] == PR_TSC_SIGSEGV);
}

static bool gives_clock_back(long number, const long *args)
{
	return number == SYS_prctl && args[0] == PR_SET_TSC && args[1] == PR_TSC_ENABLE;
}

static bool installs_filter(long number, const long *args)
{
	return (number == SYS_seccomp && args[0] == SECCOMP_SET_MODE_FILTER) ||
	       (number == SYS_prctl && args[0] == PR_SET_SECCOMP && args[1] == SECCOMP_MODE_FILTER);
}

/* What the kernel grants to programs with one thread only: another user namespace, and another one of mounts. */
static bool needs_one_thread(long number, const long *args)
{
	if (number == SYS_unshare)
		return args[0] & CLONE_NEWUSER;
	return number == SYS_setns && (!args[1] || args[1] & (CLONE_NEWUSER | CLONE_NEWNS));
}

/* From here on this thread's records are counted only. */
static void begin(struct kymo_self *self)
{
	self->is_clockless = true;
	kymo_lock();
	if (!kymo_any_clockless) {
		kymo_any_clockless = true;
		kymo_events_update();
	}
	kymo_unlock();
}

static long call_with_care(long number, const long *args)
{
	struct kymo_self *self = kymo_self();
	bool was_clockless = self->is_clockless;
	bool is_taken = takes_clock_away(number, args), has_ended_helper = false;
	bool has_paused = needs_one_thread(number, args) && kymo_helper_pause();
	long result;

	if (is_taken && !was_clockless)
		begin(self);
	if (installs_filter(number, args))
		has_ended_helper = kymo_sandbox_begins(number == SYS_seccomp && args[1] & SECCOMP_FILTER_FLAG_TSYNC);
	result = call(number, args);
	/* Positive: the number of a thread that could not take the filter. */
	if (has_ended_helper && result)
		kymo_sandbox_failed();
	if (has_paused)
		kymo_helper_resume();
	if (is_taken && result < 0)
		self->is_clockless = was_clockless;
	else if (gives_clock_back(number, args) && !result)
		self->is_clockless = false;
	if (result < 0 && result >= -4095) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/*
 * kymo_clockless_look: whether a new thread has inherited that from the one that made it.
 * Context: its first record; a system call.
 */
void kymo_clockless_look(struct kymo_self *self)
{
	int mode = 0;
	const long args[6] = { PR_GET_TSC, (long)&mode };

	if (kymo_any_clockless && !call(SYS_prctl, args) && mode == PR_TSC_SIGSEGV)
		self->is_clockless = true;
}

/* The C library's functions, as it has them, but for the calls above. Weak: a program may have its own. */
KYMO_EXPORT __attribute__((weak)) int prctl(int option, ...)
{
	long args[6] = { option };
	va_list list;

	va_start(list, option);
	for (int i = 1; i < 5; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	return (int)call_with_care(SYS_prctl, args);
}

KYMO_EXPORT __attribute__((weak)) int unshare(int flags)
{
	const long args[6] = { flags };

	return (int)call_with_care(SYS_unshare, args);
}

KYMO_EXPORT __attribute__((weak)) int setns(int fd, int type)
{
	const long args[6] = { fd, type };

	return (int)call_with_care(SYS_setns, args);
}

KYMO_EXPORT __attribute__((weak)) long syscall(long number, ...)
{
	long args[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	return call_with_care(number, args);
}
#else
void kymo_clockless_look(struct kymo_self *self)
{
	(void)self;
}
#endif
