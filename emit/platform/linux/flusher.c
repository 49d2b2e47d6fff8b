/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flusher.c: the threads that flush streams with the policy POSIX_TRACE_FLUSH [posix.md 7]: one for
 * each, so that a log that nobody reads holds up no other. A thread ends with its stream.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "linux.h"

#if KYMO_POSIX_LOG

#define LOOK_NS 2000000L
#define IDLE_NS 500000000u
#define STACK_BYTES (256u << 10)

/* Flushes the stream if it is due. False: it is gone. Who has claimed it is flushing it, or ends it. */
static bool look(trace_id_t trid)
{
	struct kymop_stream *stream;
	uint64_t rate, idle;

	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream && !stream->is_claimed) {
		rate = stream->base.ns_per_stamp >> 20;
		idle = ((uint64_t)IDLE_NS << 20) / (rate ? rate : 1);
		if (kymop_log_is_due(stream, idle)) {
			stream->is_claimed = true;
			kymop_log_flush(stream);
			kymop_unclaim(stream);
		}
	}
	kymop_unlock();
	return stream != NULL;
}

/* Of the thread that was started last; 0: it has not come so far. Under kymop_lock. */
static uint32_t started;

static void *flush_one(void *trid)
{
	struct timespec pause = { .tv_nsec = LOOK_NS };

	uint32_t self = (uint32_t)syscall(SYS_gettid);

	__atomic_store_n(&started, self, __ATOMIC_RELEASE);
	while (look((trace_id_t)(uintptr_t)trid))
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
#if KYMOP_KERNEL
	kymop_lock();
	kymop_kernel_hide(self, false);
	kymop_unlock();
#endif
	return NULL;
}

int kymop_flusher_start(trace_id_t trid)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	if (pthread_attr_init(&attr))
		return ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	__atomic_store_n(&started, 0, __ATOMIC_RELAXED);
	error = pthread_create(&thread, &attr, flush_one, (void *)(uintptr_t)trid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
#if KYMOP_KERNEL
	/* What it does is not what the program does: no stream has it, from its first system calls on. */
	while (!error && !__atomic_load_n(&started, __ATOMIC_ACQUIRE))
		usleep(50);
	if (!error)
		kymop_kernel_hide(started, true);
#endif
	return error ? ENOMEM : 0;
}
#else
typedef int kymop_no_flusher; /* a file must not be empty */
#endif
