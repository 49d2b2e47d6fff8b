/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts.c: what contexts cost a record, by a collector inside the program: one session for each
 * case, blocks of records in turns. Prints medians over the rounds, in nanoseconds and as ratios to
 * the record without contexts. Decides nothing.
 */
#include "../../emit/tests/local.h"

#include <execinfo.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "../../emit/src/unwind.h"

#define CALLS 4000
#define ROUNDS 101
/* Addresses of a call stack by frame pointers; by tables there are those of libc, too. */
#define FLAT 8
#define DEEP 24
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
KYMO_EVENT(cost, deep, (u64, value))
KYMO_EVENT(cost, tables, (u64, value))
KYMO_EVENT(cost, tables_deep, (u64, value))
KYMO_EVENT(cost, backtrace, (u64, value))
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
CASE(deep)
CASE(tables)
CASE(tables_deep)
CASE(read)
CASE(rdpmc)
CASE(now)

/* What a program would do itself. */
static void trace_backtrace(uint64_t value)
{
	void *addresses[KYMO_STACK_MAX];

	kymo_trace(cost, backtrace, value + (uint64_t)backtrace(addresses, KYMO_STACK_MAX));
}

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
	{ "callstack by frame pointers", &kymo__event_cost_stack, trace_stack,
	  { .contexts = KYMO_CONTEXT_CALLSTACK } },
	{ "callstack by frame pointers, deep", &kymo__event_cost_deep, trace_deep,
	  { .contexts = KYMO_CONTEXT_CALLSTACK } },
	{ "callstack by tables", &kymo__event_cost_tables, trace_tables,
	  { .contexts = KYMO_CONTEXT_CALLSTACK } },
	{ "callstack by tables, deep", &kymo__event_cost_tables_deep, trace_tables_deep,
	  { .contexts = KYMO_CONTEXT_CALLSTACK } },
	{ "backtrace() of libc, not recorded", &kymo__event_cost_backtrace, trace_backtrace, { 0 } },
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
static uint16_t frames[CASES]; /* addresses of a record's call stack; 0: it has none */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool has_tables(size_t i)
{
	return cases[i].trace == trace_tables || cases[i].trace == trace_tables_deep;
}

static bool is_deep(size_t i)
{
	return cases[i].trace == trace_deep || cases[i].trace == trace_tables_deep;
}

/* How many addresses the records of a case have. */
static void count_frames(size_t i)
{
	for (uint32_t lane = 0; cases[i].header.contexts & KYMO_CONTEXT_CALLSTACK && lane < locals[i].lane_count;
	     lane++) {
		const uint8_t *bytes;
		uint64_t head;

		if (local_take(&locals[i], lane, &bytes, &head))
			memcpy(&frames[i], bytes + KYMO_RECORD_HEADER + sizeof(uint32_t), sizeof(frames[i]));
	}
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

/* The tables of this program, which the helper thread makes else. */
static const struct kymo_unwind_set *make_tables(void)
{
	uint64_t begin = now_ns(), rows = 0;
	const struct kymo_unwind_set *set;

	kymo_lock();
	kymo_unwind_begin();
	kymo_unwind_prepare(60000000000ll);
	kymo_unlock();
	set = kymo_unwind_set;
	for (uint32_t i = 0; set && i < set->count; i++)
		rows += set->files[i].count;
	printf("tables of %u files: %lu rows, %lu KiB, made in %.1f ms\n", set ? set->count : 0, (unsigned long)rows,
	       (unsigned long)(rows * sizeof(struct kymo_unwind_row) / 1024), (double)(now_ns() - begin) / 1e6);
	return set;
}

/* What each address more costs, by the blocks that others interrupted least. */
static void print_per_frame(void)
{
	for (size_t i = 0; i + 1 < CASES; i++)
		if (frames[i] && is_deep(i + 1))
			printf("%-40s %8.2f ns per address more (of p10)\n", cases[i].name,
			       (took[i + 1][ROUNDS / 10] - took[i][ROUNDS / 10]) / (frames[i + 1] - frames[i]));
}

int main(void)
{
	const struct kymo_unwind_set *set = make_tables();
	void *first[2];
	uint32_t lanes = 1 + (kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1);

	for (uint32_t i = 0; i < CASES; i++) {
		is_missing[i] = !has_counter(&cases[i].header);
		if (is_missing[i])
			continue;
		CHECK(!local_attach_at(&locals[i], i, 4u << 20, lanes, false, &cases[i].header), "attach");
		kymo_event_enable(cases[i].event, i, 1);
	}
	kymo_event_enable(&kymo__event_cost_twice, 0, 2);
	/* It loads a library when it is called for the first time. */
	backtrace(first, 2);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < CASES; i++) {
			if (is_missing[i])
				continue;
			drop();
			kymo_unwind_set = has_tables(i) ? set : NULL;
			/* Besides those of block there are three, and one of libc. */
			took[i][round] = block((is_deep(i) ? DEEP : FLAT) - 5, cases[i].trace);
			count_frames(i);
			CHECK(!local_lost(&locals[i]), "%s: records were lost", cases[i].name);
		}
	printf("%s ring, %d rounds of %d records\n", kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable", ROUNDS,
	       CALLS);
	for (size_t i = 0; i < CASES; i++)
		qsort(took[i], ROUNDS, sizeof(double), by_value);
	for (size_t i = 0; i < CASES; i++) {
		const double *of = took[i];

		if (is_missing[i]) {
			printf("%-40s not measured: this machine has no such counter\n", cases[i].name);
			continue;
		}
		printf("%-40s %8.2f ns  %6.2f of no context  (p10 %.2f, p90 %.2f)", cases[i].name, of[ROUNDS / 2],
		       of[ROUNDS / 2] / took[0][ROUNDS / 2], of[ROUNDS / 10], of[ROUNDS * 9 / 10]);
		if (frames[i])
			printf("  %u addresses", frames[i]);
		printf("\n");
	}
	print_per_frame();
	return 0;
}
