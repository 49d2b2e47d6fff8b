/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * maxrate.c: tracepoints at a rate: each thread writes one whenever the counter says so, and
 * busily waits in between. What a session loses of them is for who asked to find out; here is said
 * how many were written, those of the warm-up apart.
 */
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <kymo/tracepoint.h>

KYMO_EVENT(lab, tick, (u64, number))
KYMO_EVENT(lab, tock, (u64, number), (bytes, payload))

/* A thread that is later than this leaves out what it did not write: no burst follows. */
#define LATE_NS 1000000

/* What it wrote and left out; CPU time that it had, and time that passed. */
struct writer {
	uint64_t written, left_out, cpu_ns, wall_ns;
};

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

static void write_one(const struct options *options, uint64_t number)
{
	static const char payload[PAYLOAD_MAX];

	if (options->payload)
		kymo_trace(lab, tock, number, payload, options->payload);
	else
		kymo_trace(lab, tick, number);
}

static void *body(struct worker *self)
{
	const struct options *options = self->options;
	double period = (double)SECOND_NS / (double)options->rate * clock_cycles_per_ns, next;
	double late = LATE_NS * clock_cycles_per_ns;
	struct writer *writer = self->own;
	uint64_t start, used, length = UINT64_MAX;

	if (options->duration_ns)
		length = (uint64_t)((double)options->duration_ns * clock_cycles_per_ns);
	place(self, options->policy, options->priority);
	kymo_thread_init();
	wait_for_go(self);
	/* The first ones touch the ring's pages. */
	for (uint64_t i = 0; i < options->warmup; i++)
		write_one(options, i);
	used = cpu_ns();
	start = clock_cycles();
	/* Times since the start: a double holds them exactly for a month. */
	for (next = 0; !probe_stop;) {
		double now = (double)(clock_cycles() - start);

		if (now >= (double)length || (options->count && writer->written == options->count))
			break;
		if (now < next)
			continue;
		if (now > next + late) {
			uint64_t missed = (uint64_t)((now - next) / period);

			writer->left_out += missed;
			next += (double)missed * period;
		}
		write_one(options, writer->written++);
		next += period;
	}
	writer->wall_ns = (uint64_t)((double)(clock_cycles() - start) / clock_cycles_per_ns);
	writer->cpu_ns = cpu_ns() - used;
	unplace();
	return NULL;
}

void test_maxrate(const struct options *options)
{
	static struct worker workers[THREADS_MAX];
	static struct writer writers[THREADS_MAX];
	unsigned count = options->cpu_count ? options->cpu_count : 1;
	uint64_t written = 0, left_out = 0, cpu = 0, wall = 0;

	for (unsigned i = 0; i < count; i++)
		workers[i] = (struct worker){ .options = options,
					      .number = i,
					      .cpu = options->cpu_count ? options->cpus[i] : -1,
					      .body = body,
					      .own = &writers[i] };
	run_workers(workers, count);
	for (unsigned i = 0; i < count; i++) {
		written += writers[i].written;
		left_out += writers[i].left_out;
		cpu += writers[i].cpu_ns;
		wall += writers[i].wall_ns;
	}
	printf("{\"say\":\"count\",\"name\":\"written\",\"value\":%" PRIu64 "}\n", written);
	printf("{\"say\":\"count\",\"name\":\"warmup\",\"value\":%" PRIu64 "}\n", options->warmup * count);
	printf("{\"say\":\"count\",\"name\":\"left_out\",\"value\":%" PRIu64 "}\n", left_out);
	printf("{\"say\":\"count\",\"name\":\"cpu_ns\",\"value\":%" PRIu64 "}\n", cpu);
	printf("{\"say\":\"count\",\"name\":\"wall_ns\",\"value\":%" PRIu64 "}\n", wall);
}
