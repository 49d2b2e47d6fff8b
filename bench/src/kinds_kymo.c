/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kinds_kymo.c: kymo's kinds. The sessions of the benchmark ask for bench:*, so that bench_off:off stays off.
 */
#include <kymo/tracepoint.h>

#include "kinds.h"
#include "peek.h"

KYMO_EVENT(bench, one, (u64, value))
KYMO_EVENT(bench, one_int, (i32, value))
KYMO_EVENT(bench, five, (u32, axis), (i64, step), (f64, position), (u64, value), (str, note))
KYMO_EVENT(bench_off, off, (u64, value))

BENCH_KIND(kymo_one, kymo_trace(bench, one, v))
BENCH_KIND(kymo_int, kymo_trace(bench, one_int, (int32_t)v))
BENCH_KIND(kymo_five, kymo_trace(bench, five, 7u, (int64_t)v, (double)v, v, bench_text))
BENCH_KIND(kymo_off, kymo_trace(bench_off, off, v))

/*
 * Enabled is what leaves a record in a ring: the test asks the memory, not the library. The value of such a record
 * is BENCH_PROBE, which count.c does not count.
 */
static int leaves_record(void (*loop)(uint64_t, uint64_t))
{
	struct peek before, after;

	if (peek_find() == 0)
		return 0;
	peek_read(&before);
	loop(BENCH_PROBE, 1);
	peek_read(&after);
	return after.recorded + after.lost != before.recorded + before.lost;
}

static int enabled_one(void)
{
	return leaves_record(loop_kymo_one);
}

static int enabled_int(void)
{
	return leaves_record(loop_kymo_int);
}

static int enabled_five(void)
{
	return leaves_record(loop_kymo_five);
}

static int enabled_off(void)
{
	return leaves_record(loop_kymo_off);
}

const struct kind kinds_kymo[] = {
	{"kymo_one", TRACER_KYMO, 1, loop_kymo_one, single_kymo_one, enabled_one},
	{"kymo_int", TRACER_KYMO, 1, loop_kymo_int, single_kymo_int, enabled_int},
	{"kymo_five", TRACER_KYMO, 1, loop_kymo_five, single_kymo_five, enabled_five},
	{"kymo_off", TRACER_KYMO, 0, loop_kymo_off, single_kymo_off, enabled_off},
	{0},
};
