/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stream.c: the functions of the standard that start, stop, clear and shut down streams, and say how they are
 * [posix.md 4]. Unit: trace core.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE
/* Events of the kernel come behind START, and before STOP. */
static void kernel_run(const struct kymop_stream *stream, bool is_running)
{
#if KYMOP_KERNEL
	if (stream->kernel)
		kymop_kernel_run(stream->kernel, is_running);
#else
	(void)stream;
	(void)is_running;
#endif
}

static void stop(struct kymop_stream *stream)
{
	static const int is_automatic = 0;

	if (!kymop_state_move(stream, KYMOP_RUNNING, KYMOP_SUSPENDED))
		return;
	kernel_run(stream, false);
	if (KYMO_POSIX_EVENT_START_STOP)
		kymop_system_event(stream, KYMOP_STOP, &is_automatic, sizeof(is_automatic));
}

KYMOP_EXPORT int posix_trace_start(trace_id_t trid)
{
	struct kymop_stream *stream;

	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream && kymop_state_now(stream) == KYMOP_SUSPENDED) {
		kymop_run(stream, KYMOP_SUSPENDED);
		kernel_run(stream, true);
	}
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

KYMOP_EXPORT int posix_trace_stop(trace_id_t trid)
{
	struct kymop_stream *stream;

	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream)
		stop(stream);
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

/* As after its creation: empty, and nothing is filtered. State and names stay [posix.md 8, row 9]. */
KYMOP_EXPORT int posix_trace_clear(trace_id_t trid)
{
	struct kymop_stream *stream;
	int error = 0;

	kymop_lock();
	stream = kymop_claim(trid);
	if (stream) {
		struct kymop_shared *shared = kymop_shared_of(stream);

#if KYMOP_KERNEL
		static const uint32_t nothing[(KYMOP_EVENTS + 31) / 32];

		if (stream->kernel)
			error = kymop_kernel_filter(stream->kernel, nothing);
#endif
		memset(shared->filter, 0, sizeof(shared->filter));
		kymop_filter_changed(shared);
		kymop_reader_clear(stream);
#if KYMO_POSIX_LOG
		if (stream->log && !error)
			error = kymop_log_clear(stream);
#endif
		kymop_restart(stream);
		__atomic_store_n(&shared->full, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&shared->overrun, 0, __ATOMIC_RELAXED);
		kymop_unclaim(stream);
	}
	kymop_unlock();
	return stream ? error : EINVAL;
}

KYMOP_EXPORT int posix_trace_shutdown(trace_id_t trid)
{
	struct kymop_stream *stream;
	int error = 0;

	kymop_lock();
	stream = kymop_claim(trid);
	if (stream) {
		stop(stream);
#if KYMO_POSIX_LOG
		if (stream->log)
			error = kymop_log_end(stream);
#endif
		kymop_destroy(stream);
		kymop_unclaim(stream);
	}
	kymop_unlock();
	return stream ? error : EINVAL;
}

/* What an active stream says of itself, and forgets. */
static void active_status(struct kymop_stream *stream, struct posix_trace_status_info *status)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	enum kymop_state state = kymop_state_now(stream);

	if (state == KYMOP_RUNNING)
		status->posix_stream_status = POSIX_TRACE_RUNNING;
	if (kymop_is_full(stream, state))
		status->posix_stream_full_status = POSIX_TRACE_FULL;
	if (kymop_take_flag(&shared->overrun))
		status->posix_stream_overrun_status = POSIX_TRACE_OVERRUN;
#if KYMO_POSIX_LOG
	if (stream->log)
		kymop_log_status(stream, status);
#endif
}
#endif

KYMOP_EXPORT int posix_trace_get_attr(trace_id_t trid, trace_attr_t *attr)
{
	struct kymop_stream *stream;

	if (!attr)
		return EINVAL;
	kymop_lock();
	stream = kymop_find(trid);
	if (stream)
		*attr = stream->attr;
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

KYMOP_EXPORT int posix_trace_get_status(trace_id_t trid, struct posix_trace_status_info *status)
{
	struct kymop_stream *stream;

	if (!status)
		return EINVAL;
	kymop_lock();
	stream = kymop_find(trid);
	if (stream) {
		memset(status, 0, sizeof(*status));
		status->posix_stream_status = POSIX_TRACE_SUSPENDED;
#if KYMO_POSIX_RETRIEVAL
		if (stream->kind == KYMOP_OPENED)
			kymop_opened_status(stream, status);
#endif
#if KYMOP_ACTIVE
		if (stream->kind != KYMOP_OPENED)
			active_status(stream, status);
#endif
	}
	kymop_unlock();
	return stream ? 0 : EINVAL;
}
