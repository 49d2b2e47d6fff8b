/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * npt.c: the Non-Preempt Test. A thread reads the clock in a loop; the time between two
 * readings is a sample, so nothing that takes the CPU away stays unseen. With a session that
 * wants them, each turn writes the tracepoint npt:loop, whose cost is in the next sample. Which
 * tracer's tracepoint that is, npt_tracer.h says.
 */
#include "probe.h"

#include "npt_tracer.h"

#include <kymo/tracepoint.h>

static void *body(struct worker *self)
{
	const struct options *options = self->options;
	uint64_t tp_cycles = (uint64_t)((double)options->tp_interval_ns * clock_cycles_per_ns);
	uint64_t length = (uint64_t)((double)options->duration_ns * clock_cycles_per_ns);
	uint64_t bound = options->count ? options->count : UINT64_MAX;
	struct series *series = self->series;
	uint64_t before, end, next_tp;

	place(self, options->policy, options->priority);
	kymo_thread_init();
	wait_for_go(self);
	npt_trace_start((uint32_t)self->cpu);
	before = clock_cycles();
	for (uint64_t i = 0; i < options->warmup; i++)
		before = clock_cycles();
	next_tp = before;
	end = length ? before + length : UINT64_MAX;
	while (series->count < bound && before < end && !probe_stop) {
		uint64_t now = clock_cycles();
		uint64_t ticks = now - before, ns = clock_ns_of(ticks);

		before = now;
		series_add(series, ns, now);
		if (npt_loop_wanted() && now >= next_tp) {
			npt_trace_loop(series->count - 1, ticks, (double)ticks / clock_cycles_per_ns);
			next_tp = now + tp_cycles;
		}
	}
	npt_trace_stop((uint32_t)self->cpu, series->count);
	unplace();
	return NULL;
}

void test_npt(const struct options *options)
{
	run_on_each_cpu(options, "loop", body);
}
