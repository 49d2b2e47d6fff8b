/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stress.c: writers, a signal timer whose handler traces in the middle of their records, a reader
 * that checks every record: none torn, none out of order in its lane, produced = read + lost
 * exactly [ring.md 1].
 *
 *	stress [records] [ring bytes] [--move] [--pace] [--overwrite]
 *
 * --move: a thread changes the writers' affinity all the time. --pace: writers go slowly enough
 * that most records are read; without it most are lost, and the counting of losses is what is
 * tested. --overwrite: a flight recorder, of which the reader takes snapshots all the time; every
 * record is in one, or was overwritten in between, and counted [ring.md 10]. KYMO_RING=portable
 * takes the portable ring.
 */
#include "local.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define WRITERS 4
#define CHECKSUM 0x9e3779b97f4a7c15ull

/* Each record can be checked on its own: check depends on all the rest. */
KYMO_EVENT(stress, fixed, (u32, writer), (u64, number), (u64, check))
KYMO_EVENT(stress, varied, (u32, writer), (u64, number), (bytes, filler), (u64, check))
KYMO_EVENT(stress, handler, (u64, number), (u64, check))

static struct local local;
static uint64_t wanted_records = 3000000;
static uint64_t produced[WRITERS + 1]; /* the last one: from handlers, all threads */
static __thread uint32_t self_writer = WRITERS;
static int stop_reader, stop_mover;
static bool pace;
static pid_t writer_tids[WRITERS];
static uint64_t read_records, read_bytes, overwritten, snapshots;
static uint64_t snapshot_end[KYMO_CLAIMS_MAX];
static uint64_t last_stamp[KYMO_CLAIMS_MAX];

static uint64_t checksum(uint64_t a, uint64_t b)
{
	return (a * CHECKSUM) ^ (b + 0x1234567890abcdefull);
}

static void on_signal(int number)
{
	uint64_t n = __atomic_fetch_add(&produced[WRITERS], 1, __ATOMIC_RELAXED);

	(void)number;
	kymo_trace(stress, handler, n, checksum(n, 99));
}

