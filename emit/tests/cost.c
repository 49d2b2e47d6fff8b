/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cost.c: what each path of a record costs. Without arguments in instructions, counted by single steps
 * (steps.h; cost N: the median of N counts); one line for each path, which
 * cost.sh holds against cost.expect. With --time in nanoseconds and as a ratio to a clock read: medians
 * of interleaved rounds, printed, deciding nothing.
 * KYMO_RING=portable counts the portable ring. x86-64 and 64-bit Arm.
 */
#include "local.h"

#include <sched.h>
#include <time.h>

#include "../src/filter.h"
#include "steps.h"

KYMO_EVENT(cost, off, (u64, value))
KYMO_EVENT(cost, one, (u64, value))
KYMO_EVENT(cost, five, (u32, a), (i64, b), (f64, c), (u64, d), (str, text))
KYMO_EVENT(cost, mixed, (u32, a), (str, text), (u64, b), (str, more))
KYMO_EVENT(cost, two, (u64, value))
KYMO_EVENT(cost, two_five, (u32, a), (i64, b), (f64, c), (u64, d), (str, text))
KYMO_EVENT(cost, reject, (u32, axis), (f64, position))
KYMO_EVENT(cost, reject_second, (u32, axis), (f64, position))
KYMO_EVENT(cost, pass, (u32, axis), (f64, position))
KYMO_EVENT(cost, pass_five, (u32, a), (i64, b), (f64, c), (u64, d), (str, text))
KYMO_EVENT(cost, plain, (u32, axis), (f64, position))
KYMO_EVENT(cost, prio, (u64, value))
KYMO_EVENT(cost, vpid, (u64, value))
KYMO_EVENT(cost, stack, (u64, value))
KYMO_EVENT(cost, small, (u64, value))
KYMO_EVENT(cost, small_five, (u32, a), (i64, b), (f64, c), (u64, d), (str, text))
KYMO_EVENT(cost, small_prio, (u64, value))

#define RING_BYTES (1u << 20)
#define CALLS 20000
#define ROUNDS 41

/* Slots 0 and 1 are plain sessions; 2 to 4 have contexts; the records of the last two are compact. */
enum {
	PLAIN,
	SECOND,
	PRIO,
	VPID,
	STACK,
	COMPACT,
	COMPACT_PRIO,
	SESSIONS
};

static struct local sessions[SESSIONS];
static volatile uint64_t value = 7;
static volatile uint32_t axis = 2;
static volatile double position = 0.25;
static const char *volatile text = "twelve bytes";

static void nothing(void)
{
}

static void off(void)
{
	kymo_trace(cost, off, value);
}

static void one(void)
{
	kymo_trace(cost, one, value);
}

static void five(void)
{
	kymo_trace(cost, five, axis, (int64_t)value, position, value, text);
}

static void mixed(void)
{
	kymo_trace(cost, mixed, axis, text, value, text);
}

static void two(void)
{
	kymo_trace(cost, two, value);
}

static void two_five(void)
{
	kymo_trace(cost, two_five, axis, (int64_t)value, position, value, text);
}

static void reject(void)
{
	kymo_trace(cost, reject, axis, position);
}

static void reject_second(void)
{
	kymo_trace(cost, reject_second, axis, position);
}

static void pass(void)
{
	kymo_trace(cost, pass, axis, position);
}

static void pass_five(void)
{
	kymo_trace(cost, pass_five, axis, (int64_t)value, position, value, text);
}

static void plain(void)
{
	kymo_trace(cost, plain, axis, position);
}

static void prio(void)
{
	kymo_trace(cost, prio, value);
}

static void vpid(void)
{
	kymo_trace(cost, vpid, value);
}

static void stack(void)
{
	kymo_trace(cost, stack, value);
}

static void small(void)
{
	kymo_trace(cost, small, value);
}

static void small_five(void)
{
	kymo_trace(cost, small_five, axis, (int64_t)value, position, value, text);
}

static void small_prio(void)
{
	kymo_trace(cost, small_prio, value);
}

