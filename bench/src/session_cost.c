/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_cost CPU ROUNDS: nanoseconds per tracepoint, by what sessions want of it, in turns within one process. The caller has
 * sessions on `cost:*`, with rings of 64 MiB: `discard` is recorded by one, `two` by two, `overwrite` by a flight recorder,
 * `reject` by one with a filter of two comparisons that selects nothing, `pass` by one with a filter that selects all, `prio` and
 * `callstack` with that context, `compact` in that layout; `full` by one whose ring is too small for a block, so that its records
 * are lost; `off` by none. Prints a line for each block: round, name, ns per record. Between blocks it naps, so that no other ring
 * fills up.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ticks.h"

#include <kymo/tracepoint.h>

KYMO_EVENT(cost, off, (u64, a), (u32, b))
KYMO_EVENT(cost, discard, (u64, a), (u32, b))
KYMO_EVENT(cost, two, (u64, a), (u32, b))
KYMO_EVENT(cost, overwrite, (u64, a), (u32, b))
KYMO_EVENT(cost, reject, (u64, a), (u32, b))
KYMO_EVENT(cost, pass, (u64, a), (u32, b))
KYMO_EVENT(cost, prio, (u64, a), (u32, b))
KYMO_EVENT(cost, callstack, (u64, a), (u32, b))
KYMO_EVENT(cost, compact, (u64, a), (u32, b))
KYMO_EVENT(cost, full, (u64, a), (u32, b))

#define RECORDS 20000

#define BLOCK(name)                                                                      \
	static double name(void)                                                         \
	{                                                                                \
		uint64_t begin = ticks_begin();                                          \
                                                                                         \
		for (uint32_t n = 0; n < RECORDS; n++) {                                 \
			kymo_trace(cost, name, n, 3);                                    \
			__asm__ volatile("");                                            \
		}                                                                        \
		return (double)(ticks_end() - begin) / RECORDS;                          \
	}
BLOCK(off)
BLOCK(discard)
BLOCK(two)
BLOCK(overwrite)
BLOCK(reject)
BLOCK(pass)
BLOCK(prio)
BLOCK(callstack)
BLOCK(compact)
BLOCK(full)

/* The first block fills the ring; of the second the collector may make room for a few. */
static double full_ring(void)
{
	full();
	return full();
}

static const struct {
	const char *name;
	double (*block)(void);
} kinds[] = { { "off", off }, { "discard", discard }, { "two", two }, { "overwrite", overwrite }, { "reject", reject },
	    { "pass", pass }, { "prio", prio }, { "callstack", callstack }, { "compact", compact }, { "full", full_ring } };
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void wait_for_sessions(void)
{
	const struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < 5000; i++) {
		if (kymo_trace_enabled(cost, discard) && kymo_trace_enabled(cost, two) &&
		    kymo_trace_enabled(cost, overwrite) && kymo_trace_enabled(cost, reject) &&
		    kymo_trace_enabled(cost, pass) && kymo_trace_enabled(cost, prio) &&
		    kymo_trace_enabled(cost, callstack) && kymo_trace_enabled(cost, compact) &&
		    kymo_trace_enabled(cost, full))
			return;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "session_cost: the sessions did not switch its events on within 5 s\n");
	exit(3);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 4000000 };
	int rounds = argc > 2 ? atoi(argv[2]) : 0;
	double hz;

	pin_to(argc > 1 ? atoi(argv[1]) : 0);
	wait_for_sessions();
	if (kymo_trace_enabled(cost, off)) {
		fprintf(stderr, "session_cost: cost:off is on, and must not be\n");
		return 3;
	}
	hz = ticks_hz_now();
	for (size_t at = 0; at < KINDS; at++)
		kinds[at].block();
	for (int round = 0; round < rounds; round++)
		for (size_t turn = 0; turn < KINDS; turn++) {
			size_t at = (turn + (size_t)round) % KINDS;

			nanosleep(&pause, NULL);
			printf("%d %s %.4f\n", round, kinds[at].name, kinds[at].block() / hz * 1e9);
		}
	return 0;
}
