/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ticks.h: the benchmark's own clock: fenced and unfenced reads of the TSC, its frequency against
 * CLOCK_MONOTONIC_RAW, and pinning to one CPU. It is independent of kymo's headers on purpose.
 */
#ifndef BENCH_TICKS_H
#define BENCH_TICKS_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

/* Nothing before the call is still running, nothing behind it has begun. */
static inline uint64_t ticks_begin(void)
{
	_mm_lfence();
	uint64_t t = __rdtsc();
	_mm_lfence();
	return t;
}

/* All loads and instructions before the call are done. */
static inline uint64_t ticks_end(void)
{
	unsigned int aux;
	uint64_t t = __rdtscp(&aux);
	_mm_lfence();
	return t;
}

static inline double seconds_raw(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

struct ticks_mark {
	uint64_t ticks;
	double seconds;
};

/* A pair of simultaneous reads; the narrowest of several attempts. */
static inline struct ticks_mark ticks_mark(void)
{
	struct ticks_mark best = {0, 0};
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t a = ticks_begin();
		double s = seconds_raw();
		uint64_t b = ticks_end();

		if (b - a < width) {
			width = b - a;
			best.ticks = a + (b - a) / 2;
			best.seconds = s;
		}
	}
	return best;
}

static inline double ticks_hz(struct ticks_mark from, struct ticks_mark to)
{
	return (double)(to.ticks - from.ticks) / (to.seconds - from.seconds);
}

/* A first estimate of the frequency, for pacing. Takes 50 ms. */
static inline double ticks_hz_now(void)
{
	struct ticks_mark from = ticks_mark();

	while (seconds_raw() - from.seconds < 0.05)
		;
	return ticks_hz(from, ticks_mark());
}

static inline void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0) {
		perror("bench: sched_setaffinity");
		exit(2);
	}
}

#endif
