/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_start COUNT PROGRAM...: starts the programs in turns, each COUNT times, and prints a line for each start: the
 * program's number and the nanoseconds from the fork to its main. A program writes CLOCK_MONOTONIC in main to descriptor 3.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t start(const char *program)
{
	uint64_t before, in_main = 0;
	int ends[2], status;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		exit(99);
	before = now();
	child = vfork();
	if (!child) {
		dup2(ends[1], 3);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], &in_main, sizeof(in_main)) != sizeof(in_main) || in_main < before) {
		fprintf(stderr, "%s did not say when its main began\n", program);
		exit(1);
	}
	close(ends[0]);
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
	return in_main - before;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0;

	while (count-- > 0)
		for (int at = 2; at < argc; at++)
			printf("%d %" PRIu64 "\n", at - 2, start(argv[at]));
	return 0;
}
