/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clockless.c HOW: a thread that the kernel takes the clock from, and goes on tracing. HOW: strict
 * (prctl), strict_call (seccomp through syscall(2)), tsc (prctl, given back later). Says
 * "recorded=N lost=N": what must be in the trace, and what must be counted.
 */
#include "common.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

KYMO_EVENT(clockless, before, (u64, n))
KYMO_EVENT(clockless, without, (u64, n))
KYMO_EVENT(clockless, beside, (u64, n), (str, text))

#define RECORDS 500

static uint64_t recorded, lost;

static void *without(void *unused)
{
	for (uint64_t n = 0; n < RECORDS; n++)
		kymo_trace(clockless, without, n);
	lost += RECORDS;
	return unused;
}

static void *strict(void *how)
{
	for (uint64_t n = 0; n < RECORDS; n++)
		kymo_trace(clockless, before, n);
	recorded += RECORDS;
	if (!strcmp(how, "strict") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) :
				     (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL))
		die("strict");
	without(NULL);
	/* The only way out of this mode. */
	syscall(SYS_exit, 0);
	return NULL;
}

static void *without_counter(void *unused)
{
	pthread_t child;

	/* What is refused takes nothing. */
	if (!prctl(PR_SET_TSC, 77, 0, 0, 0) || prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		die("PR_SET_TSC");
	without(NULL);
	/* It passes on to the threads that it makes. */
	if (pthread_create(&child, NULL, without, NULL) || pthread_join(child, NULL))
		die("thread");
	if (prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0))
		die("PR_TSC_ENABLE");
	for (uint64_t n = 0; n < RECORDS; n++)
		kymo_trace(clockless, before, n);
	recorded += RECORDS;
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *how = argv[argc - 1];

	live_shortly();
	if (pthread_create(&thread, NULL, strcmp(how, "tsc") ? strict : without_counter, how))
		die("thread");
	for (uint64_t n = 0; n < 20000; n++) {
		kymo_trace(clockless, beside, n, "other threads go on");
		if (n % 100 == 0)
			nap_us(1);
	}
	pthread_join(thread, NULL);
	for (uint64_t n = 20000; n < 30000; n++)
		kymo_trace(clockless, beside, n, "and later");
	printf("recorded=%" PRIu64 " lost=%" PRIu64 "\n", recorded + 30000, lost);
	return 0;
}
