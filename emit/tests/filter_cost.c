/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter_cost.c: what a filter of two comparisons costs that rejects, beyond an event that is switched
 * off; beside it an event that is recorded, and one whose filter accepts. Interleaved rounds; the
 * medians are printed, in nanoseconds and as a ratio to a clock read. Decides nothing.
 */
#include "local.h"

#include <sched.h>
#include <time.h>

#include "../src/filter.h"

KYMO_EVENT(cost, off, (u32, axis), (f64, position))
KYMO_EVENT(cost, on, (u32, axis), (f64, position))
KYMO_EVENT(cost, first, (u32, axis), (f64, position))
KYMO_EVENT(cost, second, (u32, axis), (f64, position))
KYMO_EVENT(cost, integers, (u32, axis), (u64, size))
KYMO_EVENT(cost, text, (u32, axis), (f64, position), (str, note))
KYMO_EVENT(cost, accept, (u32, axis), (f64, position))

#define CALLS 200000
#define ROUNDS 61
#define CASES 8

static struct local local;
static volatile uint32_t axis = 2;
static volatile double position = 0.25;

static struct kymo_filter_insn two[2] = {
	{ KYMO_FILTER_EQ, KYMO_FILTER_U32, 1, KYMO_FILTER_REJECT, 0, 0, 2 },
	{ KYMO_FILTER_GT, KYMO_FILTER_F64, KYMO_FILTER_ACCEPT, KYMO_FILTER_REJECT, 4, 0, 0x3fe0000000000000 },
};

static void filter(struct kymo_event *event, uint64_t first, uint8_t second_type, uint64_t second)
{
	struct kymo_filters *filters = kymo_event_filters(event);
	const struct kymo_filter *made;

	two[0].imm = first;
	two[1].type = second_type;
	two[1].imm = second;
	CHECK(!kymo_filter_make(filters, (const uint8_t *)two, 2, (const uint8_t *)"", 0, 12, &made),
	      "the filter was refused");
	kymo_event_filter(event, 0, made);
	local_enable(event, (uint16_t)(event->index + 1));
}

static void drop(void)
{
	for (uint32_t lane = 0; lane < local.lane_count; lane++)
		local_done(&local, lane, __atomic_load_n(&local_ring(&local, lane)->head, __ATOMIC_ACQUIRE));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define MEASURE(body)                                                                              \
	do {                                                                                       \
		uint64_t begin = now_ns();                                                         \
		for (int i = 0; i < CALLS; i++) {                                                  \
			body;                                                                      \
		}                                                                                  \
		took[which++][round] = (double)(now_ns() - begin) / CALLS;                         \
	} while (0)

static int by_value(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

int main(void)
{
	static const char *const names[CASES] = {
		"clock read", "switched off", "recorded", "filter rejects: axis == 3 && position > 0.5",
		"filter rejects: axis == 2 && position > 0.5", "filter rejects: axis == 2 && size > 100",
		"filter rejects, a text behind the fields", "filter accepts",
	};
	static double took[CASES][ROUNDS];
	volatile uint64_t sink = 0;

	local_attach(&local, 64u << 20, 1 + (kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1),
		     false);
	local_enable(&kymo__event_cost_on, 1);
	filter(&kymo__event_cost_first, 3, KYMO_FILTER_F64, 0x3fe0000000000000);
	filter(&kymo__event_cost_second, 2, KYMO_FILTER_F64, 0x3fe0000000000000);
	filter(&kymo__event_cost_integers, 2, KYMO_FILTER_U64, 100);
	filter(&kymo__event_cost_text, 2, KYMO_FILTER_F64, 0x3fe0000000000000);
	filter(&kymo__event_cost_accept, 2, KYMO_FILTER_F64, 0);
	for (int round = 0; round < ROUNDS; round++) {
		int which = 0;

		MEASURE(sink += kymo_clock_read());
		MEASURE(kymo_trace(cost, off, axis, position));
		MEASURE(kymo_trace(cost, on, axis, position); if (!(i & 0xffff)) drop());
		MEASURE(kymo_trace(cost, first, axis, position));
		MEASURE(kymo_trace(cost, second, axis, position));
		MEASURE(kymo_trace(cost, integers, axis, 7));
		MEASURE(kymo_trace(cost, text, axis, position, "a note"));
		MEASURE(kymo_trace(cost, accept, axis, position); if (!(i & 0xffff)) drop());
	}
	for (int which = 0; which < CASES; which++)
		qsort(took[which], ROUNDS, sizeof(double), by_value);
	for (int which = 0; which < CASES; which++)
		printf("%-48s %6.2f ns  %5.2f of a clock read  %+6.2f ns beyond switched off\n", names[which],
		       took[which][ROUNDS / 2], took[which][ROUNDS / 2] / took[0][ROUNDS / 2],
		       took[which][ROUNDS / 2] - took[1][ROUNDS / 2]);
	CHECK(!local_lost(&local), "records were lost");
	return 0;
}
