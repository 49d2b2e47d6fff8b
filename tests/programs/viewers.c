/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * viewers.c [leaf]: what makes slices and names of exports hard: a signal handler, threads that are renamed and that
 * end inside of a slice, children by fork and exec, one of them executed by another thread than the first one.
 */
#include "common.h"

#include <spawn.h>
#include <sys/prctl.h>

KYMO_EVENT(viewers, step_begin, (u32, n))
KYMO_EVENT(viewers, step_end, (u32, n))
KYMO_EVENT(viewers, mark, (u32, tid), (str, name))

extern char **environ;
static const char *self;

static void on_signal(int number)
{
	kymo_trace(viewers, mark, (uint32_t)number, "signal");
}

static void *paint(void *unused)
{
	uint32_t n;

	(void)unused;
	pthread_setname_np(pthread_self(), "painter");
	for (n = 0; n < 20; n++) {
		kymo_trace(viewers, step_begin, n);
		nap_us(200);
		kymo_trace(viewers, step_end, n);
		if (n == 10)
			pthread_setname_np(pthread_self(), "drawer");
	}
	kymo_trace(viewers, mark, tid(), "painter");
	/* The thread ends in it. */
	kymo_trace(viewers, step_begin, n);
	return NULL;
}

static void become_leaf(void)
{
	char *argv[] = { (char *)self, (char *)"leaf", NULL };

	execv(self, argv);
	die("execv");
}

static void *become_leaf_of_thread(void *unused)
{
	(void)unused;
	become_leaf();
	return NULL;
}

/* A child that executes, by its first thread or by another one. */
static void child(int by_thread)
{
	pid_t pid = fork();
	pthread_t thread;
	int status;

	if (!pid) {
		kymo_trace(viewers, step_begin, 100);
		if (!by_thread)
			become_leaf();
		if (pthread_create(&thread, NULL, become_leaf_of_thread, NULL))
			die("pthread_create");
		pthread_join(thread, NULL);
		die("the thread has returned");
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("child");
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int n;

	live_shortly();
	self = argv[0];
	if (argc > 1) {
		prctl(PR_SET_NAME, "leafling");
		kymo_trace(viewers, mark, tid(), "leaf");
		return 0;
	}
	signal(SIGUSR1, on_signal);
	if (pthread_create(&thread, NULL, paint, NULL))
		die("pthread_create");
	for (n = 0; n < 20; n++) {
		kymo_trace(viewers, step_begin, (uint32_t)n);
		raise(SIGUSR1);
		kymo_trace(viewers, step_end, (uint32_t)n);
	}
	child(0);
	child(1);
	kymo_trace(viewers, mark, tid(), "main");
	pthread_join(thread, NULL);
	return 0;
}
