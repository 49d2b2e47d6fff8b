/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* state.c: the state of a stream, and the events that say that it changes [posix.md 4]. Unit: trace core. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE
#if KYMO_POSIX_HOSTED
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

bool kymop_state_move(struct kymop_stream *stream, enum kymop_state from, enum kymop_state to)
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

/* kymop_run: a stream that is in a state in which it does not record begins to. */
void kymop_run(struct kymop_stream *stream, enum kymop_state from)
{
	record_start(stream);
	kymop_state_move(stream, from, KYMOP_RUNNING);
}

/* kymop_restart: a stream that stopped itself, and was read to its end, goes on. */
void kymop_restart(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);

	if (kymop_state_now(stream) != KYMOP_AUTO_STOPPED)
		return;
#if KYMO_POSIX_HOSTED
	stream->gap_to = kymop_clock_ordered(stream->view.clock);
#endif
	__atomic_store_n(&shared->full, 0, __ATOMIC_RELAXED);
	kymop_run(stream, KYMOP_AUTO_STOPPED);
}
#else
typedef int kymop_no_state; /* a file must not be empty */
#endif
