/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * killed.c: a program that is killed by SIGKILL while its threads record, again and again, at any
 * instruction [ring.md 1]. Read from outside, by a reader that outlives it: every published record is
 * whole, none comes twice, and what was recorded is read or counted as lost: at least the records that
 * were done, at most those that were begun.
 *
 *	killed [rounds]
 *
 * KYMO_RING=portable takes the portable ring, without signal handlers: what a handler records inside
 * another record, both unpublished, is gone there [ring.md 6].
 */
#include "local.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#define WRITERS 3
#define RING_BYTES 65536u
#define LANES_MAX 64u
#define CHECKSUM 0x9e3779b97f4a7c15ull

KYMO_EVENT(killed, fixed, (u32, writer), (u64, number), (u64, check))
KYMO_EVENT(killed, varied, (u32, writer), (u64, number), (u64, check), (bytes, filler))

/* What the two processes know of each other. The last writer: handlers, of all threads. */
struct shared {
	uint32_t memory_fd, lane_count;
	uint64_t data_offset;
	uint32_t is_ready, kind;
	uint64_t begun[WRITERS + 1], done[WRITERS + 1];
};

static struct shared *shared;
static uint64_t next_number[LANES_MAX][WRITERS + 1];
static uint64_t all_read, all_lost, unfinished;

static uint64_t checksum(uint64_t number, uint32_t writer)
{
	return (number * CHECKSUM) ^ (writer + 0x1234567890abcdefull);
}

static void on_signal(int number)
{
	uint64_t n = __atomic_fetch_add(&shared->begun[WRITERS], 1, __ATOMIC_RELAXED);

	(void)number;
	kymo_trace(killed, fixed, WRITERS, n, checksum(n, WRITERS));
	__atomic_fetch_add(&shared->done[WRITERS], 1, __ATOMIC_RELAXED);
}

static void *writer(void *argument)
{
	uint32_t me = (uint32_t)(uintptr_t)argument;
	uint8_t filler[300];

	memset(filler, (int)me + 1, sizeof(filler));
	for (uint64_t n = 0;; n++) {
		__atomic_store_n(&shared->begun[me], n + 1, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (n % 3)
			kymo_trace(killed, fixed, me, n, checksum(n, me));
		else
			kymo_trace(killed, varied, me, n, checksum(n, me), filler, n % sizeof(filler));
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&shared->done[me], n + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static struct shared *map_shared(int fd)
{
	void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(at != MAP_FAILED, "shared page");
	return at;
}

/* So that a victim that ends by itself says where. What the kernel ends for a wrong sequence comes not here. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	const ucontext_t *at = context;
#if KYMO_ARCH_AARCH64
	unsigned long pc = at->uc_mcontext.pc;
#elif KYMO_ARCH_X86_64
	unsigned long pc = (unsigned long)at->uc_mcontext.gregs[REG_RIP];
#else
	unsigned long pc = at == NULL;
#endif

	fprintf(stderr, "victim: signal %d, code %d, address %p, at %lx; map_shared is at %p\n", number, info->si_code,
		info->si_addr, pc, (void *)(uintptr_t)&map_shared);
	_exit(99);
}

/* The program that is killed. */
static int victim(int fd)
{
	static struct local local;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval tick = { { 0, 200 }, { 0, 200 } };
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	bool rseq = kymo_kind == KYMO_KIND_RSEQ;
	pthread_t thread;

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGILL, &fault, NULL);
	shared = map_shared(fd);
	local_attach(&local, RING_BYTES, rseq ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) + 1 : 16, false);
	local_enable(&kymo__event_killed_fixed, 1);
	local_enable(&kymo__event_killed_varied, 2);
	shared->memory_fd = (uint32_t)local.fd;
	shared->lane_count = local.lane_count;
	shared->data_offset = local.view.control_bytes;
	shared->kind = kymo_kind;
	__atomic_store_n(&shared->is_ready, 1, __ATOMIC_RELEASE);
	if (rseq) {
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &tick, NULL);
	}
	for (uintptr_t i = 1; i < WRITERS; i++)
		pthread_create(&thread, NULL, writer, (void *)i);
	writer(NULL);
	return 0;
}

static pid_t start(const char *self, int fd)
{
	char number[16];
	pid_t child;

	snprintf(number, sizeof(number), "%d", fd);
	child = fork();
	if (!child) {
		/* Nobody shall attach. */
		setenv("KYMO_RUNTIME_DIR", "/proc/self/nowhere", 1);
		setenv("KYMO_NO_THREAD", "1", 1);
		execl("/proc/self/exe", self, "victim", number, (char *)NULL);
		_exit(127);
	}
	CHECK(child > 0, "fork");
	return child;
}

