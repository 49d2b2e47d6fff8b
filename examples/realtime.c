/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * realtime.c: kymo_thread_init, called by a real-time thread before its loop, so that not even its
 * first record makes a system call. The loop runs every millisecond and records how late it woke.
 *
 *	cc realtime.c -lkymo -o realtime
 *	kymo record -o trace -- ./realtime && kymo read trace
 */
#define _GNU_SOURCE
#include <kymo/tracepoint.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

KYMO_EVENT(realtime, woke, (u32, cycle), (i64, late_ns))

#define PERIOD_NS 1000000

int main(void)
{
	const struct sched_param priority = { .sched_priority = 80 };
	struct timespec next, now;

	mlockall(MCL_CURRENT | MCL_FUTURE);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		puts("not allowed to be real-time; going on without");
	kymo_thread_init();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (uint32_t cycle = 0; cycle < 500; cycle++) {
		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		kymo_trace(realtime, woke, cycle,
			   (now.tv_sec - next.tv_sec) * 1000000000ll + now.tv_nsec - next.tv_nsec);
	}
	return 0;
}
