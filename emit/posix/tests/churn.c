/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* churn.c: streams that are made and shut down while threads of several processes record. */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS

#define WRITERS 2

static volatile int *churn_end;

/* Events of several lengths; a handler that records interrupts the thread now and then. */
static void *churn_write(void *event)
{
	unsigned char data[200] = { 1, 2, 3 };

	for (unsigned i = 0; !*churn_end; i++)
		posix_trace_event(*(trace_event_id_t *)event, data, i % 3 ? 4 : i % sizeof(data));
	return NULL;
}

static trace_event_id_t churn_event;

static void churn_handler(int signal)
{
	(void)signal;
	emit_number(churn_event, 7);
}

static void churn_start(pthread_t *threads)
{
	struct sigaction action = { .sa_handler = churn_handler, .sa_flags = SA_RESTART };
	struct sigevent each = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct itimerspec every = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	churn_event = event_named("churn");
	EQUAL(sigaction(SIGUSR2, &action, NULL), 0);
	for (int i = 0; i < WRITERS; i++)
		EQUAL(pthread_create(&threads[i], NULL, churn_write, &churn_event), 0);
	EQUAL(timer_create(CLOCK_MONOTONIC, &each, &timer), 0);
	EQUAL(timer_settime(timer, 0, &every, NULL), 0);
}

static pid_t churn_process(void)
{
	pthread_t threads[WRITERS];
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	churn_start(threads);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	exit(0);
}

/* Whether the stream gets an event of its target within ten seconds. */
static bool churn_gets_one(trace_id_t trid, pid_t target)
{
	struct timespec until;
	struct got got;
	int error;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	do {
		error = posix_trace_timedgetnext_event(trid, &got.info, got.data, sizeof(got.data),
						       &got.bytes, &got.unavailable, &until);
		if (error == ETIMEDOUT)
			return false;
		EXPECT(error == 0 || error == EINTR);
	} while (error || got.info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT);
	EQUAL(got.info.posix_pid, target);
	return true;
}

TEST("shutdown", recreate_under_writers,
	"streams that are shut down and made again under writers of three processes: nobody "
	"crashes, and each new stream records")
{
	/* All of it on one ring of one preset: it takes minutes. */
	bool is_long = getenv("KYMO_STRESS") != NULL;
	bool is_longest = is_long && getenv("KYMO_CHURN") != NULL;
	trace_attr_t attr = attr_with(POSIX_TRACE_LOOP, 4096, 64), large = attr_with(0, 1 << 16, 200);
	int cycles = is_longest ? 100000 : is_long ? 10000 : 1000;
	pthread_t threads[WRITERS];
	pid_t targets[3];
	trace_id_t trid;

	if (is_long)
		alarm(3600);
	churn_end = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(churn_end != MAP_FAILED);
	targets[0] = getpid();
	targets[1] = churn_process();
	targets[2] = churn_process();
	churn_start(threads);
	for (int i = 0; i < cycles; i++) {
		pid_t target = targets[i % 3];

		EQUAL(posix_trace_create(target, i % 5 ? &attr : &large, &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		if (i % 16 < 3)
			EXPECT(churn_gets_one(trid, target));
		EQUAL(posix_trace_shutdown(trid), 0);
	}
	*churn_end = 1;
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	join(targets[1]);
	join(targets[2]);
}
#endif
