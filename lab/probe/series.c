/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* series.c: the rare part of keeping samples, and their JSON. */
#include "series.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

struct series *series_new(const char *name, int cpu)
{
	struct series *series = calloc(1, sizeof(*series));

	if (!series)
		die("no memory for a series");
	series->name = name;
	series->cpu = cpu;
	series->min = UINT64_MAX;
	return series;
}

void series_keep(struct series *series, uint64_t value_ns, uint64_t cycles)
{
	struct series_worst *at = &series->worst[0];
	uint64_t smallest = UINT64_MAX;

	if (value_ns > series->max)
		series->max = value_ns;
	if (series->worst_count < SERIES_WORST) {
		at = &series->worst[series->worst_count++];
	} else {
		for (unsigned i = 1; i < SERIES_WORST; i++)
			if (series->worst[i].value_ns < at->value_ns)
				at = &series->worst[i];
	}
	*at = (struct series_worst){ value_ns, cycles, series->count };
	if (value_ns > series->watch_above_ns)
		__atomic_store_n(&series->watched, series->watched + 1, __ATOMIC_RELAXED);
	if (series->worst_count < SERIES_WORST)
		return;
	for (unsigned i = 0; i < SERIES_WORST; i++)
		if (series->worst[i].value_ns < smallest)
			smallest = series->worst[i].value_ns;
	series->floor_of_worst = smallest + 1;
}

static int by_value(const void *a, const void *b)
{
	const struct series_worst *left = a, *right = b;

	return left->value_ns < right->value_ns ? 1 : left->value_ns > right->value_ns ? -1 : 0;
}

/* 128 bits in digits. */
static void say_wide(series_wide value)
{
	char digits[40];
	unsigned at = sizeof(digits);

	digits[--at] = 0;
	do
		digits[--at] = (char)('0' + (int)(value % 10));
	while (value /= 10);
	fputs(&digits[at], stdout);
}

void series_say(const struct series *series, int tid)
{
	struct series_worst worst[SERIES_WORST];
	const char *comma = "";

	printf("{\"say\":\"series\",\"name\":\"%s\",\"cpu\":%d,\"tid\":%d,\"count\":%" PRIu64
	       ",\"lost\":%" PRIu64 ",\"min\":%" PRIu64 ",\"max\":%" PRIu64 ",\"sum\":%" PRIu64
	       ",\"sum_squares\":\"",
	       series->name, series->cpu, tid, series->count, series->lost,
	       series->count ? series->min : 0, series->max, series->sum);
	say_wide(series->sum_squares);
	printf("\",\"histogram\":[");
	for (unsigned index = 0; index < SERIES_BUCKETS; index++) {
		if (!series->buckets[index])
			continue;
		printf("%s[%u,%" PRIu64 "]", comma, index, series->buckets[index]);
		comma = ",";
	}
	memcpy(worst, series->worst, sizeof(worst));
	qsort(worst, series->worst_count, sizeof(*worst), by_value);
	printf("],\"worst\":[");
	for (unsigned i = 0; i < series->worst_count; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", worst[i].value_ns,
		       worst[i].cycles, worst[i].sample);
	printf("]}\n");
	fflush(stdout);
}