/* The victim's memory, as a collector has it. */
static void adopt(struct local *local, pid_t child)
{
	char path[64];
	void *base;

	memset(local, 0, sizeof(*local));
	CHECK(shared->lane_count <= LANES_MAX, "%u lanes", shared->lane_count);
	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)child, shared->memory_fd);
	local->fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(local->fd >= 0, "%s", path);
	base = mmap(NULL, shared->data_offset, PROT_READ | PROT_WRITE, MAP_SHARED, local->fd, 0);
	CHECK(base != MAP_FAILED, "control blocks");
	local->view.base = base;
	local->view.control_bytes = shared->data_offset;
	local->view.rings = (struct kymo_ring *)(void *)(local->view.base + KYMO_MEM_HEADER_BYTES);
	local->lane_count = shared->lane_count;
	local->ring_bytes = RING_BYTES;
	local->mem = kymo_memory_header(&local->view);
}

static void let_go(struct local *local)
{
	for (uint32_t lane = 0; lane < local->lane_count; lane++)
		if (local->data[lane])
			munmap(local->data[lane], 2 * (size_t)local->ring_bytes);
	munmap(local->view.base, local->view.control_bytes);
	close(local->fd);
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
	const uint8_t *body = at + 12;
	uint32_t bytes = 12 + 20, filler, by;
	uint64_t number;

	CHECK(left >= bytes && load(at + 8, 4) != 0, "lane %u: %u bytes left", lane, left);
	by = (uint32_t)load(body, 4);
	number = load(body + 4, 8);
	CHECK(by <= WRITERS && load(body + 12, 8) == checksum(number, by), "lane %u: torn", lane);
	CHECK(number < __atomic_load_n(&shared->begun[by], __ATOMIC_ACQUIRE), "a record that nobody began");
	/* A handler's number is drawn before another one's that is recorded first. */
	CHECK(by == WRITERS || number >= next_number[lane][by], "lane %u: record %lu of writer %u twice", lane,
	      (unsigned long)number, by);
	next_number[lane][by] = number + 1;
	if (load(at, 2) == 1)
		return bytes;
	CHECK(load(at, 2) == 2 && left >= bytes + 2, "lane %u: id %lu", lane, (unsigned long)load(at, 2));
	filler = (uint32_t)load(body + 20, 2);
	CHECK(left >= bytes + 2 + filler, "lane %u: torn", lane);
	for (uint32_t i = 0; i < filler; i++)
		CHECK(body[22 + i] == by + 1, "lane %u: filler of %u at %u", lane, filler, i);
	return bytes + 2 + filler;
}

/* Reads what is published on all lanes; returns how many records. */
static uint64_t drain(struct local *local)
{
	uint64_t records = 0;

	for (uint32_t lane = 0; lane < local->lane_count; lane++) {
		const uint8_t *at;
		uint64_t head, tail = local_ring(local, lane)->tail, here = 0;
		uint32_t left = local_take(local, lane, &at, &head);

		for (uint32_t bytes; left; left -= bytes, at += bytes, here++)
			bytes = check_record(lane, at, left);
		CHECK((head - tail) >> 32 == here, "lane %u: %lu records counted, %lu read", lane,
		      (unsigned long)((head - tail) >> 32), (unsigned long)here);
		local_done(local, lane, head);
		records += here;
	}
	return records;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void round_of(const char *self, int fd, uint64_t life_us)
{
	uint64_t records = 0, begun = 0, done = 0, lost, until;
	struct local local;
	pid_t child;
	int status;

	memset(shared, 0, sizeof(*shared));
	memset(next_number, 0, sizeof(next_number));
	child = start(self, fd);
	while (!__atomic_load_n(&shared->is_ready, __ATOMIC_ACQUIRE))
		CHECK(waitpid(child, &status, WNOHANG) == 0, "the victim ended by itself (%s): status %x",
		      shared->is_ready ? "recording" : "before it recorded", (unsigned)status);
	CHECK(shared->kind == kymo_kind, "the victim has another ring");
	adopt(&local, child);
	for (until = now_us() + life_us; now_us() < until;)
		records += drain(&local);
	CHECK(!kill(child, SIGKILL), "kill");
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	      "the victim ended by itself: status %x", (unsigned)status);
	records += drain(&local);
	lost = local_lost(&local);
	for (int i = 0; i <= WRITERS; i++) {
		begun += shared->begun[i];
		done += shared->done[i];
	}
	CHECK(records + lost >= done && records + lost <= begun, "%lu read, %lu lost, %lu done, %lu begun",
	      (unsigned long)records, (unsigned long)lost, (unsigned long)done, (unsigned long)begun);
	unfinished += begun != done;
	all_read += records;
	all_lost += lost;
	let_go(&local);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 300;
	uint64_t seed = 88172645463325252ull;
	int fd;

	if (argc > 2 && !strcmp(argv[1], "victim"))
		return victim(atoi(argv[2]));
	fd = memfd_create("kymo-killed", 0);
	CHECK(fd >= 0 && !ftruncate(fd, sizeof(struct shared)), "shared page");
	shared = map_shared(fd);
	for (unsigned i = 0; i < rounds; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		round_of(argv[0], fd, seed % 4000);
	}
	printf("%s: %u kills, %u of them inside a record; read %lu, lost %lu\n",
	       kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable", rounds, (unsigned)unfinished,
	       (unsigned long)all_read, (unsigned long)all_lost);
	CHECK(all_read > 0 && unfinished > 0, "nothing was tested");
	return 0;
}
