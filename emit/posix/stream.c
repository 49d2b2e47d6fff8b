/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stream.c: the streams of this process, and what changes their state [posix.md 4]. Unit: trace
 * core. A trace id is good in the process that made the stream, until it is shut down or closed.
 */
#define _GNU_SOURCE
#include "internal.h"

struct kymop_stream kymop_streams[KYMOP_HANDLES];
static uint32_t last_serial;

/* A free handle, or null. Its trace id is one that was not given before, for 2^24 streams. */
struct kymop_stream *kymop_stream_new(void)
{
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++) {
		struct kymop_stream *stream = &kymop_streams[i];

		if (stream->kind != KYMOP_FREE)
			continue;
		memset(stream, 0, sizeof(*stream));
		last_serial = (last_serial + 1) & 0xffffff;
		stream->trid = last_serial << 8 | (i + 1);
		return stream;
	}
	return NULL;
}

void kymop_stream_free(struct kymop_stream *stream)
{
	memset(stream, 0, sizeof(*stream));
}

/* kymop_streams_forget: in a new child, which controls none of its parent's streams. */
void kymop_streams_forget(void)
{
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++)
		kymop_stream_free(&kymop_streams[i]);
}

struct kymop_stream *kymop_find(trace_id_t trid)
{
	uint32_t index = (trid & 0xff) - 1;

	if (index >= KYMOP_HANDLES || kymop_streams[index].kind == KYMOP_FREE ||
	    kymop_streams[index].trid != trid)
		return NULL;
	return &kymop_streams[index];
}

struct kymop_stream *kymop_find_active(trace_id_t trid)
{
	struct kymop_stream *stream = kymop_find(trid);

	return stream && stream->kind != KYMOP_OPENED ? stream : NULL;
}

#if KYMOP_ACTIVE
bool kymop_filters(const struct kymop_shared *shared, uint32_t id)
{
	return __atomic_load_n(&shared->filter[id / 32], __ATOMIC_RELAXED) >> id % 32 & 1;
}

#if KYMO_POSIX_HOSTED
/*
 * kymop_wants_update: what writers look at, from state and filter. Whoever changes one of them calls
 * it behind that, any number at a time: who has written something old finds a change at the end.
 * Context: any, signal handlers included.
 */
void kymop_wants_update(struct kymop_shared *shared)
{
	uint64_t state;
	uint32_t version;

	do {
		state = __atomic_load_n(&shared->state, KYMOP_SEQ_CST);
		version = __atomic_load_n(&shared->filter_version, KYMOP_SEQ_CST);
		for (uint32_t id = 1; id < KYMOP_EVENTS; id++) {
			bool is_wanted = kymop_state_of(state) == KYMOP_RUNNING &&
					 !kymop_filters(shared, id);

			__atomic_store_n(&shared->wants[id], is_wanted ? (uint16_t)id : 0,
					 __ATOMIC_RELAXED);
		}
		__atomic_thread_fence(KYMOP_SEQ_CST);
	} while (__atomic_load_n(&shared->state, KYMOP_SEQ_CST) != state ||
		 __atomic_load_n(&shared->filter_version, KYMOP_SEQ_CST) != version);
}

/* A system event of the stream itself. Only the controller writes to this lane. */
void kymop_system_event(struct kymop_stream *stream, uint16_t id, const void *data,
			uint32_t data_bytes)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	struct kymop_event event = { .id = id, .data = data, .data_bytes = data_bytes };

	if (kymop_filters(shared, id))
		return;
	event.pid = kymop_self_pid();
	event.thread = kymop_self_thread();
	kymop_lane_write(&stream->view, stream->view.lane_count - 1, &event);
}

/* What the state becomes, with the time of the change. */
static uint64_t state_word(const struct kymop_stream *stream, enum kymop_state state)
{
	return kymop_clock_read(stream->view.clock) << KYMOP_STATE_BITS | state;
}
typedef uint64_t state_t;
#else
/* One lane has all. */
void kymop_system_event(struct kymop_stream *stream, uint16_t id, const void *data,
			uint32_t data_bytes)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	struct kymop_event event = { .id = id, .data = data, .data_bytes = data_bytes };

	if (!kymop_filters(shared, id))
		kymop_lane_write(shared, &event);
}

