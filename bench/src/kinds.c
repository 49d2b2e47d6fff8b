/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kinds.c: the kinds that involve no tracer (the references), and the lookup over all of them.
 */
#include <string.h>

#include "kinds.h"

const char *volatile bench_text = "hello, kymo!";

static volatile uint64_t sink;

BENCH_KIND(empty, (void)0)
BENCH_KIND(rdtsc, {
	uint64_t t = __rdtsc();
	__asm__ __volatile__("" : : "r"(t));
})
BENCH_KIND(vdso, {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	sink = (uint64_t)ts.tv_nsec;
})

const struct kind kinds_bare[] = {
	{"empty", TRACER_NONE, 0, loop_empty, single_empty, 0},
	{"rdtsc", TRACER_NONE, 0, loop_rdtsc, single_rdtsc, 0},
	{"vdso", TRACER_NONE, 0, loop_vdso, single_vdso, 0},
	{0},
};

static const struct kind *find_in(const struct kind *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

const struct kind *kind_find(const char *name)
{
	const struct kind *kind = find_in(kinds_bare, name);

#ifdef WITH_KYMO
	if (!kind)
		kind = find_in(kinds_kymo, name);
#endif
#ifdef WITH_LTTNG
	if (!kind)
		kind = find_in(kinds_lttng, name);
#endif
	return kind;
}
