/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.c: compact records [ring.md 11], by a collector inside the test: their bytes, and that whoever
 * begins to read at a cut or at a mark knows thread and time of every record behind it. Each record says
 * itself who wrote it, and when at the earliest. The sequence is slow between its store of state and that
 * of last, so that signals abort it there; or aborts itself by a trap.
 *
 *	compact [records]
 *
 * KYMO_RING=portable takes the portable ring.
 */
#define _GNU_SOURCE
#define KYMO_VERSION "test"
#ifdef __aarch64__
#define KYMO__COMPACT_STOP                                                                         \
	"mov w9, #60\n97:\n\tyield\n\tsubs w9, w9, #1\n\tb.ne 97b\n\t"                                 \
	"adrp x9, compact_test_armed\n\tadd x9, x9, :lo12:compact_test_armed\n\t"                          \
	"ldr w16, [x9]\n\tcbz w16, 99f\n\tstr wzr, [x9]\n\tbrk #0\n99:\n\t"
#else
#define KYMO__COMPACT_STOP                                                                         \
	"movl $60, %%eax\n97:\n\tpause\n\tsubl $1, %%eax\n\tjnz 97b\n\t"                               \
	"cmpl $0, compact_test_armed(%%rip)\n\tje 96f\n\tmovl $0, compact_test_armed(%%rip)\n\tint3\n96:\n\t"
#endif
int compact_test_armed;
enum place { NOWHERE, COMPARED, STATED, EXCHANGED, SEEN, RESERVED, LOOKED, MARK, MARKED, BETWEEN };
static void stop_at(enum place place);
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/compact.c"
#undef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/places.c"
#undef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/overwrite.c"
#undef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place) stop_at(place)
#include "../src/portable.c"
#include "../src/record.c"
#include "../src/entry.c"

#include "compact.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define WRITERS 3
#define RING_BYTES 65536u
#define LANES_MAX 64u

KYMO_EVENT(compact, few, (u32, thread), (u64, time))
KYMO_EVENT(compact, text, (u32, thread), (u64, time), (bytes, filler))
KYMO_EVENT(compact, none)

static struct local local;
static uint64_t wanted_records = 300000, produced, read_records, read_bytes, snapshots, looks_failed;
static struct cut cuts[LANES_MAX];
static int stop;
static enum place wanted;
static uint32_t stops;
static bool in_stop;
static __thread uint64_t state = 88172645463325252ull;

