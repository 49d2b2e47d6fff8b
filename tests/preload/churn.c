/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * churn.c: victim: threads that get and release the same few blocks and one mutex in a tight loop, while a timer signal
 * makes them yield at any instruction, between a call and its record too.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "check.h"

#define THREADS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total, rounds = 30000;

static void handler(int signal)
{
	(void)signal;
	sched_yield();
}

static void *thread(void *unused)
{
	for (long i = 0; i < rounds; i++) {
		char *at = malloc(2000);

		CHECK(at);
		at[0] = 1;
		free(at);
		pthread_mutex_lock(&mutex);
		total++;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

/* Argument: rounds of each thread. */
int main(int argc, char **argv)
{
	const struct itimerval every = { { 0, 50 }, { 0, 50 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];

	if (argc > 1)
		rounds = atol(argv[1]);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, thread, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(total == THREADS * rounds);
	puts("fine");
	return 0;
}
