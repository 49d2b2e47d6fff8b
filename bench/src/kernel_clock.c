/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_clock.c: the same moments on three clocks. Each step reads CLOCK_MONOTONIC_RAW, lets one record be written, and
 * reads it again: one record by a tracepoint of ours, then one by the kernel (the mark file, and the entry into getppid).
 *
 *	kernel_clock CPU SECONDS STEP_US OUT
 *
 * Steps come in bursts, with STEP_US between two, as the first one after a sleep is cold.
 * OUT has a line per record: kind (u user, m mark, s system call), sequence number, both reads in ns. The records carry
 * the number: bench:one as its value, a mark as its text, a getppid by being the n-th of this thread.
 */
#include <fcntl.h>
#include <kymo/tracepoint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ticks.h"

#define BURST 4

KYMO_EVENT(bench, one, (u64, value))

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void step(FILE *out, int mark, uint64_t number)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "step %llu", (unsigned long long)number);
	uint64_t at[6];

	at[0] = now_ns();
	kymo_trace(bench, one, number);
	at[1] = at[2] = now_ns();
	if (mark >= 0 && write(mark, text, (size_t)length) < 0)
		exit(3);
	at[3] = at[4] = now_ns();
	syscall(SYS_getppid);
	at[5] = now_ns();
	for (int i = 0; i < 3; i++)
		if (i != 1 || mark >= 0)
			fprintf(out, "%c %llu %llu %llu\n", "ums"[i], (unsigned long long)number, (unsigned long long)at[2 * i],
				(unsigned long long)at[2 * i + 1]);
}

int main(int argc, char **argv)
{
	const char *path = getenv("KYMO_MARK");
	struct timespec pause = {0, 0};

	if (argc != 5)
		return 2;
	pin_to(atoi(argv[1]));
	pause.tv_nsec = atol(argv[3]) * 1000;

	FILE *out = fopen(argv[4], "w");
	int mark = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	uint64_t until = now_ns() + (uint64_t)(atof(argv[2]) * 1e9);

	if (!out)
		return 2;
	for (uint64_t number = 1; now_ns() < until; number++) {
		step(out, mark, number);
		if (number % BURST == 0)
			nanosleep(&pause, NULL);
	}
	return fclose(out) != 0;
}
