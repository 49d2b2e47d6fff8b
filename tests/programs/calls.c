/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * calls.c: system calls that a test can count, and knows whose they are.
 *
 *   calls between N     before(n), getppid, after(n), for each n below N
 *   calls numbers N     waits for a line, then close(FIRST_NUMBER + n) for each n below N
 *   calls tree N        N getppid by each of: this thread, a second thread, a child, its thread, a grandchild,
 *                       a child by clone3; prints a line "tid=T" for each of them
 *   calls attached N    waits for a line, then as tree
 */
#include "common.h"

#include <linux/sched.h>

#define FIRST_NUMBER 0x40000000u

KYMO_EVENT(calls, before, (u64, n))
KYMO_EVENT(calls, after, (u64, n))

static unsigned long count;

static void between(void)
{
	unsigned long n;

	for (n = 0; n < count; n++) {
		kymo_trace(calls, before, n);
		syscall(SYS_getppid);
		kymo_trace(calls, after, n);
	}
}

static void numbers(void)
{
	unsigned long n;

	for (n = 0; n < count; n++)
		syscall(SYS_close, FIRST_NUMBER + (unsigned int)n);
}

static void *call(void *unused)
{
	unsigned long n;
	char line[32];
	int length = snprintf(line, sizeof(line), "tid=%u\n", tid());

	(void)unused;
	for (n = 0; n < count; n++)
		syscall(SYS_getppid);
	/* One write, so that lines of several processes do not mix. */
	if (write(1, line, (size_t)length) != length)
		die("write");
	return NULL;
}

static void call_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, call, NULL) || pthread_join(thread, NULL))
		die("pthread");
}

static void reap(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		die("child");
}

static void grandchild(void)
{
	pid_t child = fork();

	if (!child) {
		call(NULL);
		_exit(0);
	}
	reap(child);
}

static void tree(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pid_t child;

	call(NULL);
	call_in_thread();
	child = fork();
	if (!child) {
		call(NULL);
		call_in_thread();
		grandchild();
		_exit(0);
	}
	reap(child);
	child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (!child) {
		call(NULL);
		_exit(0);
	}
	reap(child);
}

int main(int argc, char **argv)
{
	live_shortly();
	if (argc != 3)
		return 2;
	count = strtoul(argv[2], NULL, 0);
	if (!strcmp(argv[1], "between")) {
		between();
	} else if (!strcmp(argv[1], "numbers")) {
		say("ready");
		hear();
		numbers();
		say("done");
		hear();
	} else if (!strcmp(argv[1], "tree")) {
		tree();
	} else if (!strcmp(argv[1], "attached")) {
		say("ready");
		hear();
		tree();
		say("done");
		hear();
	} else {
		return 2;
	}
	return 0;
}
