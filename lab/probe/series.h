/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * series.h: what one measuring thread has measured: count, moments, histogram and worst samples
 * [spec/lab.md 2, 4]. Filled inside of the measuring loops, so everything is inline, bounded, and
 * touches memory that was made before.
 */
#ifndef KYMO_PROBE_SERIES_H
#define KYMO_PROBE_SERIES_H

#include <stdint.h>

#define SERIES_BUCKETS (256 + 56 * 128)
#define SERIES_WORST 20

/* 128 bits: squares of nanoseconds do not fit into 64. */
__extension__ typedef unsigned __int128 series_wide;

struct series_worst {
	uint64_t value_ns, cycles, sample;
};

struct series {
	const char *name;
	int cpu;
	uint64_t count, lost, min, max, sum;
	series_wide sum_squares;
	uint64_t floor_of_worst; /* smaller samples are not among the worst */
	uint64_t watch_above_ns; /* of those that are, longer ones count in: */
	uint64_t watched;	 /* read while the test runs */
	unsigned worst_count;
	struct series_worst worst[SERIES_WORST]; /* in no order */
	uint64_t buckets[SERIES_BUCKETS];
};

static inline unsigned series_index(uint64_t value)
{
	unsigned exponent;

	if (value < 256)
		return (unsigned)value;
	exponent = 63 - (unsigned)__builtin_clzll(value);
	return 256 + (exponent - 8) * 128 + (unsigned)((value >> (exponent - 7)) - 128);
}

/* series_keep: puts a sample among the worst; rare. */
void series_keep(struct series *series, uint64_t value_ns, uint64_t cycles);

/* series_add: one sample, which ended at cycles of the trace's clock. */
static inline void series_add(struct series *series, uint64_t value_ns, uint64_t cycles)
{
	series->buckets[series_index(value_ns)]++;
	series->sum += value_ns;
	series->sum_squares += (series_wide)value_ns * value_ns;
	if (value_ns < series->min)
		series->min = value_ns;
	if (__builtin_expect(value_ns >= series->floor_of_worst, 0))
		series_keep(series, value_ns, cycles);
	series->count++;
}

struct series *series_new(const char *name, int cpu);

/* series_say: the series as one line of JSON on standard output. */
void series_say(const struct series *series, int tid);

#endif
