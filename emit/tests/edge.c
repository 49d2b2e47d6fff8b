/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * edge.c: rings that are full to the last byte. Stores run past a record's end; what they touch there
 * must be free [ring.md 5.1]. Records of 0 to 9 bytes of payload, in any order, until one finds no room:
 * all that were written are as they were. KYMO_RING=portable takes the portable ring.
 *
 *	edge [rounds]
 */
#include "local.h"

#include <sched.h>

#define RING_BYTES 4096u
#define ROUNDS 20000

KYMO_EVENT(edge, b0)
KYMO_EVENT(edge, b1, (u8, a))
KYMO_EVENT(edge, b2, (u16, a))
KYMO_EVENT(edge, b3, (u16, a), (u8, b))
KYMO_EVENT(edge, b4, (u32, a))
KYMO_EVENT(edge, b5, (u32, a), (u8, b))
KYMO_EVENT(edge, b8, (u64, a))
KYMO_EVENT(edge, b9, (u64, a), (u8, b))

static const uint32_t sizes[] = { 0, 1, 2, 3, 4, 5, 8, 9 };
static uint64_t state = 88172645463325252ull;

static uint32_t next_random(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

static void trace(uint32_t kind)
{
	switch (kind) {
	case 0:
		kymo_trace(edge, b0);
		break;
	case 1:
		kymo_trace(edge, b1, 0xa5);
		break;
	case 2:
		kymo_trace(edge, b2, 0xa5a5);
		break;
	case 3:
		kymo_trace(edge, b3, 0xa5a5, 0xa5);
		break;
	case 4:
		kymo_trace(edge, b4, 0xa5a5a5a5);
		break;
	case 5:
		kymo_trace(edge, b5, 0xa5a5a5a5, 0xa5);
		break;
	case 6:
		kymo_trace(edge, b8, 0xa5a5a5a5a5a5a5a5);
		break;
	default:
		kymo_trace(edge, b9, 0xa5a5a5a5a5a5a5a5, 0xa5);
	}
}

/* The records on all lanes are those of kinds, in their order on the one lane that was used. */
static void check(struct local *local, const uint8_t *kinds, uint32_t count, uint32_t round)
{
	uint32_t seen = 0;

	for (uint32_t lane = 0; lane < local->lane_count; lane++) {
		const uint8_t *bytes;
		uint64_t head;
		uint32_t used = local_take(local, lane, &bytes, &head), at = 0;

		while (at < used) {
			uint32_t kind = kinds[seen];

			CHECK(seen < count && bytes[at] == kind + 1 && bytes[at + 1] == 0,
			      "round %u, record %u of %u: id %u, not %u", round, seen, count,
			      bytes[at] | bytes[at + 1] << 8, kind + 1);
			for (uint32_t i = 0; i < sizes[kind]; i++)
				CHECK(bytes[at + 12 + i] == 0xa5, "round %u, record %u: payload", round, seen);
			at += 12 + sizes[kind];
			seen++;
		}
		local_done(local, lane, head);
	}
	CHECK(seen == count, "round %u: %u records of %u", round, seen, count);
}

int main(int argc, char **argv)
{
	struct kymo_event *events[] = {
		&kymo__event_edge_b0, &kymo__event_edge_b1, &kymo__event_edge_b2, &kymo__event_edge_b3,
		&kymo__event_edge_b4, &kymo__event_edge_b5, &kymo__event_edge_b8, &kymo__event_edge_b9,
	};
	static struct local local;
	static uint8_t kinds[RING_BYTES / 12 + 1];
	uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : ROUNDS;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	kymo_thread_init();
	local_attach(&local, RING_BYTES, 9, false);
	for (uint16_t i = 0; i < sizeof(events) / sizeof(*events); i++)
		local_enable(events[i], (uint16_t)(i + 1));
	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t lost = local_lost(&local);
		uint32_t count = 0, favourite = next_random(8), share = 1 + next_random(8);

		for (;;) {
			uint32_t kind = next_random(8) < share ? favourite : next_random(8);

			trace(kind);
			if (local_lost(&local) != lost)
				break;
			kinds[count++] = (uint8_t)kind;
		}
		check(&local, kinds, count, round);
	}
	printf("full rings hold (%s)\n", kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable");
	return 0;
}
