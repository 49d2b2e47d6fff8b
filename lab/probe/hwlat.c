/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hwlat.c: gaps that nothing in user space explains: the clock is read in a loop for a part of
 * each window, and what is above a threshold is a sample. Without interrupts off it cannot tell
 * firmware from the kernel; who reads the result is told so.
 */
#include "probe.h"

#include <kymo/tracepoint.h>

KYMO_EVENT(lab, gap, (u32, cpu), (u64, gap_ns))

static void sleep_until(uint64_t ns)
{
	const struct timespec at = { (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void look(struct worker *self, uint64_t until_cycles, uint64_t threshold_cycles)
{
	uint64_t before = clock_cycles();

	while (before < until_cycles && !probe_stop) {
		uint64_t now = clock_cycles();

		if (__builtin_expect(now - before >= threshold_cycles, 0)) {
			uint64_t gap_ns = clock_ns_of(now - before);

			series_add(self->series, gap_ns, now);
			kymo_trace(lab, gap, (uint32_t)self->cpu, gap_ns);
			now = clock_cycles();
		}
		before = now;
	}
}

static void *body(struct worker *self)
{
	const struct options *options = self->options;
	uint64_t threshold = (uint64_t)((double)options->threshold_ns * clock_cycles_per_ns);
	uint64_t width = (uint64_t)((double)options->width_ns * clock_cycles_per_ns);
	uint64_t bound = options->count ? options->count : UINT64_MAX;
	uint64_t next, end;

	place(self, options->policy, options->priority);
	kymo_thread_init();
	wait_for_go(self);
	next = monotonic_ns();
	end = options->duration_ns ? next + options->duration_ns : UINT64_MAX;
	while (!probe_stop && next < end && self->series->count < bound) {
		look(self, clock_cycles() + width, threshold);
		next += options->window_ns;
		sleep_until(next < end ? next : end);
	}
	unplace();
	return NULL;
}

void test_hwlat(const struct options *options)
{
	run_on_each_cpu(options, "gap", body);
}
