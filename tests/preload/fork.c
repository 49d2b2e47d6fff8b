/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork.c: victim: forks, vforks, execs and raw forks of a program whose other threads allocate and lock without pause.
 * Children allocate, lock, start threads, fork again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char **environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int stop;

static void work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		char *at = malloc((size_t)i % 3000 + 1);

		CHECK(at);
		at = realloc(at, (size_t)i % 5000 + 1);
		CHECK(at);
		free(at);
		free(calloc(3, (size_t)i % 300 + 1));
	}
}

/* With an argument: at a pace whose trace a collector can follow. */
static void *busy(void *unhurried)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		work(50);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		if (unhurried)
			usleep(3000);
	}
	return NULL;
}

static void *worker(void *unused)
{
	work(100);
	return unused;
}

static void expect(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void child_of_fork(int depth)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	pid_t pid;

	work(200);
	pthread_mutex_lock(&own);
	pthread_mutex_unlock(&own);
	CHECK(!pthread_create(&thread, NULL, worker, NULL) && !pthread_join(thread, NULL));
	if (!depth)
		return;
	pid = fork();
	if (!pid) {
		child_of_fork(depth - 1);
		exit(0);
	}
	expect(pid);
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], "exec", NULL };
	pthread_t threads[3];
	pid_t pid;

	if (argc > 1 && !strcmp(argv[1], "exec")) {
		work(50);
		return 0;
	}
	for (int i = 0; i < 20; i++) {
		/* Behind libc's back, while there is no other thread but libkymo's. */
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!pid) {
			work(100);
			_exit(0);
		}
		expect(pid);
	}
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, busy, argc > 1 ? argv[1] : NULL));
	for (int i = 0; i < 30; i++) {
		pid = fork();
		if (!pid) {
			child_of_fork(i % 3);
			exit(0);
		}
		expect(pid);
		pid = vfork();
		if (!pid) {
			execv(argv[0], again);
			_exit(1);
		}
		expect(pid);
		CHECK(!posix_spawn(&pid, argv[0], NULL, NULL, again, environ));
		expect(pid);
		work(100);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	puts("fine");
	return 0;
}