static const struct path paths[] = {
	{ "nothing", nothing, false },
	{ "disabled", off, false },
	{ "one_u64", one, false },
	{ "one_u64_full", one, true },
	{ "four_fields_and_text", five, false },
	{ "four_fields_and_text_full", five, true },
	{ "two_texts", mixed, false },
	{ "two_texts_full", mixed, true },
	{ "two_sessions", two, false },
	{ "two_sessions_full", two, true },
	{ "two_sessions_five_fields", two_five, false },
	{ "two_words", plain, false },
	{ "filter_rejects", reject, false },
	{ "filter_rejects_second", reject_second, false },
	{ "filter_passes", pass, false },
	{ "filter_passes_full", pass, true },
	{ "filter_passes_five_fields", pass_five, false },
	{ "context_prio", prio, false },
	{ "context_prio_full", prio, true },
	{ "context_vpid", vpid, false },
	{ "context_callstack", stack, false },
	{ "compact_one_u64", small, false },
	{ "compact_one_u64_full", small, true },
	{ "compact_five_fields", small_five, false },
	{ "compact_five_fields_full", small_five, true },
	{ "compact_context_prio", small_prio, false },
};
#define PATHS (sizeof(paths) / sizeof(paths[0]))

static void filter(struct kymo_event *event, uint64_t first, uint16_t second_at, uint16_t payload_min_bytes)
{
	struct kymo_filter_insn insns[2] = {
		{ KYMO_FILTER_EQ, KYMO_FILTER_U32, 1, KYMO_FILTER_REJECT, 0, 0, first },
		{ KYMO_FILTER_GT, KYMO_FILTER_F64, KYMO_FILTER_ACCEPT, KYMO_FILTER_REJECT, second_at, 0,
		  first == 2 && event == &kymo__event_cost_reject_second ? 0x3fe0000000000000 : 0 },
	};
	const struct kymo_filter *made;

	CHECK(!kymo_filter_make(kymo_event_filters(event), (const uint8_t *)insns, 2, (const uint8_t *)"", 0,
				payload_min_bytes, &made),
	      "the filter was refused");
	kymo_event_filter(event, PLAIN, made);
}

static void enable(struct kymo_event *event, uint32_t slot)
{
	kymo_event_enable(event, slot, (uint16_t)(event->index + 1));
}

static void attach(uint32_t session, uint32_t contexts)
{
	const struct kymo_mem header = { .magic = KYMO_MEM_MAGIC, .contexts = contexts };
	uint32_t lanes = (uint32_t)sysconf(_SC_NPROCESSORS_CONF) + 1;

	CHECK(!local_attach_at(&sessions[session], session, RING_BYTES, lanes, false, &header), "attach");
}

static void prepare(void)
{
	kymo_thread_init();
	attach(PLAIN, 0);
	attach(SECOND, 0);
	attach(PRIO, KYMO_CONTEXT_PRIO);
	attach(VPID, KYMO_CONTEXT_VPID);
	attach(STACK, KYMO_CONTEXT_CALLSTACK);
	attach(COMPACT, KYMO_CONTEXT_COMPACT);
	attach(COMPACT_PRIO, KYMO_CONTEXT_COMPACT | KYMO_CONTEXT_PRIO);
	enable(&kymo__event_cost_small, COMPACT);
	enable(&kymo__event_cost_small_five, COMPACT);
	enable(&kymo__event_cost_small_prio, COMPACT_PRIO);
	filter(&kymo__event_cost_reject, 3, 4, 12);
	filter(&kymo__event_cost_reject_second, 2, 4, 12);
	filter(&kymo__event_cost_pass, 2, 4, 12);
	filter(&kymo__event_cost_pass_five, 2, 12, 30);
	enable(&kymo__event_cost_one, PLAIN);
	enable(&kymo__event_cost_five, PLAIN);
	enable(&kymo__event_cost_mixed, PLAIN);
	enable(&kymo__event_cost_plain, PLAIN);
	enable(&kymo__event_cost_reject, PLAIN);
	enable(&kymo__event_cost_reject_second, PLAIN);
	enable(&kymo__event_cost_pass, PLAIN);
	enable(&kymo__event_cost_pass_five, PLAIN);
	enable(&kymo__event_cost_two, PLAIN);
	enable(&kymo__event_cost_two, SECOND);
	enable(&kymo__event_cost_two_five, PLAIN);
	enable(&kymo__event_cost_two_five, SECOND);
	enable(&kymo__event_cost_prio, PRIO);
	enable(&kymo__event_cost_vpid, VPID);
	enable(&kymo__event_cost_stack, STACK);
}

