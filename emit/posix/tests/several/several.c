/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * several.c: one event for eight streams [ring.md 5.9]: one clock read for all, unless something came between two of
 * them. What comes between is let in at a test point of record.c, which is compiled into this program: events of the
 * thread itself, as by a signal handler; a signal whose handler records nothing; a thread that shares the CPU. In each
 * stream timestamps do not decrease, and each event is there once. KYMO_RING=portable has no sequence: one clock read
 * for each stream.
 */
#define _GNU_SOURCE
#include "../../../tests/between.h"

#include "../../record.c"

#include <stdio.h>
#include <stdlib.h>

#define STREAMS 8u
#define ROUNDS 60u
#define NUMBERS (1u << 15)

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("several: line %d: ", __LINE__);                                    \
			printf(__VA_ARGS__);                                                       \
			puts("");                                                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static trace_id_t streams[STREAMS];
static trace_event_id_t event;
static uint64_t stamps[STREAMS][NUMBERS];
static uint32_t next_number;
static uint64_t shared, apart;

static void record(void)
{
	uint32_t number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);

	posix_trace_event(event, &number, sizeof(number));
}

/* All events of a stream, as they are in its lanes: times of day would be rounded, and do not go back. */
static void read_all(uint32_t stream)
{
	struct kymop_stream *from = kymop_find(streams[stream]);
	uint64_t last = 0;

	CHECK(from, "stream %u", stream);
	kymop_reader_begin(from);
	for (;;) {
		struct kymop_read read;
		uint32_t number;

		if (kymop_reader_next(from, &read, &number, sizeof(number)) == KYMOP_NOTHING)
			return;
		if ((uint16_t)read.record.word != event)
			continue;
		CHECK(read.record.data_bytes == sizeof(number) && number < NUMBERS && !stamps[stream][number],
		      "stream %u: number %u", stream, number);
		CHECK(read.stamp >= last, "stream %u, number %u: time goes back by %llu", stream, number,
		      (unsigned long long)(last - read.stamp));
		stamps[stream][number] = last = read.stamp;
	}
}

/* All numbers that were given are in all streams. */
static void check(void)
{
	shared = apart = 0;
	for (uint32_t stream = 0; stream < STREAMS; stream++)
		read_all(stream);
	for (uint32_t number = 0; number < next_number; number++)
		for (uint32_t stream = 0; stream < STREAMS; stream++) {
			CHECK(stamps[stream][number], "stream %u: number %u is missing", stream, number);
			if (stream)
				*(stamps[stream][number] == stamps[stream - 1][number] ? &shared : &apart) += 1;
		}
	memset(stamps, 0, sizeof(stamps));
	next_number = 0;
}

static void run(enum between between)
{
	CHECK(between_run(between, ROUNDS), "a thread");
	check();
}

int main(void)
{
	const char *ring = getenv("KYMO_RING");
	bool is_rseq = !ring || strcmp(ring, "portable") != 0;
	const uint64_t pairs = ROUNDS * (STREAMS - 1);
	trace_attr_t attr;

	CHECK(between_prepare(), "cannot pin");
	CHECK(!posix_trace_attr_init(&attr) && !posix_trace_attr_setstreamsize(&attr, 8u << 20), "attributes");
	CHECK(!posix_trace_eventid_open("several", &event), "event");
	for (uint32_t stream = 0; stream < STREAMS; stream++)
		CHECK(!posix_trace_create(0, &attr, &streams[stream]) && !posix_trace_start(streams[stream]), "stream");
	record(); /* the first of a process attaches it */
	check();
	run(NOTHING);
	/* A tick may have come between. */
	CHECK(!is_rseq || shared >= pairs * 9 / 10, "%lu of %lu with one clock read", (unsigned long)shared,
	      (unsigned long)pairs);
	printf("eight streams (%s): one clock read %lu times of %lu\n", is_rseq ? "rseq" : "portable",
	       (unsigned long)shared, (unsigned long)pairs);
	for (enum between between = RECORDS; between < BETWEENS && is_rseq; between++) {
		run(between);
		CHECK(apart >= pairs, "%d: interrupted, and %lu of %lu read the clock again", (int)between,
		      (unsigned long)apart, (unsigned long)pairs);
		printf("interrupted (%d): %lu of %lu read the clock again\n", (int)between, (unsigned long)apart,
		       (unsigned long)(apart + shared));
	}
	return 0;
}
