/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flusher.c: the thread that flushes streams with the policy POSIX_TRACE_FLUSH [posix.md 7]. There
 * is one for all, from the first such stream on; it sleeps for good while there is none.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "linux.h"

#if KYMO_POSIX_LOG

#define LOOK_NS 2000000L
#define IDLE_NS 500000000u

static bool is_there;
static pthread_cond_t needed = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t need_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t need_count;

/* Flushes what is due. False: no stream needs us. */
static bool look(void)
{
	bool is_needed = false;

	kymop_lock();
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++) {
		struct kymop_stream *stream = &kymop_streams[i];
		uint64_t idle;

		if (stream->kind != KYMOP_LOGGED || stream->attr.kymo__stream_policy != KYMOP_FLUSH)
			continue;
		is_needed = true;
		idle = ((uint64_t)IDLE_NS << 20) / (stream->base.ns_per_stamp >> 20 ?
						      stream->base.ns_per_stamp >> 20 : 1);
		if (kymop_log_is_due(stream, idle))
			kymop_log_flush(stream);
	}
	kymop_unlock();
	return is_needed;
}

static void *flush_all(void *nothing)
{
	struct timespec pause = { .tv_nsec = LOOK_NS };
	uint32_t seen = 0;

	for (;;) {
		pthread_mutex_lock(&need_mutex);
		while (need_count == seen)
			pthread_cond_wait(&needed, &need_mutex);
		seen = need_count;
		pthread_mutex_unlock(&need_mutex);
		while (look())
			clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	return nothing;
}

int kymop_flusher_need(void)
{
	sigset_t all, before;
	pthread_t thread;
	int error = 0;

	if (!is_there) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&thread, NULL, flush_all, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (error)
			return ENOMEM;
		pthread_detach(thread);
		is_there = true;
	}
	pthread_mutex_lock(&need_mutex);
	need_count++;
	pthread_cond_signal(&needed);
	pthread_mutex_unlock(&need_mutex);
	return 0;
}

/* In a new child, which has no such thread. */
void kymop_flusher_forget(void)
{
	is_there = false;
	pthread_mutex_init(&need_mutex, NULL);
	pthread_cond_init(&needed, NULL);
}
#else
typedef int kymop_no_flusher; /* a file must not be empty */
#endif
