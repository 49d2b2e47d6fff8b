/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * steps.h: instructions of paths, counted by single steps, so that a figure does not depend on what else the machine
 * does. A child runs each path between two marks; its parent counts the steps from one to the other. For tests that
 * define CHECK.
 *
 * A single step restarts a sequence for ever. So the counted process has a struct rseq of its own making, which the
 * kernel does not know, and the slots point there. The instructions are the same.
 */
#ifndef KYMO_TEST_STEPS_H
#define KYMO_TEST_STEPS_H

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS_OF 9 /* the median of so many counts; an argument asks for fewer, an odd number */

static int steps_of = STEPS_OF;

struct path {
	const char *name;
	void (*run)(void);
	bool is_full; /* the rings have no room for it */
};

/* What struct rseq would be, where nothing restarts a sequence. */
static __thread struct {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
} own_rseq __attribute__((aligned(32)));

/* A stop of the counted process. */
#if KYMO_ARCH_AARCH64
#define MARK __asm__ __volatile__("brk #0" ::: "memory")

/* Here the program would go on at the mark itself. */
static void step_over_mark(pid_t child)
{
	struct user_regs_struct regs;
	struct iovec all = { &regs, sizeof(regs) };

	CHECK(!ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all), "%s", strerror(errno));
	regs.pc += 4;
	CHECK(!ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &all), "%s", strerror(errno));
}
#else
#define MARK __asm__ __volatile__("int3" ::: "memory")

static void step_over_mark(pid_t child)
{
	(void)child;
}
#endif

/* The child's part: each path, with what is to be before and behind it. */
static void steps_run(const struct path *paths, size_t count, void (*before)(const struct path *path),
		      void (*behind)(const struct path *path))
{
	CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0), "%s", strerror(errno));
	for (const struct path *path = paths; path < paths + count; path++) {
		before(path);
		for (int i = 0; i < steps_of; i++) {
			void (*run)(void) = path->run;

			MARK;
			run();
			MARK;
		}
		behind(path);
	}
}

static int by_value(const void *a, const void *b)
{
	double one_value = *(const double *)a, other = *(const double *)b;

	return (one_value > other) - (one_value < other);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(values[0]), by_value);
	return values[count / 2];
}

/* Waits for the next stop. Returns true at one of the marks, false behind a step. */
static bool next_stop(pid_t child, int request)
{
	siginfo_t info;
	int status;

	CHECK(!ptrace(request, child, 0, 0), "%s", strerror(errno));
	CHECK(waitpid(child, &status, 0) == child, "%s", strerror(errno));
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status) ? 1 : 0);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "status %x", (unsigned)status);
	CHECK(!ptrace(PTRACE_GETSIGINFO, child, 0, &info), "%s", strerror(errno));
	if (info.si_code == TRAP_TRACE)
		return false;
	step_over_mark(child);
	return true;
}

/* Prints a line for each path but the first, whose steps are those of a path that does nothing. */
static int steps_count(const char *ring, const struct path *paths, size_t count, void (*child)(void))
{
	double empty = 0;
	pid_t counted;
	int status;

	fflush(stdout);
	counted = fork();
	if (!counted) {
		child();
		_exit(0);
	}
	/* The first mark. */
	CHECK(waitpid(counted, &status, 0) == counted && WIFSTOPPED(status), "no child that can be stepped");
	step_over_mark(counted);
	for (size_t at = 0; at < count; at++) {
		double steps[STEPS_OF];

		for (int i = 0; i < steps_of; i++) {
			steps[i] = 1;
			if (at || i)
				CHECK(next_stop(counted, PTRACE_CONT), "a mark");
			while (!next_stop(counted, PTRACE_SINGLESTEP))
				steps[i]++;
		}
		if (!at)
			empty = median(steps, (size_t)steps_of);
		else
			printf("%s %s %.0f\n", ring, paths[at].name, median(steps, (size_t)steps_of) - empty);
	}
	CHECK(!ptrace(PTRACE_CONT, counted, 0, 0), "%s", strerror(errno));
	CHECK(waitpid(counted, &status, 0) == counted && WIFEXITED(status) && !WEXITSTATUS(status),
	      "the counted process");
	return 0;
}

#endif
