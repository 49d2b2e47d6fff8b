/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_late.c: a thread that wakes up on time and runs late, again and again.
 *
 *	kernel_late CPU ROUNDS GAP_MS
 *
 * In each round the thread "hog" (SCHED_FIFO 40) takes the CPU for 3 ms, and the thread "late" wakes up on the same CPU 1 ms after it: it
 * runs 2 ms later. Needs the right to a real-time priority: exit 77 without it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll

static pthread_barrier_t ready, go;
static int64_t begin, gap;
static int cpu, rounds;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void until(int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void settle(const char *name)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(77);
	prctl(PR_SET_NAME, name);
}

static void *hog(void *unused)
{
	struct sched_param param = { .sched_priority = 40 };
	int i;

	settle("hog");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		exit(77);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);
	for (i = 0; i < rounds; i++) {
		until(begin + i * gap - MS);
		while (now() < begin + i * gap + 2 * MS)
			;
	}
	return unused;
}

static void *late(void *unused)
{
	int i;

	settle("late");
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);
	for (i = 0; i < rounds; i++)
		until(begin + i * gap);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc != 4) {
		fprintf(stderr, "usage: kernel_late CPU ROUNDS GAP_MS\n");
		return 2;
	}
	cpu = atoi(argv[1]);
	rounds = atoi(argv[2]);
	gap = atoi(argv[3]) * MS;
	pthread_barrier_init(&ready, NULL, 3);
	pthread_barrier_init(&go, NULL, 3);
	pthread_create(&threads[0], NULL, hog, NULL);
	pthread_create(&threads[1], NULL, late, NULL);
	pthread_barrier_wait(&ready);
	begin = now() + 200 * MS;
	pthread_barrier_wait(&go);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	until(now() + 50 * MS);
	return 0;
}
