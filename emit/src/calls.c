/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * calls.c: system calls of the program that libkymo must know of. It hears of them because prctl, syscall,
 * unshare and setns are its own here. Those that take the clocks away from a thread: see clockless.c;
 * before the kernel does it, all events go out of line. Filters of system calls end the helper thread: see
 * kymo_sandbox_begins. So do calls that need a process of one thread, for as long as they take. Not seen:
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

#include "kernel_call.h"

#if KYMO_ARCH_SEQUENCE

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
	result = kymo_kernel_call(number, args);
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
#endif

/*
 * kymo_calls_link: does nothing. Of an archive only those files are linked that define what is missing, and in a
 * program that names the C library in front of libkymo.a none of the functions above is.
 */
void kymo_calls_link(void)
{
}
