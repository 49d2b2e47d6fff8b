/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.c RECORDS [THREADS [kill]]: threads that record who they are and count, with naps that are longer than a
 * short time stamp of a compact record, and a handler in all of them. With one thread: nothing but
 * RECORDS records of one integer. kill: it ends by SIGKILL. Prints how many records it made.
 */
#include "common.h"

#include <sys/time.h>

KYMO_EVENT(compact, one, (u32, n))
KYMO_EVENT(compact, rec, (u32, tid), (u64, n))
KYMO_EVENT(compact, text, (u32, tid), (u64, n), (str, text))
KYMO_EVENT(compact, handler, (u32, tid))

static uint64_t records, made;

static void on_signal(int number)
{
	(void)number;
	__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	kymo_trace(compact, handler, tid());
}

static void *writer(void *argument)
{
	(void)argument;
	for (uint64_t n = 0; n < records; n++) {
		__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
		if (n % 5)
			kymo_trace(compact, rec, tid(), n);
		else
			kymo_trace(compact, text, tid(), n, "fifth");
		if (n % 100 == 99)
			nap_us(100);
		if (n % 2000 == 1999)
			nap_us(80000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval tick = { { 0, 1000 }, { 0, 1000 } }, none = { { 0, 0 }, { 0, 0 } };
	pthread_t thread[16];

	live_shortly();
	records = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	if (threads == 1) {
		for (uint64_t n = 0; n < records; n++)
			kymo_trace(compact, one, (uint32_t)n);
		return 0;
	}
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (uint32_t at = 0; at < threads && at < 16; at++)
		if (pthread_create(&thread[at], NULL, writer, NULL))
			die("pthread_create");
	for (uint32_t at = 0; at < threads && at < 16; at++)
		pthread_join(thread[at], NULL);
	setitimer(ITIMER_REAL, &none, NULL);
	printf("made=%" PRIu64 "\n", made);
	fflush(stdout);
	if (argc > 3)
		kill(getpid(), SIGKILL);
	return 0;
}
