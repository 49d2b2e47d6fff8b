/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait.c: a reader waits for events by looking again after a while: a writer never tells. Signals
 * are let through only while it sleeps, so that a handler that ran is never missed.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "linux.h"

#if KYMO_POSIX_ONLINE

#define PAUSE_US_MIN 50u
#define PAUSE_US_MAX 2000u

KYMO_STATIC_ASSERT(sizeof(sigset_t) <= KYMOP_MASK_SPACE, "room for a signal mask");

void kymop_wait_begin(uint64_t *mask_space)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	memcpy(mask_space, &before, sizeof(before));
}

void kymop_wait_end(const uint64_t *mask_space)
{
	sigset_t before;

	memcpy(&before, mask_space, sizeof(before));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* For a thread that is cancelled while it waits. */
static void restore(void *mask)
{
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

int kymop_wait(uint32_t *pause_us, uint64_t until_ns, const uint64_t *mask_space)
{
	struct timespec pause = { 0 }, now;
	uint64_t pause_ns, now_ns;
	sigset_t before;
	int got;

	*pause_us = *pause_us < PAUSE_US_MIN ? PAUSE_US_MIN : *pause_us * 2;
	if (*pause_us > PAUSE_US_MAX)
		*pause_us = PAUSE_US_MAX;
	pause_ns = *pause_us * 1000u;
	if (until_ns != UINT64_MAX) {
		clock_gettime(CLOCK_REALTIME, &now);
		now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		if (now_ns >= until_ns)
			return ETIMEDOUT;
		if (pause_ns > until_ns - now_ns)
			pause_ns = until_ns - now_ns;
	}
	pause.tv_nsec = (long)pause_ns;
	memcpy(&before, mask_space, sizeof(before));
	pthread_cleanup_push(restore, &before);
	got = ppoll(NULL, 0, &pause, &before);
	pthread_cleanup_pop(0);
	return got < 0 && errno == EINTR ? EINTR : 0;
}
#else
typedef int kymop_no_waiting; /* a file must not be empty */
#endif
