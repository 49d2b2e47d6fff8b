/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hold.c: victim: one thread holds a mutex for 20 ms ten times while another one asks for it 5 ms into each hold; with
 * `stuck` as argument, the last one never gets it and the program kills itself. Prints the mutex's address.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void pause_ms(long ms)
{
	const struct timespec time = { 0, ms * 1000000 };

	nanosleep(&time, NULL);
}

static void *other(void *unused)
{
	for (int i = 0; i < 10; i++) {
		pthread_barrier_wait(&barrier);
		pause_ms(5);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		pthread_barrier_wait(&barrier);
	}
	pthread_mutex_lock(&mutex);
	return unused;
}

int main(int argc, char **argv)
{
	int stuck = argc > 1 && !strcmp(argv[1], "stuck");
	pthread_t thread;

	printf("0x%lx\n", (unsigned long)(uintptr_t)&mutex);
	fflush(stdout);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, other, NULL));
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&mutex);
		pthread_barrier_wait(&barrier);
		pause_ms(20);
		if (i == 9 && stuck) {
			kill(getpid(), SIGKILL);
		}
		pthread_mutex_unlock(&mutex);
		pthread_barrier_wait(&barrier);
	}
	CHECK(!pthread_join(thread, NULL));
	return 0;
}
