/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * npt_tracer.h: the tracepoints of npt, as those of one tracer, which is chosen when the probe is
 * built: kymo, LTTng-UST (NPT_LTTNG), or none at all but a function that a uprobe can be put on
 * (NPT_FUNCTION). The loop around them is the same text, so that the three probes differ by
 * their tracer only.
 */
#ifndef KYMO_PROBE_NPT_TRACER_H
#define KYMO_PROBE_NPT_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#if defined(NPT_LTTNG)
#include "../npt-lttng/provider.h"

static inline void npt_trace_start(uint32_t cpu)
{
	lttng_ust_tracepoint(npt, start, cpu);
}

static inline bool npt_loop_wanted(void)
{
	return lttng_ust_tracepoint_enabled(npt, loop);
}

static inline void npt_trace_loop(uint64_t iteration, uint64_t ticks, double duration_ns)
{
	lttng_ust_tracepoint(npt, loop, iteration, ticks, duration_ns);
}

static inline void npt_trace_stop(uint32_t cpu, uint64_t loops)
{
	lttng_ust_tracepoint(npt, stop, cpu, loops);
}

#elif defined(NPT_FUNCTION)

static inline void npt_trace_start(uint32_t cpu)
{
	(void)cpu;
}

static inline bool npt_loop_wanted(void)
{
	return true;
}

/* What the probe is put on. The statement keeps the call: a function without effect has none. */
static __attribute__((noinline, noclone)) void npt_trace_loop(uint64_t iteration, uint64_t ticks,
							      double duration_ns)
{
	__asm__ volatile("" : : "r"(iteration), "r"(ticks), "x"(duration_ns));
}

static inline void npt_trace_stop(uint32_t cpu, uint64_t loops)
{
	(void)cpu;
	(void)loops;
}

#else
#include <kymo/tracepoint.h>

KYMO_EVENT(npt, start, (u32, cpu))
KYMO_EVENT(npt, loop, (u64, iteration), (u64, ticks), (f64, duration))
KYMO_EVENT(npt, stop, (u32, cpu), (u64, loops))

static inline void npt_trace_start(uint32_t cpu)
{
	kymo_trace(npt, start, cpu);
}

static inline bool npt_loop_wanted(void)
{
	return kymo_trace_enabled(npt, loop);
}

static inline void npt_trace_loop(uint64_t iteration, uint64_t ticks, double duration_ns)
{
	kymo_trace(npt, loop, iteration, ticks, duration_ns);
}

static inline void npt_trace_stop(uint32_t cpu, uint64_t loops)
{
	kymo_trace(npt, stop, cpu, loops);
}
#endif

#endif
