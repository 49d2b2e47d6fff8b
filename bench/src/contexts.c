/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts.c: what contexts cost a record, by a collector inside the program: one session for each
 * case, blocks of records in turns. Prints medians over the rounds, in nanoseconds and as ratios to
 * the record without contexts. Decides nothing.
 */
#include "../../emit/tests/local.h"

#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#define CALLS 4000
#define ROUNDS 101
#define DEPTH 8
#define FAULTS { PERF_TYPE_SOFTWARE, 0, PERF_COUNT_SW_PAGE_FAULTS }
#define CYCLES { PERF_TYPE_HARDWARE, 0, PERF_COUNT_HW_CPU_CYCLES }

/* One event for each case, and one beside it that two sessions want: out of line, without contexts. */
KYMO_EVENT(cost, none, (u64, value))
KYMO_EVENT(cost, twice, (u64, value))
KYMO_EVENT(cost, vpid, (u64, value))
KYMO_EVENT(cost, prio, (u64, value))
KYMO_EVENT(cost, cgroup, (u64, value))
KYMO_EVENT(cost, shared, (u64, value))
KYMO_EVENT(cost, stack, (u64, value))
KYMO_EVENT(cost, read, (u64, value))
KYMO_EVENT(cost, rdpmc, (u64, value))
KYMO_EVENT(cost, now, (u64, value))

#define CASE(name) static void trace_##name(uint64_t value) { kymo_trace(cost, name, value); }
CASE(none)
CASE(twice)
CASE(vpid)
CASE(prio)
CASE(cgroup)
CASE(shared)
CASE(stack)
CASE(read)
CASE(rdpmc)
CASE(now)

static const struct {
	const char *name;
	struct kymo_event *event;
	void (*trace)(uint64_t value);
	struct kymo_mem header;
} cases[] = {
	{ "no context", &kymo__event_cost_none, trace_none, { 0 } },
	{ "no context, two sessions: two records", &kymo__event_cost_twice, trace_twice, { 0 } },
	{ "vpid", &kymo__event_cost_vpid, trace_vpid, { .contexts = KYMO_CONTEXT_VPID } },
	{ "prio", &kymo__event_cost_prio, trace_prio, { .contexts = KYMO_CONTEXT_PRIO } },
	{ "cgroup", &kymo__event_cost_cgroup, trace_cgroup, { .contexts = KYMO_CONTEXT_CGROUP } },
	{ "vpid and procname (shared rings)", &kymo__event_cost_shared, trace_shared,
	  { .contexts = KYMO_CONTEXT_VPID | KYMO_CONTEXT_PROCNAME } },
	{ "callstack, 8 deep", &kymo__event_cost_stack, trace_stack, { .contexts = KYMO_CONTEXT_CALLSTACK } },
	{ "perf:page-faults, by read", &kymo__event_cost_read, trace_read,
	  { .contexts = KYMO_CONTEXT_PERF, .perf_count = 1, .perf = { FAULTS } } },
	{ "perf:cpu-cycles, by rdpmc", &kymo__event_cost_rdpmc, trace_rdpmc,
	  { .contexts = KYMO_CONTEXT_PERF, .perf_count = 1, .perf = { CYCLES } } },
	{ "prio:now", &kymo__event_cost_now, trace_now, { .contexts = KYMO_CONTEXT_PRIO_NOW } },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static struct local locals[CASES];
static bool is_missing[CASES];
static double took[CASES][ROUNDS];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void drop(void)
{
	for (size_t i = 0; i < CASES; i++)
		for (uint32_t lane = 0; !is_missing[i] && lane < locals[i].lane_count; lane++) {
			struct kymo_ring *ring = local_ring(&locals[i], lane);

			local_done(&locals[i], lane, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE));
		}
}

/* Nested calls, so that the stack is as deep as it says. */
static __attribute__((noinline, noclone)) double block(unsigned depth, void (*trace)(uint64_t value))
{
	uint64_t begin;
	double ns;

	if (depth) {
		ns = block(depth - 1, trace);
		__asm__ __volatile__("" : "+m"(ns));
		return ns;
	}
	begin = now_ns();
	for (uint64_t i = 0; i < CALLS; i++)
		trace(i);
	return (double)(now_ns() - begin) / CALLS;
}

static int by_value(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Whether the counter can be opened here, and not only be 0. */
static bool has_counter(const struct kymo_mem *header)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = header->perf[0].type,
					.config = header->perf[0].config };
	long fd = header->perf_count ? syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) : 0;

	if (header->perf_count && fd >= 0)
		close((int)fd);
	return fd >= 0;
}

int main(void)
{
	uint32_t lanes = 1 + (kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1);

	for (uint32_t i = 0; i < CASES; i++) {
		is_missing[i] = !has_counter(&cases[i].header);
		if (is_missing[i])
			continue;
		CHECK(!local_attach_at(&locals[i], i, 4u << 20, lanes, false, &cases[i].header), "attach");
		kymo_event_enable(cases[i].event, i, 1);
	}
	kymo_event_enable(&kymo__event_cost_twice, 0, 2);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < CASES; i++) {
			if (is_missing[i])
				continue;
			drop();
			/* main and block itself are two of the eight. */
			took[i][round] = block(DEPTH - 3, cases[i].trace);
			CHECK(!local_lost(&locals[i]), "%s: records were lost", cases[i].name);
		}
	printf("%s ring, %d rounds of %d records\n", kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable", ROUNDS,
	       CALLS);
	for (size_t i = 0; i < CASES; i++)
		qsort(took[i], ROUNDS, sizeof(double), by_value);
	for (size_t i = 0; i < CASES; i++) {
		const double *of = took[i];

		if (is_missing[i])
			printf("%-40s not measured: this machine has no such counter\n", cases[i].name);
		else
			printf("%-40s %8.2f ns  %6.2f of no context  (p10 %.2f, p90 %.2f)\n", cases[i].name,
			       of[ROUNDS / 2], of[ROUNDS / 2] / took[0][ROUNDS / 2],
			       of[ROUNDS / 10], of[ROUNDS * 9 / 10]);
	}
	return 0;
}
