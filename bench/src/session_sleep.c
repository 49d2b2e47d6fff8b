/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_sleep US COUNT: sleeps COUNT times for US microseconds and does nothing else. Prints the CPU time of one such sleep in
 * nanoseconds, as the scheduler counts it: what waking up costs on this machine by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long cpu_ns(void)
{
	unsigned long long ns = 0;
	FILE *file = fopen("/proc/self/schedstat", "r");

	if (!file || fscanf(file, "%llu", &ns) != 1)
		exit(1);
	fclose(file);
	return ns;
}

int main(int argc, char **argv)
{
	long us = argc > 2 ? atol(argv[1]) : 0, count = argc > 2 ? atol(argv[2]) : 1;
	const struct timespec pause = { us / 1000000, us % 1000000 * 1000 };
	unsigned long long before = cpu_ns();

	for (long at = 0; at < count; at++)
		nanosleep(&pause, NULL);
	printf("%llu\n", (cpu_ns() - before) / (unsigned long long)count);
	return 0;
}
