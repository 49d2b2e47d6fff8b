/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * probe.h: what the tests of kymo-probe share: options, the clock, threads in their places, and
 * the lines that are said [spec/lab.md 2]. A test is a function that takes options and leaves
 * series.
 */
#ifndef KYMO_PROBE_H
#define KYMO_PROBE_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "series.h"

#define THREADS_MAX 1024
#define PAYLOAD_MAX 4096
#define SECOND_NS 1000000000ull

/* As they were asked for; all have a default. */
struct options {
	const char *test;
	int cpus[THREADS_MAX];
	unsigned cpu_count; /* 0: one thread, wherever it may run */
	uint64_t count;	    /* samples of each thread; 0: no bound */
	uint64_t duration_ns; /* 0: no bound */
	uint64_t warmup;    /* samples that are dropped */
	uint64_t interval_ns; /* wakeup: between two expirations */
	uint64_t distance_ns; /* wakeup: what one thread's interval is longer than the one's before */
	uint64_t tp_interval_ns; /* npt: between two tracepoints at least */
	uint64_t threshold_ns; /* hwlat: smaller gaps are no samples */
	uint64_t window_ns, width_ns; /* hwlat: width of each window is looked at */
	uint64_t hold_ns;   /* preempt, pi: how long the lower one works */
	int policy;	    /* SCHED_FIFO, ... */
	int priority;
	unsigned levels;    /* preempt: threads of rising priority */
	bool lock;	    /* memory */
	int dma_latency_us; /* held in /dev/cpu_dma_latency; -1: not at all */
	const char *method; /* wakeup: clock_nanosleep, timerfd, futex, signal */
	double cycles_per_ns; /* 0: evaluate it */
	bool inherit;	    /* pi: with priority inheritance */
	bool wait;	    /* begin when a byte has come on standard input, or its end */
	uint64_t watch_ns;  /* say once in this time that there are new worst samples; 0: do not */
	uint64_t watch_above_ns; /* of those, only samples that are longer */
	uint64_t fault_bytes, fault_every; /* wakeup: each so many samples touch memory that is not there */
	uint64_t rate;	    /* maxrate: tracepoints of a thread a second */
	uint64_t payload;   /* maxrate: bytes beside their number */
};

/* One measuring thread. */
struct worker {
	const struct options *options;
	unsigned number;
	int cpu; /* -1: any */
	int tid;
	struct series *series;
	void *(*body)(struct worker *self);
	pthread_t thread;
	void *own; /* of the test */
	uint64_t watched; /* new worst samples that were said */
};

extern volatile bool probe_stop; /* set by a signal */

_Noreturn void die(const char *what);

/* say_trouble: something did not go as asked; at once. */
void say_trouble(const char *id, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The clock of kymo's traces where there is a TSC, else CLOCK_MONOTONIC. */
void clock_prepare(const struct options *options);
extern bool clock_is_tsc;
extern double clock_cycles_per_ns;
extern uint64_t clock_mult; /* ns = cycles * mult >> 32 */

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_cycles(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock_is_tsc, 1)) {
		uint32_t low, high;

		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
		return (uint64_t)high << 32 | low;
	}
#endif
	return monotonic_ns();
}

/* To the nearest: cut off, the mean of gaps of some nanoseconds would be half of one too small. */
static inline uint64_t clock_ns_of(uint64_t cycles)
{
	return (uint64_t)(((series_wide)cycles * clock_mult + (1ull << 31)) >> 32);
}

/* place: puts the calling thread where and how it was asked; says what did not go. */
void place(struct worker *self, int policy, int priority);

/* Class and priority of the calling thread as before. */
void unplace(void);

/* run_workers: starts all, waits until they are placed, says ready and floor, lets them go, joins. */
void run_workers(struct worker *workers, unsigned count);

/* Between ready and go; returns when all may begin. */
void wait_for_go(struct worker *self);

/* A worker on each CPU that was asked for, or one anywhere, each with a series of this name. */
void run_on_each_cpu(const struct options *options, const char *name,
		     void *(*body)(struct worker *self));

/* For tests in rounds: whether one more is wanted. */
bool rounds_go_on(const struct options *options, uint64_t round, uint64_t end_ns);

/* Keeps the CPU busy. */
void busy_for(uint64_t ns);

void floor_measure(double *clock_read_ns, double *loop_ns);

/* The tests. */
void test_npt(const struct options *options);
void test_wakeup(const struct options *options);
void test_hwlat(const struct options *options);
void test_preempt(const struct options *options);
void test_pi(const struct options *options);
void test_maxrate(const struct options *options);

#endif