static uint32_t next_random(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

static uint64_t now(void)
{
	return kymo_clock_read() & ((1ull << 48) - 1);
}

static void nap(long ns)
{
	const struct timespec time = { 0, ns };

	nanosleep(&time, NULL);
}

/* Until a short time stamp wraps; a slow counter takes seconds for that. */
static void nap_long(void)
{
	for (uint64_t begin = now(); kymo_clock_kind == KYMO_CLOCK_COUNTER && now() - begin <= 1u << KYMO_COMPACT_TIME_BITS;)
		nap(10000000);
}

static void trace_one(void)
{
	static const uint8_t filler[64] = { 0 };
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	__atomic_fetch_add(&produced, 1, __ATOMIC_RELAXED);
	if (next_random(4))
		kymo_trace(compact, few, tid, now());
	else
		kymo_trace(compact, text, tid, now(), filler, next_random(sizeof(filler)));
}

/* A handler that records in the middle of a record, at a place that is chosen; sometimes for long. */
static void stop_at(enum place place)
{
	if (in_stop || place != wanted || stops == 0)
		return;
	stops--;
	in_stop = true;
	for (uint32_t i = next_random(3); i < 3; i++) {
		trace_one();
		if (next_random(16) == 0)
			nap(60000000);
	}
	in_stop = false;
}

static void on_signal(int number)
{
	(void)number;
	trace_one();
}

/* One record behind a cut. Returns its bytes. */
static uint32_t check_record(struct cut *cut, const uint8_t *at, uint32_t left, uint64_t latest)
{
	uint64_t before = cut->time;
	struct decoded record = cut_next(cut, at, left);
	uint32_t bytes = record.bytes + 12;
	uint64_t earliest;

	CHECK(record.id == 1 || record.id == 40, "id %u", record.id);
	CHECK(left >= bytes, "torn");
	earliest = cut_load(record.payload + 4, 8);
	CHECK(cut->thread == cut_load(record.payload, 4), "thread %u, wrote %" PRIu64, cut->thread,
	      cut_load(record.payload, 4));
	CHECK(cut->time >= before && cut->time >= earliest && cut->time <= latest,
	      "time %" PRIu64 ", behind %" PRIu64 ", of %" PRIu64 " to %" PRIu64, cut->time, before, earliest, latest);
	if (record.id == 40)
		bytes += 2 + (uint32_t)cut_load(record.payload + 12, 2);
	CHECK(left >= bytes, "torn");
	return bytes;
}

/* The records of one packet, from the cut at tail on. */
static void check_packet(struct cut cut, const uint8_t *at, uint32_t left, uint64_t records)
{
	/* The processor may read its counter before it has loaded head: much less than a wrap of short time stamps. */
	uint64_t latest = now() + 1000000;
	bool is_first = true;

	read_bytes += left;
	read_records += records;
	for (uint32_t bytes; left; left -= bytes, at += bytes, records--) {
		/* The first is never behind its cut's time, but that may be its own. */
		if (is_first && (cut_load(at, 4) & 31) == KYMO_EXTENDED_ID)
			cut.time = 0;
		is_first = false;
		bytes = check_record(&cut, at, left, latest);
	}
	CHECK(records == 0, "records counted wrong");
}

static void read_lane(uint32_t lane, bool is_last)
{
	struct kymo_ring *ring = local_ring(&local, lane);
	uint64_t head, tail = ring->tail;
	struct cut cut;
	const uint8_t *at;

	if (!cut_look(&local, lane, &head, &cut)) {
		looks_failed++;
		if (!is_last)
			return;
		head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	}
	if (head == tail)
		return;
	local_map(&local, lane);
	at = local.data[lane] + (tail & (local.ring_bytes - 1));
	check_packet(cuts[lane], at, (uint32_t)(head - tail), (head - tail) >> 32);
	cuts[lane] = cut;
	local_done(&local, lane, head);
}

/* From the oldest mark that all words of its place name. */
static void snapshot(uint32_t lane)
{
	static uint8_t copy[2 * RING_BYTES];
	const struct kymo_places *places = (const void *)(local.view.marks + local.lane_count);
	struct kymo_ring *ring = local_ring(&local, lane);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), from = head;
	struct cut cut = { 0, 0 };
	uint32_t best = 0, tail;

	local_map(&local, lane);
	memcpy(copy, local.data[lane] + (head & (local.ring_bytes - 1)), local.ring_bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	tail = (uint32_t)__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < KYMO_MARKS; i++) {
		uint64_t mark = __atomic_load_n(&local.view.marks[lane].at[i], __ATOMIC_ACQUIRE);
		uint64_t thread = __atomic_load_n(&places[lane].thread[i], __ATOMIC_ACQUIRE);
		uint64_t high = __atomic_load_n(&places[lane].high[i], __ATOMIC_ACQUIRE);
		uint64_t low = __atomic_load_n(&places[lane].low[i], __ATOMIC_ACQUIRE);
		uint32_t bytes = (uint32_t)(head - mark);

		if ((int32_t)((uint32_t)mark - tail) < 0 || bytes > local.ring_bytes || bytes <= best ||
		    ((head - mark) >> 32) * 4 > bytes || (uint32_t)thread != (uint32_t)mark ||
		    (uint32_t)high != (uint32_t)mark || (uint32_t)low != (uint32_t)mark)
			continue;
		best = bytes;
		from = mark;
		cut = (struct cut){ (uint32_t)(thread >> 32), (high >> 32) << 24 | low >> 32 };
	}
	check_packet(cut, copy + local.ring_bytes - best, best, (head - from) >> 32);
	snapshots += best > 0;
}

static void *reader(void *argument)
{
	bool overwrite = argument != NULL;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			if (overwrite)
				snapshot(lane);
			else
				read_lane(lane, false);
		nap(200000);
	}
	return NULL;
}

static void *writer(void *argument)
{
	state += (uintptr_t)argument * 7919;
	for (uint64_t n = 0; n < wanted_records / WRITERS; n++) {
		trace_one();
		if (next_random(100) == 0)
			nap(next_random(200) ? 20000 : 60000000); /* longer than 2^27 cycles, now and then */
	}
	return NULL;
}

