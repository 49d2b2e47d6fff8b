/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * interrupted.c: the flight recorder, where a writer is stopped at the worst moment while others write
 * lap after lap [ring.md 10]. The stops are test points of overwrite.c and portable.c, which are
 * compiled into this program; the others' records are written in the stop itself, as by a signal
 * handler or another thread of the same CPU. KYMO_RING=portable takes the portable ring.
 */
#define _GNU_SOURCE
enum place { NOWHERE, LOOKED, MARK, MARKED, RESERVED };
static void stop_at(enum place place);
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/lanes.c"
#include "../src/overwrite.c"
#undef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/portable.c"

#include "local.h"

#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>

#define RING_BYTES 16384u
#define PAYLOAD_MAX 900u
#define ROUNDS 400

KYMO_EVENT(stop, rec, (bytes, payload))

static struct local local;
static enum place wanted;
static uint32_t laps, skip;
static bool in_stop, jumps;
static jmp_buf away;
static uint64_t state = 88172645463325252ull;

static uint32_t next_random(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

/* A payload of which each byte says how long it is, so that a piece of another shows. */
static void trace(uint32_t bytes)
{
	uint8_t payload[PAYLOAD_MAX];

	memset(payload, (int)(bytes % 251), bytes);
	kymo_trace(stop, rec, payload, bytes);
}

static void stop_at(enum place place)
{
	uint64_t written = 0;

	if (in_stop || place != wanted || skip--)
		return;
	in_stop = true;
	while (written < (uint64_t)laps * RING_BYTES) {
		uint32_t bytes = 1 + next_random(PAYLOAD_MAX);

		trace(bytes);
		written += bytes + 14;
	}
	wanted = NOWHERE;
	in_stop = false;
	if (jumps)
		longjmp(away, 1);
}

/* Of each lane what a snapshot has is whole records; returns the bytes of the fullest. */
static uint32_t check(uint32_t round)
{
	static uint8_t copy[RING_BYTES];
	uint32_t most = 0;

	for (uint32_t lane = 0; lane < local.lane_count; lane++) {
		uint64_t from, head;
		uint32_t bytes = local_snapshot(&local, lane, copy, &from, &head);
		uint64_t records = (head - from) >> 32;

		for (uint32_t at = 0; at < bytes; records--) {
			uint32_t count;

			CHECK(at + 14 <= bytes && copy[at] == 1 && copy[at + 1] == 0,
			      "round %u, lane %u, byte %u of %u: not a record", round, lane, at, bytes);
			count = copy[at + 12] | (uint32_t)copy[at + 13] << 8;
			CHECK(at + 14 + count <= bytes, "round %u, byte %u: a cut record", round, at);
			for (uint32_t i = 0; i < count; i++)
				CHECK(copy[at + 14 + i] == count % 251, "round %u, byte %u: payload of another",
				      round, at + 14 + i);
			at += 14 + count;
		}
		CHECK(records == 0, "round %u, lane %u: a count that is wrong", round, lane);
		most = bytes > most ? bytes : most;
	}
	return most;
}

int main(void)
{
	static uint32_t written, least = UINT32_MAX;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	kymo_thread_init();
	local_attach(&local, RING_BYTES, 9, true);
	local_enable(&kymo__event_stop_rec, 1);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t until = written + 2 * RING_BYTES + next_random(RING_BYTES);

		laps = 1 + next_random(4);
		skip = next_random(4);
		wanted = (enum place)(1 + round % RESERVED);
		/* A thread that leaves its record for ever: the portable ring's next owner goes on. */
		jumps = kymo_kind == KYMO_KIND_PORTABLE && wanted == RESERVED && round % 8 == 7;
		while (written < until) {
			uint32_t bytes = 1 + next_random(PAYLOAD_MAX);
			enum place before = wanted;
			uint32_t most;

			if (!setjmp(away))
				trace(bytes);
			else
				recover(claim_of(kymo_self(), 0), &kymo_memories[0]);
			written += bytes + 14;
			if (before == wanted || jumps) {
				if (next_random(8) == 0)
					check(round);
				continue;
			}
			/* Behind a stop: the ring, less a chunk and the longest records at both ends. */
			most = check(round);
			least = most < least ? most : least;
			CHECK(round < 8 || most > RING_BYTES - RING_BYTES / KYMO_CHUNKS - 3 * PAYLOAD_MAX,
			      "round %u: a snapshot of %u bytes", round, most);
		}
	}
	printf("snapshots are whole, of %u bytes at least, lost %" PRIu64 " (%s)\n", least, local_lost(&local),
	       kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable");
	return 0;
}