static uint32_t state_word(const struct kymop_stream *stream, enum kymop_state state)
{
	(void)stream;
	return state;
}
typedef uint32_t state_t;
#endif

static void record_start(struct kymop_stream *stream)
{
	if (!KYMO_POSIX_EVENT_START_STOP)
		return;
#if KYMO_POSIX_FILTER
	trace_event_set_t filter;

	memcpy(&filter, kymop_shared_of(stream)->filter, sizeof(filter));
	kymop_system_event(stream, KYMOP_START, &filter, sizeof(filter));
#else
	kymop_system_event(stream, KYMOP_START, NULL, 0);
#endif
}

static bool change_state(struct kymop_stream *stream, enum kymop_state from, enum kymop_state to)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	state_t state = __atomic_load_n(&shared->state, KYMOP_ACQUIRE);
	state_t changed = state_word(stream, to);

	if (kymop_state_of(state) != from ||
	    !kymop_state_change(shared, state, changed))
		return false;
	kymop_wants_update(shared);
	return true;
}

static enum kymop_state state_now(const struct kymop_stream *stream)
{
	return kymop_state_of(__atomic_load_n(&kymop_shared_of(stream)->state, KYMOP_ACQUIRE));
}

/* kymop_restart: a stream that stopped itself, and was read to its end, goes on. */
void kymop_restart(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);

	if (state_now(stream) != KYMOP_AUTO_STOPPED)
		return;
#if KYMO_POSIX_HOSTED
	stream->gap_to = kymop_clock_ordered(stream->view.clock);
#endif
	__atomic_store_n(&shared->full, 0, __ATOMIC_RELAXED);
	record_start(stream);
	change_state(stream, KYMOP_AUTO_STOPPED, KYMOP_RUNNING);
}

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

	if (!change_state(stream, KYMOP_RUNNING, KYMOP_SUSPENDED))
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
	if (stream && state_now(stream) == KYMOP_SUSPENDED) {
		record_start(stream);
		change_state(stream, KYMOP_SUSPENDED, KYMOP_RUNNING);
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

/* kymop_create: a stream that is suspended. Errors: those of posix_trace_create(). */
int kymop_create(pid_t pid, const trace_attr_t *attr, bool with_log, struct kymop_stream **made)
{
	struct kymop_stream *stream;
	trace_attr_t defaults;
	int error = kymop_prepare();

	if (error)
		return error;
	kymop_attr_defaults(&defaults);
	if (!attr)
		attr = &defaults;
	if (!kymop_attr_is_valid(attr) ||
	    (!with_log && attr->kymo__stream_policy == KYMOP_FLUSH))
		return EINVAL;
	stream = kymop_stream_new();
	if (!stream)
		return EAGAIN;
	stream->attr = *attr;
	stream->attr.kymo__stream_policy = kymop_attr_policy(attr, with_log);
	error = kymop_memory_make(stream, pid);
	if (error) {
		kymop_stream_free(stream);
		return error;
	}
	stream->kind = with_log ? KYMOP_LOGGED : KYMOP_ONLINE;
	kymop_stream_made(stream);
	kymop_reader_begin(stream);
#if KYMOP_KERNEL
	error = stream->attr.kymo__kernel ? kymop_kernel_make(stream) : 0;
	if (error)
		kymop_destroy(stream);
#endif
	*made = stream;
	return error;
}

void kymop_destroy(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);

	__atomic_store_n(&shared->state, KYMOP_DEAD, KYMOP_SEQ_CST);
	kymop_wants_update(shared);
#if KYMOP_KERNEL
	if (stream->kernel)
		kymop_kernel_free(stream);
#endif
	kymop_memory_free(stream);
	kymop_stream_free(stream);
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
	enum kymop_state state = state_now(stream);

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
