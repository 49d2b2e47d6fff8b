/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_writers THREADS SECONDS EVERY_MS NAP_US: THREADS write for SECONDS, with a nap after each 1000 records; the first
 * one also writes the rare record `flight:late` every EVERY_MS. SIGTERM ends it early. Prints how many records were written of each.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kymo/tracepoint.h>

KYMO_EVENT(flight, busy, (u32, writer), (u64, n))
KYMO_EVENT(flight, late, (u64, n))

static volatile sig_atomic_t over;
static uint64_t late_count;
static double seconds, every;
static long nap_us;

static void end(int number)
{
	(void)number;
	over = 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *writer(void *argument)
{
	const struct timespec pause = { 0, nap_us * 1000 };
	uint32_t self = (uint32_t)(uintptr_t)argument;
	double begin = now(), next = begin + every;
	uint64_t n = 0;

	while (!over && now() - begin < seconds) {
		for (int i = 0; i < 1000; i++)
			kymo_trace(flight, busy, self, n++);
		if (!self && every > 0 && now() >= next) {
			kymo_trace(flight, late, late_count);
			late_count++;
			next = now() + every;
		}
		nanosleep(&pause, NULL);
	}
	return (void *)(uintptr_t)n;
}

int main(int argc, char **argv)
{
	int threads = argc > 4 ? atoi(argv[1]) : 0;
	pthread_t thread[64];
	uint64_t busy = 0;

	if (threads < 1 || threads > 64)
		return 2;
	seconds = atof(argv[2]);
	every = atof(argv[3]) / 1000;
	nap_us = atol(argv[4]);
	signal(SIGTERM, end);
	for (int at = 0; at < threads; at++)
		if (pthread_create(&thread[at], NULL, writer, (void *)(uintptr_t)at))
			return 1;
	for (int at = 0; at < threads; at++) {
		void *wrote;

		pthread_join(thread[at], &wrote);
		busy += (uintptr_t)wrote;
	}
	printf("busy %" PRIu64 " late %" PRIu64 "\n", busy, late_count);
	return 0;
}
