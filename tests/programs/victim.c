/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * victim.c ID THREADS COUNTS STYLE: writes records until it is killed, and counts them in the file
 * COUNTS, which outlives the process: 16 counters a victim, first what was begun, then what was
 * published, each for 4 threads and for the handlers of those threads.
 *
 * A record of a handler that interrupted another record is published when kymo_trace returns to the
 * handler (rseq), or when the interrupted one is (portable, ring.md 6): there the thread counts it.
 *
 * STYLE v: records of varying length; s: a timer whose handler traces as well.
 */
#include "common.h"

#define COUNTERS 16
#define THREADS_MAX 4
#define PUBLISHED (2 * THREADS_MAX)
/* What the rings hold in any case, so that nothing is lost however late the collector comes. */
#define RECORDS_MAX 6000

KYMO_EVENT(kill, fixed, (u32, victim), (u32, writer), (u64, n), (u64, check))
KYMO_EVENT(kill, varied, (u32, victim), (u32, writer), (u64, n), (bytes, filler), (u64, check))

static uint64_t *counts;
static uint32_t victim;
static int varied, portable, go;
static uint8_t filler[256][320];
static __thread uint32_t self;
static __thread uint64_t handled;

static void publish(uint32_t writer, uint64_t n)
{
	__atomic_store_n(&counts[writer], n + 1, __ATOMIC_RELEASE);
	if (varied)
		kymo_trace(kill, varied, victim, writer, n, filler[n % 256], n % 320, check_of(n, victim));
	else
		kymo_trace(kill, fixed, victim, writer, n, check_of(n, victim));
	if (writer < THREADS_MAX || !portable)
		__atomic_store_n(&counts[PUBLISHED + writer], n + 1, __ATOMIC_RELEASE);
}

static void on_timer(int number)
{
	(void)number;
	if (handled < RECORDS_MAX)
		publish(THREADS_MAX + self, handled++);
}

static void *writer(void *argument)
{
	sigset_t timer;

	/* Only now does the handler know whose counter it has. */
	self = (uint32_t)(uintptr_t)argument;
	sigemptyset(&timer);
	sigaddset(&timer, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		sched_yield();
	for (uint64_t n = 0; n < RECORDS_MAX; n++) {
		uint64_t before = *(volatile uint64_t *)&handled;

		publish(self, n);
		/* What came before this record is out with it. */
		if (portable)
			__atomic_store_n(&counts[PUBLISHED + THREADS_MAX + self], before, __ATOMIC_RELEASE);
		for (volatile int i = 0; i < 50; i++)
			;
	}
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t threads = (uint32_t)atoi(argv[2]);
	int fd = open(argv[3], O_RDWR | O_CLOEXEC);
	sigset_t blocked;

	live_shortly();
	if (argc != 5 || fd < 0 || threads > THREADS_MAX)
		die("usage");
	victim = (uint32_t)atoi(argv[1]);
	portable = getenv("KYMO_RING") != NULL;
	varied = strchr(argv[4], 'v') != NULL;
	counts = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		die("mmap");
	counts += victim * COUNTERS;
	for (unsigned row = 0; row < 256; row++)
		memset(filler[row], (int)row, sizeof(filler[row]));
	until_enabled(kill, fixed);
	until_enabled(kill, varied);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	for (uint32_t at = 1; at < threads; at++) {
		pthread_t thread;

		pthread_create(&thread, NULL, writer, (void *)(uintptr_t)at);
	}
	if (strchr(argv[4], 's')) {
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
		struct itimerspec every = { { 0, 50000 }, { 0, 50000 } };
		timer_t timer;

		signal(SIGUSR1, on_timer);
		if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL))
			die("timer");
	}
	say("go");
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	writer(NULL);
}
