/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_calls.c: system calls that do nothing but be traced: what tracing costs the traced, and a load of calls.
 *
 *	kernel_calls CPU cost BLOCKS CALLS	prints "ns" and ns per getppid of each block of CALLS, warm
 *	kernel_calls CPU load			calls until SIGTERM, then prints "calls N seconds S"
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ticks.h"

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
	(void)number;
	ending = 1;
}

static void cost(int blocks, int calls)
{
	printf("ns");
	for (int block = -1; block < blocks; block++) {
		double from = seconds_raw();

		for (int i = 0; i < calls; i++)
			syscall(SYS_getppid);
		if (block >= 0) /* the first one warms up */
			printf(" %.2f", (seconds_raw() - from) * 1e9 / calls);
	}
	printf("\n");
}

static void load(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	uint64_t calls = 0;
	double from = seconds_raw();

	sigaction(SIGTERM, &action, NULL);
	for (; !ending; calls++)
		syscall(SYS_getppid);
	printf("calls %llu seconds %.6f\n", (unsigned long long)calls, seconds_raw() - from);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	pin_to(atoi(argv[1]));
	if (argc == 5 && !strcmp(argv[2], "cost"))
		cost(atoi(argv[3]), atoi(argv[4]));
	else if (argc == 3 && !strcmp(argv[2], "load"))
		load();
	else
		return 2;
	return 0;
}
