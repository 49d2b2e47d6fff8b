/*
 * A real-time thread (FIFO 5) on CPU 0 that does nothing but sleep 5 ms at a time, until it is killed. Prints `tid=N` first. Exit
 * status 77 where the priority is not allowed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct sched_param param = { .sched_priority = 5 };
	struct timespec time = { .tv_nsec = 5 * 1000000L };
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || sched_setscheduler(0, SCHED_FIFO, &param))
		return 77;
	printf("tid=%d\n", (int)getpid());
	fflush(stdout);
	for (;;)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}
