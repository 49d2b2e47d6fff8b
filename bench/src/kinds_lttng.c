/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kinds_lttng.c: the peer's kinds.
 */
#include "kinds.h"
#include "lttng_tp.h"

BENCH_KIND(lttng_one, lttng_ust_tracepoint(kb, one, (int)v))
BENCH_KIND(lttng_five, lttng_ust_tracepoint(kb, five, 7u, (int64_t)v, (double)v, v, bench_text))
BENCH_KIND(lttng_off, lttng_ust_tracepoint(kb, off, (int)v))

static int enabled_one(void)
{
	return lttng_ust_tracepoint_enabled(kb, one) != 0;
}

static int enabled_five(void)
{
	return lttng_ust_tracepoint_enabled(kb, five) != 0;
}

static int enabled_off(void)
{
	return lttng_ust_tracepoint_enabled(kb, off) != 0;
}

const struct kind kinds_lttng[] = {
	{"lttng_one", TRACER_LTTNG, 1, loop_lttng_one, single_lttng_one, enabled_one},
	{"lttng_five", TRACER_LTTNG, 1, loop_lttng_five, single_lttng_five, enabled_five},
	{"lttng_off", TRACER_LTTNG, 0, loop_lttng_off, single_lttng_off, enabled_off},
	{0},
};
