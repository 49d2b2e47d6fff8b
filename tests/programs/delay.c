/*
 * A wake-up that is late by a known time: `victim` (FIFO 10) sleeps on CPU 0, `hog` (FIFO 20) keeps that CPU busy over the time at
 * which it should wake. What the program has measured itself is printed: how late the wake-up was. Exit status 77 where the
 * priorities are not allowed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SLEEP_MS = 30, BUSY_MS = 60, VICTIM_PRIO = 10, HOG_PRIO = 20 };

static pthread_barrier_t ready;
static int64_t late_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *victim(void *unused)
{
	struct timespec time = { .tv_nsec = SLEEP_MS * 1000000L };
	int64_t from;

	pthread_setname_np(pthread_self(), "victim");
	pthread_barrier_wait(&ready);
	from = now_ns();
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	late_ns = now_ns() - from - SLEEP_MS * INT64_C(1000000);
	return unused;
}

/* Begins while the victim sleeps, and is busy beyond the time at which that should wake. */
static void *hog(void *unused)
{
	struct timespec time = { .tv_nsec = 10 * 1000000L };
	int64_t until;

	pthread_setname_np(pthread_self(), "hog");
	pthread_barrier_wait(&ready);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	until = now_ns() + BUSY_MS * INT64_C(1000000);
	while (now_ns() < until)
		;
	return unused;
}

static pthread_t start(void *(*what)(void *), int prio)
{
	struct sched_param param = { .sched_priority = prio };
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	if (pthread_create(&thread, &attr, what, NULL)) {
		fprintf(stderr, "FIFO %d is not allowed\n", prio);
		exit(77);
	}
	return thread;
}

int main(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&ready, NULL, 2);
	threads[0] = start(victim, VICTIM_PRIO);
	threads[1] = start(hog, HOG_PRIO);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("late_ns=%lld\n", (long long)late_ns);
	return 0;
}