/* All rings have no room at all, or are empty. */
static void fill(bool is_full)
{
	for (uint32_t session = 0; session < SESSIONS; session++)
		for (uint32_t lane = 0; lane < sessions[session].lane_count; lane++) {
			struct kymo_ring *ring = local_ring(&sessions[session], lane);

			__atomic_store_n(&ring->tail, ring->head - (is_full ? RING_BYTES - KYMO_STORE_PAST : 0),
					 __ATOMIC_RELEASE);
		}
}

static uint64_t lost(void)
{
	uint64_t sum = 0;

	for (uint32_t session = 0; session < SESSIONS; session++)
		sum += local_lost(&sessions[session]);
	return sum;
}

static uint64_t written(void)
{
	uint64_t sum = 0;

	for (uint32_t session = 0; session < SESSIONS; session++)
		for (uint32_t lane = 0; lane < sessions[session].lane_count; lane++)
			sum += local_ring(&sessions[session], lane)->head >> 32;
	return sum;
}

static void use_own_rseq(void)
{
	if (kymo_kind != KYMO_KIND_RSEQ)
		return;
	for (uint32_t session = 0; session < SESSIONS; session++)
		kymo_process->slots[session].rseq_offset = (char *)&own_rseq - kymo__thread_pointer();
}

static uint64_t lost_before, written_before;

static void before(const struct path *path)
{
	fill(false);
	for (int warm = 0; warm < 3; warm++)
		path->run();
	fill(path->is_full);
	lost_before = lost();
	written_before = written();
}

/* What is counted is what the name says. */
static void behind(const struct path *path)
{
	CHECK((lost() != lost_before) == path->is_full, "%s: lost", path->name);
	CHECK(!path->is_full || written() == written_before, "%s: written", path->name);
}

static void counted(void)
{
	prepare();
	use_own_rseq();
	steps_run(paths, PATHS, before, behind);
	fill(false);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void clock_alone(void)
{
	value = kymo__counter();
}

static double block(const struct path *path)
{
	void (*run)(void) = path->run;
	uint64_t took = 0;

	for (int i = 0; i < CALLS; i += 500) {
		uint64_t begin;

		fill(path->is_full);
		begin = now_ns();
		for (int j = 0; j < 500; j++)
			run();
		took += now_ns() - begin;
	}
	return (double)took / CALLS;
}

static int timed(void)
{
	static const struct path read_clock = { "clock_read", clock_alone, false };
	static double took[PATHS + 1][ROUNDS];
	double unit;

	prepare();
	for (int round = 0; round < ROUNDS; round++) {
		took[PATHS][round] = block(&read_clock);
		for (size_t at = 0; at < PATHS; at++)
			took[at][round] = block(&paths[at]);
	}
	unit = median(took[PATHS], ROUNDS);
	printf("%-32s %7.2f ns\n", "clock_read", unit);
	for (size_t at = 0; at < PATHS; at++) {
		double middle = median(took[at], ROUNDS);

		printf("%-32s %7.2f ns [%.2f..%.2f]  %5.2f of a clock read\n", paths[at].name, middle,
		       took[at][ROUNDS / 10], took[at][ROUNDS * 9 / 10], middle / unit);
	}
	return 0;
}

int main(int argc, char **argv)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET((size_t)sched_getcpu(), &cpu);
	CHECK(!sched_setaffinity(0, sizeof(cpu), &cpu), "%s", strerror(errno));
	if (argc > 1 && !strcmp(argv[1], "--time"))
		return timed();
	if (argc > 1)
		steps_of = atoi(argv[1]);
	CHECK(steps_of > 0 && steps_of <= STEPS_OF, "1 to %d counts", STEPS_OF);
	return steps_count(kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable", paths, PATHS, counted);
}
