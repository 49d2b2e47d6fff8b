/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * heap.c MODE: a program that knows nothing of kymo, whose allocations are known to the byte.
 *
 *	known	live, peak and leaked bytes, by function; see tests/heap.rs
 *	fork	a child that frees blocks of its parent, and leaks some of its own
 *	exec	allocates, and becomes itself in mode "after"
 *	after	leaks a little
 *	many	many short blocks, more than a small ring takes
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
/* The compiler does not turn the call in front of it into a jump. */
#define STAYS __asm__ volatile("" ::: "memory")

static void *volatile kept[1024];
static void *volatile leaked;

APART static void grows(void)
{
	for (int i = 0; i < 10; i++)
		kept[i] = malloc(100000);
	STAYS;
}

APART static void peaks(void)
{
	void *volatile zeroed = calloc(4, 250000);
	void *aligned = NULL;

	/* Not memalign, which heaptrack does not see. */
	if (posix_memalign(&aligned, 4096, 500000))
		abort();
	free(zeroed);
	free(aligned);
	STAYS;
}

APART static void resizes(void)
{
	void *volatile block = malloc(1000);
	void *volatile other = realloc(NULL, 50000);

	block = realloc(block, 200000);
	leaked = block;
	free(other);
	STAYS;
}

APART static void leaks(void)
{
	for (int i = 0; i < 7; i++)
		leaked = malloc(3000);
	STAYS;
}

static int known(void)
{
	grows();
	peaks();
	for (int i = 1; i < 10; i++)
		free(kept[i]);
	resizes();
	leaks();
	return 0;
}

APART static void of_parent(void)
{
	for (int i = 0; i < 1000; i++)
		kept[i] = malloc(100);
	STAYS;
}

APART static void of_child(void)
{
	for (int i = 0; i < 5; i++)
		leaked = malloc(777);
	STAYS;
}

static int forks(void)
{
	char line[8];
	int pipes[2], status = 1;
	pid_t child;

	if (pipe(pipes))
		return 1;
	of_parent();
	child = fork();
	if (!child) {
		/* At once, among the records of the parent; then again, when the test has seen that it is recorded itself. */
		free(kept[0]);
		of_child();
		if (write(1, "child\n", 6) != 6 || read(0, line, sizeof(line)) <= 0)
			_exit(1);
		for (int i = 1; i < 10; i++)
			free(kept[i]);
		of_child();
		_exit(0);
	}
	waitpid(child, &status, 0);
	for (int i = 0; i < 1000; i++)
		free(kept[i]);
	return status;
}

APART static void before_exec(void)
{
	for (int i = 0; i < 5; i++)
		leaked = malloc(100000);
	STAYS;
}

APART static void after_exec(void)
{
	for (int i = 0; i < 3; i++)
		leaked = malloc(10000);
	STAYS;
}

APART static void many(void)
{
	for (int i = 0; i < 400000; i++)
		free(kept[i % 16] = malloc(16));
	STAYS;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	alarm(400);
	if (!strcmp(mode, "known"))
		return known();
	if (!strcmp(mode, "fork"))
		return forks();
	if (!strcmp(mode, "exec")) {
		before_exec();
		execl("/proc/self/exe", argv[0], "after", (char *)NULL);
		return 1;
	}
	if (!strcmp(mode, "after")) {
		after_exec();
		return 0;
	}
	many();
	return 0;
}
