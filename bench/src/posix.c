/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * posix.c: what <trace.h> costs. Prints one line for each measure, "name value...", all values raw
 * (cycles for one call, by run); bench/posix makes a table of them. Built for each preset.
 * Arguments: CPU runs samples.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <trace.h>

#include "ticks.h"

#define CALLS 100

static trace_event_id_t event;
static int number = 42;

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", what, strerror(error));
		exit(1);
	}
}

static trace_id_t start(int policy)
{
	trace_attr_t attr;
	trace_id_t trid;

	check(posix_trace_attr_init(&attr), "attr_init");
	check(posix_trace_attr_setstreamfullpolicy(&attr, policy), "policy");
	/* In the cache, however many there are. */
	check(posix_trace_attr_setstreamsize(&attr, 4096), "size");
	check(posix_trace_create(0, &attr, &trid), "create");
	check(posix_trace_start(trid), "start");
	return trid;
}

static void clock_reads(void)
{
	for (int i = 0; i < CALLS; i++)
		__asm__ __volatile__("rdtsc" : : : "eax", "edx");
}

static void events(void)
{
	for (int i = 0; i < CALLS; i++)
		posix_trace_event(event, &number, sizeof(number));
}

static double cycles_each(void (*run)(void))
{
	uint64_t begin = ticks_begin();

	run();
	return (double)(ticks_end() - begin) / CALLS;
}

/* Each run: behind it, the streams are emptied. The first one warms up. */
static void measure(const char *name, void (*run)(void), unsigned runs, const trace_id_t *trids,
		    int stream_count)
{
	printf("%s", name);
	for (unsigned i = 0; i <= runs; i++) {
		double cycles = cycles_each(run);

		if (i)
			printf(" %.2f", cycles);
		for (int stream = 0; stream < stream_count; stream++)
			check(posix_trace_clear(trids[stream]), "clear");
	}
	printf("\n");
}

static bool take(trace_id_t trid)
{
	struct posix_trace_event_info info;
	int data, unavailable;
	size_t bytes;

	check(posix_trace_trygetnext_event(trid, &info, &data, sizeof(data), &bytes, &unavailable),
	      "trygetnext");
	return !unavailable;
}

/* A stream that holds events, read to its end. */
static void measure_reading(unsigned runs, trace_id_t trid)
{
	printf("trygetnext");
	for (unsigned i = 0; i <= runs; i++) {
		uint64_t begin;
		unsigned count = 0;

		events();
		begin = ticks_begin();
		while (take(trid))
			count++;
		if (i)
			printf(" %.2f", (double)(ticks_end() - begin) / count);
	}
	printf("\n");
}

/* The paper's first experiment: two events, half a period later both are read; each call alone. */
static void measure_pairs(unsigned samples, trace_id_t trid)
{
	struct timespec half = { 0, 500000 };
	uint64_t (*cycles)[4] = calloc(samples, sizeof(*cycles));
	static const char *const names[] = { "trace_first", "trace_second", "retrieve_first",
					     "retrieve_second" };

	while (take(trid))
		;
	for (unsigned i = 0; i < samples; i++) {
		for (int second = 0; second < 2; second++) {
			uint64_t begin = ticks_begin();

			posix_trace_event(event, &number, sizeof(number));
			cycles[i][second] = ticks_end() - begin;
		}
		nanosleep(&half, NULL);
		for (int second = 0; second < 2; second++) {
			uint64_t begin = ticks_begin();

			take(trid);
			cycles[i][2 + second] = ticks_end() - begin;
		}
		nanosleep(&half, NULL);
	}
	for (int which = 0; which < 4; which++) {
		printf("%s", names[which]);
		for (unsigned i = 0; i < samples; i++)
			printf(" %llu", (unsigned long long)cycles[i][which]);
		printf("\n");
	}
	free(cycles);
}

/* The paper's second one, with the system event that is at hand: a stream's start, alone. */
static void measure_system(unsigned samples, trace_id_t trid)
{
	printf("system_event");
	for (unsigned i = 0; i < samples; i++) {
		uint64_t begin;

		check(posix_trace_stop(trid), "stop");
		begin = ticks_begin();
		check(posix_trace_start(trid), "start");
		printf(" %llu", (unsigned long long)(ticks_end() - begin));
	}
	printf("\n");
}

static void measure_filtered(unsigned runs, trace_id_t trid)
{
#if KYMO_POSIX_FILTER
	trace_event_set_t set;

	check(posix_trace_eventset_empty(&set), "empty");
	check(posix_trace_eventset_add(event, &set), "add");
	check(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), "filter");
	measure("filtered", events, runs, NULL, 0);
	check(posix_trace_set_filter(trid, &set, POSIX_TRACE_SUB_EVENTSET), "filter");
#else
	(void)runs;
	(void)trid;
#endif
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
	unsigned samples = argc > 3 ? (unsigned)atoi(argv[3]) : 10000;
	trace_id_t trids[8];

	if (argc > 1)
		pin_to(atoi(argv[1]));
	check(posix_trace_eventid_open("bench", &event), "eventid_open");
	printf("hertz %.0f\n", ticks_hz_now());
	measure("clock_read", clock_reads, runs, NULL, 0);
	measure("no_stream", events, runs, NULL, 0);
	trids[0] = start(POSIX_TRACE_UNTIL_FULL);
	measure("one_stream", events, runs, trids, 1);
	measure("clock_read", clock_reads, runs, NULL, 0);
	measure_filtered(runs, trids[0]);
	measure_reading(runs, trids[0]);
	check(posix_trace_stop(trids[0]), "stop");
	measure("suspended", events, runs, NULL, 0);
	check(posix_trace_start(trids[0]), "start");
	measure_pairs(samples, trids[0]);
	measure_system(samples, trids[0]);
	check(posix_trace_shutdown(trids[0]), "shutdown");
	trids[0] = start(POSIX_TRACE_LOOP);
	for (int i = 0; i < 10; i++)
		events();
	measure("overwriting", events, runs, NULL, 0);
	check(posix_trace_shutdown(trids[0]), "shutdown");
	if (TRACE_SYS_MAX < 8)
		return 0;
	for (int i = 0; i < 8; i++)
		trids[i] = start(POSIX_TRACE_UNTIL_FULL);
	measure("eight_streams", events, runs, trids, 8);
	return 0;
}
