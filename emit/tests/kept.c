/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kept.c: contexts that a thread keeps for two sessions at one place (context.c, fix), where a signal
 * handler records in the other session in the middle of it: each session's records have its own. The stop is
 * a test point of context.c, which is compiled into this program.
 */
#define _GNU_SOURCE
static void stop_between(void);
#define KYMO_TEST_STOP(place) stop_between()
#include "../src/context.c"

#include "local.h"

KYMO_EVENT(kept, outer)
KYMO_EVENT(kept, inner)

/* Their places are the same. */
#define OUTER 1u
#define INNER (OUTER + KYMO_FIXED_MAX)

static bool is_stopped;
static uint32_t stops;

static void stop_between(void)
{
	if (is_stopped)
		return;
	is_stopped = true;
	stops++;
	kymo_trace(kept, inner);
	kymo_trace(kept, inner);
	is_stopped = false;
}

static void attach(struct local *local, uint32_t slot, uint32_t contexts)
{
	const struct kymo_mem header = { .contexts = contexts };
	uint32_t cpus = kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1;

	CHECK(!local_attach_at(local, slot, 1u << 20, cpus + 1, false, &header), "attach");
	/* Sessions have serials of their own. */
	kymo_memories[slot].serial = kymo_process->slots[slot].serial = 4711 + slot;
}

/* All published records have this context, and there are count of them. */
static void expect(struct local *local, const char *who, uint32_t context, uint32_t bytes, uint32_t count)
{
	for (uint32_t lane = 0; lane < local->lane_count; lane++) {
		const uint8_t *at;
		uint64_t head;
		uint32_t have = local_take(local, lane, &at, &head), record = KYMO__BEFORE_PAYLOAD + bytes;

		CHECK(have % record == 0, "%s: %u bytes", who, have);
		for (; have; have -= record, at += record, count--)
			CHECK(count && !memcmp(at + KYMO__BEFORE_PAYLOAD, &context, 4), "%s: a context", who);
	}
	CHECK(!count, "%s: %u records are missing", who, count);
}

int main(void)
{
	static struct local outer, inner;

	attach(&outer, OUTER, KYMO_CONTEXT_VPID);
	attach(&inner, INNER, KYMO_CONTEXT_PRIO);
	kymo_event_enable(&kymo__event_kept_outer, OUTER, 1);
	kymo_event_enable(&kymo__event_kept_inner, INNER, 1);
	for (int round = 0; round < 10; round++)
		kymo_trace(kept, outer);
	CHECK(stops == 1, "%u stops", stops);
	for (int round = 0; round < 10; round++)
		kymo_trace(kept, inner);
	expect(&outer, "outer", (uint32_t)getpid(), 4, 10);
	expect(&inner, "inner", (uint32_t)prio_now(), 4, 12);
	printf("contexts are each session's own (%s)\n", kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable");
	return 0;
}
