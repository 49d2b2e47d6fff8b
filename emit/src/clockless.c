/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clockless.c: threads that may not read a clock any more. prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
 * and prctl(PR_SET_TSC, PR_TSC_SIGSEGV) take the time stamp counter away, and with it the vDSO's
 * clocks: the next record would end the program by SIGSEGV. (On 64-bit Arm the second call does, from
 * Linux 6.12 on. The first is treated alike: a thread's first record makes system calls.) libkymo hears of it
 * in calls.c; from there on all events go out of line, where the thread's records are counted as lost.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kernel_call.h"

bool kymo_any_clockless;

#if KYMO_ARCH_SEQUENCE

/*
 * kymo_clockless_look: whether a new thread has inherited that from the one that made it.
 * Context: its first record; a system call.
 */
void kymo_clockless_look(struct kymo_self *self)
{
	int mode = 0;
	const long args[6] = { PR_GET_TSC, (long)&mode };

	if (kymo_any_clockless && !kymo_kernel_call(SYS_prctl, args) && mode == PR_TSC_SIGSEGV)
		self->is_clockless = true;
}
#else
void kymo_clockless_look(struct kymo_self *self)
{
	(void)self;
}
#endif
