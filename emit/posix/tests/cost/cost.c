/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cost.c: what posix_trace_event() costs in instructions [posix.md 3], one line for each path, which
 * emit/tests/cost.sh holds against cost.expect. KYMO_RING=portable counts without sequences.
 */
#define _GNU_SOURCE
#include "../../internal.h"
#include "../../sequence.h"

#include <trace.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("cost: line %d: ", __LINE__);                                       \
			printf(__VA_ARGS__);                                                       \
			puts("");                                                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#include "../../../tests/steps.h"

#define STREAMS 8u
#define WARM 3

static trace_id_t streams[STREAMS];
static trace_event_id_t event, filtered;
static trace_event_set_t set;
static trace_attr_t attr;
static volatile uint32_t value = 7;
static bool is_rseq;

static void nothing(void)
{
}

static void record(trace_event_id_t of)
{
	uint32_t number = value;

	posix_trace_event(of, &number, sizeof(number));
}

static void four_bytes(void)
{
	record(event);
}

static void others(void)
{
	record(filtered);
}

static void twelve_bytes(void)
{
	uint32_t numbers[3] = { value, value, value };

	posix_trace_event(event, numbers, sizeof(numbers));
}

static const struct path paths[] = {
	{ "nothing", nothing, false },
	{ "no_stream", four_bytes, false },
	{ "four_bytes", four_bytes, false },
	{ "twelve_bytes", twelve_bytes, false },
	{ "filtered", others, false },
	{ "four_bytes_to_eight", four_bytes, false },
	{ "twelve_bytes_to_eight", twelve_bytes, false },
};
#define PATHS (sizeof(paths) / sizeof(paths[0]))
/* Streams of each path, and whether they record it. */
static const uint32_t streams_of[PATHS] = { 0, 0, 1, 1, 1, STREAMS, STREAMS };
static const bool is_recorded[PATHS] = { false, false, true, true, false, true, true };

/* Takes all events of a stream; returns those of the user's. */
static int taken(trace_id_t stream)
{
	int count = 0;

	for (;;) {
		struct posix_trace_event_info info;
		size_t bytes;
		int is_missing;
		char data[64];

		CHECK(!posix_trace_trygetnext_event(stream, &info, data, sizeof(data), &bytes, &is_missing), "a look");
		if (is_missing)
			return count;
		count += info.posix_event_id == event || info.posix_event_id == filtered;
	}
}

static void before(const struct path *path)
{
	size_t at = (size_t)(path - paths);

	for (uint32_t stream = 0; stream < streams_of[at]; stream++) {
		CHECK(!posix_trace_create(0, &attr, &streams[stream]), "stream");
		CHECK(!posix_trace_set_filter(streams[stream], &set, POSIX_TRACE_SET_EVENTSET), "filter");
		CHECK(!posix_trace_start(streams[stream]), "start");
	}
	/* The first of a process attaches it. */
	for (int warm = 0; warm < WARM; warm++)
		path->run();
	for (uint32_t stream = 0; stream < streams_of[at]; stream++)
		taken(streams[stream]);
	for (uint32_t slot = 0; slot < STREAMS && is_rseq; slot++)
		if (kymop_slots.slot[slot].rseq_offset)
			kymop_slots.slot[slot].rseq_offset = (char *)&own_rseq - kymo__thread_pointer();
}

/* What was counted is what the name says. */
static void behind(const struct path *path)
{
	size_t at = (size_t)(path - paths);

	for (uint32_t stream = 0; stream < streams_of[at]; stream++) {
		int wanted = is_recorded[at] ? steps_of : 0, count = taken(streams[stream]);

		CHECK(count == wanted, "%s: %d in stream %u, not %d", path->name, count, stream, wanted);
		CHECK(!posix_trace_shutdown(streams[stream]), "shutdown");
	}
}

static void counted(void)
{
	CHECK(!posix_trace_attr_init(&attr) && !posix_trace_attr_setstreamsize(&attr, 1u << 20), "attributes");
	CHECK(!posix_trace_eventid_open("cost", &event) && !posix_trace_eventid_open("filtered", &filtered), "event");
	CHECK(!posix_trace_eventset_empty(&set) && !posix_trace_eventset_add(filtered, &set), "set");
	steps_run(paths, PATHS, before, behind);
}

int main(void)
{
	const char *ring = getenv("KYMO_RING");
	cpu_set_t cpu;

	is_rseq = !ring || strcmp(ring, "portable") != 0;
	CPU_ZERO(&cpu);
	CPU_SET((size_t)sched_getcpu(), &cpu);
	CHECK(!sched_setaffinity(0, sizeof(cpu), &cpu), "%s", strerror(errno));
	return steps_count(is_rseq ? "rseq" : "portable", paths, PATHS, counted);
}
