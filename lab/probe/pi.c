/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pi.c: priority inheritance. On one CPU a low thread takes a lock and works, a middle one
 * comes and works long without the lock, a high one wants the lock. A sample is the time that
 * the high one waits. With inheritance it is what is left of the low one's work; without, the
 * middle one's work is added.
 */
#include "probe.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kymo/tracepoint.h>

KYMO_EVENT(lab, lock_wait, (u64, round), (u64, wait_ns), (bool, behind_middle))

/* The middle one works so many times as long as the low one. */
#define MIDDLE_FACTOR 10

enum { LOW, MIDDLE, HIGH };

static pthread_mutex_t lock;
static _Alignas(64) uint32_t round_of[3]; /* what each was started for */
static volatile bool middle_is_done;
static uint64_t behind_middle;

static void start_one(int who)
{
	__atomic_add_fetch(&round_of[who], 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &round_of[who], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_for(int who, uint32_t seen)
{
	while (__atomic_load_n(&round_of[who], __ATOMIC_ACQUIRE) == seen)
		syscall(SYS_futex, &round_of[who], FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* The low one drives: in the middle of its work under the lock the others come, the high one first. */
static void drive(struct worker *self)
{
	const struct options *options = self->options;
	uint64_t end_ns = options->duration_ns ? monotonic_ns() + options->duration_ns : UINT64_MAX;

	for (uint64_t round = 0; rounds_go_on(options, round, end_ns); round++) {
		const struct timespec pause = { 0, (long)options->interval_ns };

		middle_is_done = false;
		pthread_mutex_lock(&lock);
		busy_for(options->hold_ns / 2);
		start_one(HIGH);
		start_one(MIDDLE);
		busy_for(options->hold_ns / 2);
		pthread_mutex_unlock(&lock);
		nanosleep(&pause, NULL);
	}
	probe_stop = true;
	start_one(HIGH);
	start_one(MIDDLE);
}

static void *body(struct worker *self)
{
	const struct options *options = self->options;

	static const char *const names[] = { "pi-low", "pi-middle", "pi-high" };

	place(self, options->policy, options->priority + (int)self->number);
	pthread_setname_np(pthread_self(), names[self->number]);
	kymo_thread_init();
	wait_for_go(self);
	if (self->number == LOW)
		drive(self);
	for (uint32_t seen = 0; self->number != LOW; seen++) {
		uint64_t before, waited;
		bool late;

		wait_for((int)self->number, seen);
		if (probe_stop)
			break;
		if (self->number == MIDDLE) {
			busy_for(options->hold_ns * MIDDLE_FACTOR);
			middle_is_done = true;
			continue;
		}
		before = clock_cycles();
		pthread_mutex_lock(&lock);
		waited = clock_cycles() - before;
		late = middle_is_done;
		pthread_mutex_unlock(&lock);
		if (seen < options->warmup)
			continue;
		series_add(self->series, clock_ns_of(waited), before + waited);
		behind_middle += late;
		kymo_trace(lab, lock_wait, self->series->count - 1, clock_ns_of(waited), late);
	}
	unplace();
	return NULL;
}

void test_pi(const struct options *options)
{
	static struct worker workers[3];
	int cpu = options->cpu_count ? options->cpus[0] : 0;
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	errno = pthread_mutexattr_setprotocol(&attr, options->inherit ? PTHREAD_PRIO_INHERIT :
									PTHREAD_PRIO_NONE);
	if (errno || (errno = pthread_mutex_init(&lock, &attr)))
		die("a lock with priority inheritance");
	for (unsigned i = 0; i < 3; i++)
		workers[i] = (struct worker){ .options = options,
					      .number = i,
					      .cpu = cpu,
					      .series = i == HIGH ? series_new("lock wait", cpu) : NULL,
					      .body = body };
	run_workers(workers, 3);
	printf("{\"say\":\"count\",\"name\":\"behind_middle\",\"value\":%" PRIu64 "}\n", behind_middle);
}
