/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * preempt.c: does a higher priority pre-empt a lower one, in what order, and how fast. Threads
 * of rising priority on one CPU: each works, wakes the next higher one in the middle of its
 * work, and works on. A sample is the time from that call to the higher thread's first reading
 * of the clock. In the right order the higher one is done before the lower one goes on; what is
 * not is counted as lost order.
 */
#include "probe.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kymo/tracepoint.h>

KYMO_EVENT(lab, preempted, (u32, level), (u64, round), (u64, latency_ns), (u64, return_ns))

#define LEVELS_MAX 64

struct level {
	_Alignas(64) uint32_t word; /* rounds that it was woken for */
	uint64_t woken_at, ran_at, done_at; /* cycles */
};

static struct level levels[LEVELS_MAX];
static uint64_t out_of_order;
static struct series *returns; /* from the higher one's end to the lower one's next reading */

static void wake(unsigned number)
{
	struct level *level = &levels[number];

	__atomic_store_n(&level->done_at, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&level->woken_at, clock_cycles(), __ATOMIC_RELAXED);
	__atomic_add_fetch(&level->word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &level->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* One round of one level: work, wake the next one in the middle, see that it is done, work on. */
static void turn(struct worker *self, uint64_t round)
{
	unsigned number = self->number, last = self->options->levels - 1;
	uint64_t half_ns = self->options->hold_ns / 2;

	busy_for(half_ns);
	if (number < last) {
		uint64_t back, done;

		wake(number + 1);
		back = clock_cycles();
		done = __atomic_load_n(&levels[number + 1].done_at, __ATOMIC_ACQUIRE);
		if (round >= self->options->warmup) {
			if (!done)
				out_of_order++;
			else if (!number)
				series_add(returns, clock_ns_of(back - done), back);
		}
	}
	busy_for(half_ns);
}

static void *body(struct worker *self)
{
	const struct options *options = self->options;
	struct level *level = &levels[self->number];
	uint64_t end_ns;
	uint32_t seen = 0;

	place(self, options->policy, options->priority + (int)self->number);
	kymo_thread_init();
	wait_for_go(self);
	end_ns = options->duration_ns ? monotonic_ns() + options->duration_ns : UINT64_MAX;
	if (!self->number) {
		for (uint64_t round = 0; rounds_go_on(options, round, end_ns); round++) {
			const struct timespec pause = { 0, (long)options->interval_ns };

			turn(self, round);
			nanosleep(&pause, NULL);
		}
		probe_stop = true;
		for (unsigned i = 1; i < options->levels; i++)
			wake(i);
		unplace();
		return NULL;
	}
	for (;;) {
		uint64_t now;

		syscall(SYS_futex, &level->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		now = clock_cycles();
		if (probe_stop)
			break;
		if (__atomic_load_n(&level->word, __ATOMIC_ACQUIRE) == seen)
			continue;
		uint64_t latency_ns = clock_ns_of(now - level->woken_at);

		if (seen >= options->warmup)
			series_add(self->series, latency_ns, now);
		seen++;
		turn(self, seen - 1);
		kymo_trace(lab, preempted, self->number, seen, latency_ns,
			   clock_ns_of(clock_cycles() - now));
		__atomic_store_n(&level->done_at, clock_cycles(), __ATOMIC_RELEASE);
	}
	unplace();
	return NULL;
}

void test_preempt(const struct options *options)
{
	static struct worker workers[LEVELS_MAX];
	static char names[LEVELS_MAX][24];
	int cpu = options->cpu_count ? options->cpus[0] : 0;
	unsigned count = options->levels;

	returns = series_new("return", cpu);
	for (unsigned i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "preempt %d", options->priority + (int)i);
		workers[i] = (struct worker){ .options = options,
					      .number = i,
					      .cpu = cpu,
					      .series = i ? series_new(names[i], cpu) : NULL,
					      .body = body };
	}
	run_workers(workers, count);
	series_say(returns, workers[0].tid);
	printf("{\"say\":\"count\",\"name\":\"out_of_order\",\"value\":%" PRIu64 "}\n", out_of_order);
}