static void *writer(void *argument)
{
	uint32_t me = (uint32_t)(uintptr_t)argument;
	uint8_t filler[200];
	uint64_t n;
	sigset_t alarm;

	/* Signals hit writers only. */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	__atomic_store_n(&writer_tids[me], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	self_writer = me;
	memset(filler, (int)me + 1, sizeof(filler));
	for (n = 0; n < wanted_records / WRITERS; n++) {
		if (n % 8)
			kymo_trace(stress, fixed, me, n, checksum(n, me));
		else
			kymo_trace(stress, varied, me, n, filler, n % sizeof(filler),
				   checksum(n, me));
		for (volatile int i = 0; pace && i < 700; i++)
			;
	}
	produced[me] = n;
	return NULL;
}

static uint64_t load(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

/* Checks one record and returns its bytes. */
static uint32_t check_record(uint32_t lane, const uint8_t *at, uint32_t left)
{
	uint64_t stamp = load(at, 8) >> 16, id = load(at, 2);
	const uint8_t *body = at + 12;
	uint32_t bytes, filler;

	CHECK(left >= 12, "lane %u: %u bytes left", lane, left);
	CHECK(stamp >= last_stamp[lane], "lane %u: %lu after %lu", lane, (unsigned long)stamp,
	      (unsigned long)last_stamp[lane]);
	last_stamp[lane] = stamp;
	CHECK(load(at + 8, 4) != 0, "no thread id");
	switch (id) {
	case 1:
		bytes = 12 + 20;
		CHECK(left >= bytes, "torn");
		CHECK(load(body + 12, 8) == checksum(load(body + 4, 8), load(body, 4)), "torn");
		return bytes;
	case 2:
		CHECK(left >= 12 + 14, "torn");
		filler = (uint32_t)load(body + 12, 2);
		bytes = 12 + 14 + filler + 8;
		CHECK(left >= bytes, "torn");
		for (uint32_t i = 0; i < filler; i++)
			CHECK(body[14 + i] == load(body, 4) + 1, "filler of %u at %u", filler, i);
		CHECK(load(body + 14 + filler, 8) == checksum(load(body + 4, 8), load(body, 4)),
		      "torn");
		return bytes;
	case 3:
		bytes = 12 + 16;
		CHECK(left >= bytes, "torn");
		CHECK(load(body + 8, 8) == checksum(load(body, 8), 99), "torn");
		return bytes;
	default:
		CHECK(0, "lane %u: id %lu", lane, (unsigned long)id);
		return 0;
	}
}

static void read_lane(uint32_t lane)
{
	const uint8_t *at;
	uint64_t head, tail = local_ring(&local, lane)->tail, records = 0;
	uint32_t left = local_take(&local, lane, &at, &head);

	for (uint32_t bytes; left; left -= bytes, at += bytes, records++)
		bytes = check_record(lane, at, left);
	read_bytes += (uint32_t)(head - tail);
	CHECK((head - tail) >> 32 == records, "lane %u: %lu records counted, %lu read", lane,
	      (unsigned long)((head - tail) >> 32), (unsigned long)records);
	read_records += records;
	local_done(&local, lane, head);
}

/* A snapshot of a lane: whole records, and how many were overwritten since the one before. */
static void snapshot_lane(uint32_t lane, uint8_t *copy)
{
	uint64_t from, head, records = 0;
	uint32_t left = local_snapshot(&local, lane, copy, &from, &head);
	uint64_t before = snapshot_end[lane];

	last_stamp[lane] = 0;
	for (const uint8_t *at = copy; left; records++) {
		uint32_t bytes = check_record(lane, at, left);

		left -= bytes;
		at += bytes;
	}
	CHECK((head - from) >> 32 == records, "lane %u: %lu records between the marks, %lu read", lane,
	      (unsigned long)((head - from) >> 32), (unsigned long)records);
	if ((int64_t)(from - before) > 0)
		overwritten += (from - before) >> 32;
	else
		from = before;
	read_records += (head - from) >> 32;
	snapshot_end[lane] = head;
	snapshots++;
}

static void *snapshot_reader(void *unused)
{
	uint8_t *copy = malloc(local.ring_bytes);

	for (bool last = false; !last;) {
		last = __atomic_load_n(&stop_reader, __ATOMIC_ACQUIRE);
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			snapshot_lane(lane, copy);
	}
	free(copy);
	return unused;
}

static void *reader(void *unused)
{
	for (bool last = false; !last;) {
		last = __atomic_load_n(&stop_reader, __ATOMIC_ACQUIRE);
		for (uint32_t lane = 0; lane < local.lane_count; lane++)
			read_lane(lane);
	}
	return unused;
}

static void *mover(void *unused)
{
	unsigned turn = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	while (!__atomic_load_n(&stop_mover, __ATOMIC_ACQUIRE)) {
		pid_t tid = __atomic_load_n(&writer_tids[turn % WRITERS], __ATOMIC_ACQUIRE);
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((turn / WRITERS + turn) % (unsigned)cpus, &set);
		if (tid)
			sched_setaffinity(tid, sizeof(set), &set);
		turn++;
	}
	return unused;
}

int main(int argc, char **argv)
{
	uint32_t ring_bytes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1u << 20;
	bool move = false, overwrite = false;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval tick = { { 0, 100 }, { 0, 100 } }, off = { { 0, 0 }, { 0, 0 } };
	pthread_t threads[WRITERS], reading, moving;
	uint64_t all = 0, lost;
	sigset_t alarm;

	for (int i = 3; i < argc; i++) {
		move |= !strcmp(argv[i], "--move");
		pace |= !strcmp(argv[i], "--pace");
		overwrite |= !strcmp(argv[i], "--overwrite");
	}
	if (argc > 1)
		wanted_records = strtoull(argv[1], NULL, 0);
	local_attach(&local, ring_bytes,
		     kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) + 1 : 16,
		     overwrite);
	local_enable(&kymo__event_stress_fixed, 1);
	local_enable(&kymo__event_stress_varied, 2);
	local_enable(&kymo__event_stress_handler, 3);
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	/* Before there are writers: they may have ended before this thread goes on. */
	setitimer(ITIMER_REAL, &tick, NULL);
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, writer, (void *)i);
	pthread_create(&reading, NULL, overwrite ? snapshot_reader : reader, NULL);
	if (move)
		pthread_create(&moving, NULL, mover, NULL);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &off, NULL);
	if (move) {
		__atomic_store_n(&stop_mover, 1, __ATOMIC_RELEASE);
		pthread_join(moving, NULL);
	}
	__atomic_store_n(&stop_reader, 1, __ATOMIC_RELEASE);
	pthread_join(reading, NULL);
	lost = local_lost(&local);
	for (int i = 0; i <= WRITERS; i++)
		all += produced[i];
	printf("%s ring of %u bytes%s: produced %lu (%lu in signal handlers), read %lu, overwritten %lu, lost %lu\n",
	       kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable", ring_bytes, move ? ", moving" : "",
	       (unsigned long)all, (unsigned long)produced[WRITERS], (unsigned long)read_records,
	       (unsigned long)overwritten, (unsigned long)lost);
	CHECK(all == read_records + overwritten + lost, "%ld records unaccounted for",
	      (long)(all - read_records - overwritten - lost));
	CHECK(!overwrite || snapshots > 10, "%lu snapshots", (unsigned long)snapshots);
	CHECK(produced[WRITERS] > 0, "no signal came");
	CHECK(read_records > 0, "nothing was read");
	return 0;
}