static void attach(bool overwrite)
{
	const struct kymo_mem header = { .contexts = KYMO_CONTEXT_COMPACT };
	bool rseq = kymo_kind == KYMO_KIND_RSEQ;
	uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);

	memset(cuts, 0, sizeof(cuts));
	read_records = read_bytes = produced = 0;
	CHECK(!local_attach_at(&local, 0, RING_BYTES, rseq ? cpus + 1 : 16, overwrite, &header), "attach");
	CHECK(local.lane_count <= LANES_MAX, "%u lanes", local.lane_count);
	local_enable(&kymo__event_compact_few, 1);
	local_enable(&kymo__event_compact_text, 40);
}

static void detach(void)
{
	kymo_slot_disable_all(0);
	kymo_slot_publish(0, NULL);
	CHECK(kymo_fence(), "fence");
	for (uint32_t lane = 0; lane < local.lane_count; lane++)
		if (local.data[lane])
			munmap(local.data[lane], 2 * (size_t)local.ring_bytes);
	close(local.fd);
	if (kymo_kind == KYMO_KIND_PORTABLE)
		kymo_lanes_unmap(0);
	kymo_memory_unmap(&kymo_memories[0]);
}

/* Threads, handlers in all of them, and a reader that cuts where it wants. */
static void stress(bool overwrite)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval tick = { { 0, 70 }, { 0, 70 } }, none = { { 0, 0 }, { 0, 0 } };
	pthread_t writers[WRITERS], read_thread;

	attach(overwrite);
	stop = 0;
	sigaction(SIGALRM, &action, NULL);
	pthread_create(&read_thread, NULL, reader, overwrite ? &stop : NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&writers[i], NULL, writer, (void *)(i + 1));
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	setitimer(ITIMER_REAL, &none, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(read_thread, NULL);
	for (uint32_t lane = 0; lane < local.lane_count; lane++)
		if (overwrite)
			snapshot(lane);
		else
			read_lane(lane, true);
	if (!overwrite)
		CHECK(produced == read_records + local_lost(&local), "produced %" PRIu64 ", read %" PRIu64
		      ", lost %" PRIu64, produced, read_records, local_lost(&local));
	printf("%s: %" PRIu64 " records read of %" PRIu64 ", %" PRIu64 " bytes, %" PRIu64 " lost, %" PRIu64
	       " snapshots, %" PRIu64 " looks failed (%s)\n", overwrite ? "overwrite" : "discard", read_records,
	       produced, read_bytes, local_lost(&local), snapshots, looks_failed,
	       kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable");
	detach();
}

/* Handlers at each place where a record can be interrupted: the portable ring, and marks of both. */
static void interrupted(bool overwrite)
{
	attach(overwrite);
	for (uint32_t round = 0; round < wanted_records / 150; round++) {
		wanted = (enum place)(1 + round % MARKED);
		stops = 1 + next_random(3);
		for (uint32_t i = 0; i < 40; i++)
			trace_one();
		wanted = NOWHERE;
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			if (overwrite)
				snapshot(lane);
			else
				read_lane(lane, false);
	}
	detach();
}

static void *other(void *argument)
{
	(void)argument;
	trace_one();
	return NULL;
}

static void on_trap(int number)
{
	(void)number;
}

/*
 * A sequence that is aborted behind its store of state: what it stored must not count. The thread in front
 * is another one in every second round, and the record in front is old in every other.
 */
static void aborted(void)
{
	struct sigaction action = { .sa_handler = on_trap };
	pthread_t thread;

	attach(false);
	sigaction(SIGTRAP, &action, NULL);
	for (uint32_t round = 0; round < (KYMO_ARCH_X86_64 ? 40 : 8); round++) {
		if (round % 2) {
			pthread_create(&thread, NULL, other, NULL);
			pthread_join(thread, NULL);
		}
		if (round / 2 % 2)
			nap_long();
		compact_test_armed = 1;
		trace_one();
		CHECK(!compact_test_armed, "the sequence was not aborted");
		trace_one();
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			read_lane(lane, false);
	}
	CHECK(read_records == produced, "%" PRIu64 " of %" PRIu64, read_records, produced);
	detach();
}

static uint32_t step(void)
{
	static uint64_t before;
	uint64_t head = 0;
	uint32_t bytes;

	for (uint32_t lane = 0; lane < local.lane_count; lane++)
		head += local_ring(&local, lane)->head;
	bytes = (uint32_t)(head - before - KYMO_ONE_RECORD);
	before = head;
	return bytes;
}

/*
 * Until a record has the size that it has where nothing interrupts its sequence: a repetition of an aborted
 * one cannot know what that one had written, and is longer.
 */
#define UNTIL(bytes, is_reached, ...) \
	for (int tries = 0; tries < 20; tries++) { \
		__VA_ARGS__; \
		bytes = step(); \
		if (is_reached) \
			break; \
	}

/* The bytes of records of one thread on one CPU. */
static void layout(void)
{
	static uint8_t big[KYMO_RECORD_MAX];
	bool rseq = kymo_kind == KYMO_KIND_RSEQ;
	pthread_t thread;
	uint32_t bytes;

	attach(false);
	local_enable(&kymo__event_compact_none, 29);
	kymo_trace(compact, none);
	bytes = step();
	CHECK(bytes == 22, "the first has %u bytes", bytes);
	UNTIL(bytes, bytes == 4, kymo_trace(compact, none));
	CHECK(bytes == 4, "the second has %u bytes", bytes);
	UNTIL(bytes, bytes == 4 + 12, kymo_trace(compact, few, 1, 1));
	CHECK(bytes == 4 + 12, "12 bytes make %u", bytes);
	UNTIL(bytes, bytes == 9 + 12 + 2 + 5, kymo_trace(compact, text, 1, 1, big, 5));
	CHECK(bytes == 9 + 12 + 2 + 5, "a large id makes %u", bytes);
	UNTIL(bytes, bytes == 4, kymo_trace(compact, none));
	CHECK(bytes == 4, "short again: %u", bytes);
	UNTIL(bytes, bytes == 9, nap_long(); kymo_trace(compact, none));
	CHECK(bytes == 9 || kymo_clock_kind != KYMO_CLOCK_COUNTER, "behind a pause %u", bytes);
	pthread_create(&thread, NULL, other, NULL);
	pthread_join(thread, NULL);
	CHECK(step() >= 22 + 12, "another thread");
	UNTIL(bytes, bytes == (rseq ? 22 : 9) || bytes == 4, kymo_trace(compact, none));
	CHECK(bytes == (rseq ? 22 : 9) || bytes == 4, "the first thread again: %u", bytes);
	kymo_trace(compact, text, 1, 1, big, RING_BYTES - 400);
	CHECK(local_lost(&local) == 0, "the ring has room");
	for (uint32_t i = 0; i < 40; i++)
		kymo_trace(compact, few, 1, 1);
	CHECK(local_lost(&local) > 0, "a full ring counts");
	detach();
}

/* A child writes and is killed, at any instruction; its parent reads behind the last cut. */
static void killed(void)
{
	attach(false);
	/* On a busy machine a child may live without ever running. */
	for (uint32_t round = 0; round < 60 || (read_records <= 1000 && round < 2000); round++) {
		pid_t child = fork();

		if (!child) {
			state += round;
			for (;;)
				trace_one();
		}
		for (uint32_t i = next_random(20); i; i--) {
			nap(300000);
			for (uint32_t lane = 0; lane < local.lane_count; lane++)
				read_lane(lane, false);
		}
		nap(next_random(1000000));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			read_lane(lane, true);
	}
	CHECK(read_records > 1000, "%" PRIu64 " records", read_records);
	printf("killed: %" PRIu64 " records read\n", read_records);
	detach();
}

int main(int argc, char **argv)
{
	cpu_set_t one, all;

	if (argc > 1)
		wanted_records = strtoull(argv[1], NULL, 0);
	kymo_fence_prepare();
	kymo_thread_init();
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	layout();
	if (kymo_kind == KYMO_KIND_RSEQ)
		aborted();
	interrupted(false);
	interrupted(true);
	sched_setaffinity(0, sizeof(all), &all);
	stress(false);
	stress(true);
	if (kymo_kind == KYMO_KIND_RSEQ)
		killed();
	return 0;
}
