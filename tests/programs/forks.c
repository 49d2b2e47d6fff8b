/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * forks.c MODE [COUNT]: makes processes in every way there is, and traces in each. Each record says
 * which process it should be from, so that a wrong thread id shows.
 */
#include "common.h"

#include <spawn.h>

KYMO_EVENT(forks, parent, (u64, n), (u32, pid), (u32, child))
KYMO_EVENT(forks, child, (u64, n), (u32, pid))
KYMO_EVENT(forks, leaf, (u64, n), (u32, pid))

extern char **environ;
static char number[24];
static uint64_t count = 1;

static void leaf(uint64_t records)
{
	for (uint64_t n = 0; n < records; n++)
		kymo_trace(forks, leaf, n, (uint32_t)getpid());
}

static char **leaf_argv(const char *self, uint64_t records)
{
	static char *argv[4];

	snprintf(number, sizeof(number), "%" PRIu64, records);
	argv[0] = (char *)self;
	argv[1] = (char *)"leaf";
	argv[2] = number;
	return argv;
}

static void await(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		die("child");
}

/* One child after the other; every second one ends without exit handlers. */
static void forks(int raw)
{
	for (uint64_t n = 0; n < count; n++) {
		pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

		if (!child) {
			/* The C library does not know of a raw child: the kernel does. */
			kymo_trace(forks, child, n, (uint32_t)syscall(SYS_getpid));
			if (raw || n % 2)
				_exit(0);
			exit(0);
		}
		kymo_trace(forks, parent, n, (uint32_t)getpid(), (uint32_t)child);
		await(child);
	}
}

/* A child of a child of a child ..., all alive at once. */
static void nested(void)
{
	for (uint64_t n = 0; n < count; n++) {
		pid_t child = fork();

		if (child) {
			kymo_trace(forks, parent, n, (uint32_t)getpid(), (uint32_t)child);
			await(child);
			exit(0);
		}
		kymo_trace(forks, child, n, (uint32_t)getpid());
	}
}

static void vforks(const char *self)
{
	char **argv = leaf_argv(self, 3);

	for (uint64_t n = 0; n < count; n++) {
		pid_t child = vfork();

		if (!child) {
			execv(self, argv);
			_exit(98);
		}
		kymo_trace(forks, parent, n, (uint32_t)getpid(), (uint32_t)child);
		await(child);
	}
}

static void spawns(const char *self, uint64_t records)
{
	char **argv = leaf_argv(self, records);

	for (uint64_t n = 0; n < count; n++) {
		pid_t child;

		if (posix_spawn(&child, self, NULL, NULL, argv, environ))
			die("posix_spawn");
		kymo_trace(forks, parent, n, (uint32_t)getpid(), (uint32_t)child);
		await(child);
	}
}

/* The same process, one program after the other. */
static void chain(const char *self)
{
	kymo_trace(forks, child, count, (uint32_t)getpid());
	snprintf(number, sizeof(number), "%" PRIu64, count - 1);
	if (count > 0 && execl(self, self, "chain", number, (char *)NULL))
		die("execl");
}

/*
 * A daemon: no parent, no terminal, a session of its own. The first process waits for it, so that it is
 * recorded.
 */
static void becomes_daemon(void)
{
	int done[2];
	char c;

	if (pipe(done))
		die("pipe");
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		live_shortly();
		while (getppid() != 1 && !kymo_trace_enabled(forks, child))
			nap_us(500);
		leaf(count);
		if (write(done[1], "d", 1) != 1)
			_exit(97);
		exit(0);
	}
	close(done[1]);
	wait(NULL);
	if (read(done[0], &c, 1) != 1)
		die("daemon");
	/* Its end of the pipe closes when it is gone. */
	while (read(done[0], &c, 1) > 0)
		;
}

/* Threads that trace while one of them forks. */
static int stop;

static void *busy(void *argument)
{
	uint64_t n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		/* What its ring holds in any case, however late the collector comes. */
		if (n < 2000)
			kymo_trace(forks, leaf, n++, (uint32_t)getpid());
		nap_us(50);
	}
	*(uint64_t *)argument = n;
	return NULL;
}

static void among_threads(void)
{
	pthread_t threads[3];
	uint64_t produced[3], total = 0;

	for (int at = 0; at < 3; at++)
		pthread_create(&threads[at], NULL, busy, &produced[at]);
	forks(0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int at = 0; at < 3; at++) {
		pthread_join(threads[at], NULL);
		total += produced[at];
	}
	printf("leaves=%" PRIu64 "\n", total);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	live_shortly();
	if (argc > 2)
		count = strtoull(argv[2], NULL, 10);
	if (!strcmp(mode, "leaf"))
		leaf(count);
	else if (!strcmp(mode, "forks"))
		forks(0);
	else if (!strcmp(mode, "clones"))
		forks(1);
	else if (!strcmp(mode, "nested"))
		nested();
	else if (!strcmp(mode, "vforks"))
		vforks(argv[0]);
	else if (!strcmp(mode, "spawns"))
		spawns(argv[0], 3);
	else if (!strcmp(mode, "shorts"))
		spawns(argv[0], 100);
	else if (!strcmp(mode, "chain"))
		chain(argv[0]);
	else if (!strcmp(mode, "daemon"))
		becomes_daemon();
	else if (!strcmp(mode, "among_threads"))
		among_threads();
	else
		die(mode);
	return 0;
}
