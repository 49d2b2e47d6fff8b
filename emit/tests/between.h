/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * between.h: what may come between two sequences of one record [ring.md 5.9], at a test point of the code that
 * writes them, which the test compiles in: records of the thread itself, as by a signal handler; a signal whose
 * handler records nothing; a thread that shares the CPU. Included first, in place of the test point's default; the
 * test defines record().
 */
#ifndef KYMO_TEST_BETWEEN_H
#define KYMO_TEST_BETWEEN_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

enum between { NOTHING, RECORDS, SIGNAL, THREAD, BETWEENS };
static void stop_between(void);
#define KYMO_TEST_STOP(place) stop_between()

/* Records in turn of the other thread: so many that some meet the other one's. */
#define OTHERS_EACH 4

static void record(void);
static volatile enum between wanted_between;
static __thread bool is_stopped; /* nothing stops here */
static volatile sig_atomic_t signals;
static volatile uint64_t others, asked; /* turns of the other thread, and how many it shall have had */

static void stop_between(void)
{
	sig_atomic_t seen = signals;

	if (is_stopped || wanted_between == NOTHING)
		return;
	is_stopped = true;
	if (wanted_between == RECORDS)
		record();
	/* Without a system call: the kernel may take note of interruptions only. */
	while (wanted_between == SIGNAL && signals == seen)
		;
	asked = others + 2;
	while (wanted_between == THREAD && others < asked)
		;
	is_stopped = false;
}

static void on_signal(int number)
{
	(void)number;
	signals++;
}

static void *other_thread(void *unused)
{
	(void)unused;
	is_stopped = true;
	while (wanted_between == THREAD) {
		/* Only when asked: who yields may go on at once, and for long. */
		if (others < asked) {
			for (int i = 0; i < OTHERS_EACH; i++)
				record();
			others++;
		}
		sched_yield();
	}
	return NULL;
}

/* between_prepare: one CPU for all threads, and the handler. Returns: whether it is so. */
static bool between_prepare(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return !sched_setaffinity(0, sizeof(one), &one) && !sigaction(SIGALRM, &action, NULL);
}

/* between_run: so many records, with this between their sequences. Returns: whether there was a thread for it. */
static bool between_run(enum between between, uint32_t rounds)
{
	struct itimerval period = { { 0, 500 }, { 0, 500 } };
	pthread_t thread;

	wanted_between = between;
	if (between == THREAD && pthread_create(&thread, NULL, other_thread, NULL))
		return false;
	if (between == SIGNAL)
		setitimer(ITIMER_REAL, &period, NULL);
	for (uint32_t round = 0; round < rounds; round++)
		record();
	wanted_between = NOTHING;
	period = (struct itimerval){ 0 };
	setitimer(ITIMER_REAL, &period, NULL);
	if (between == THREAD)
		pthread_join(thread, NULL);
	return true;
}

#endif
