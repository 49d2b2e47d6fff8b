/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ring.c: writes into lanes by plain code, and makes room in full ones [posix.md 3, 4]. A lane of a
 * CPU is written by the restartable sequence alone (record.c); what is here are the locked lanes,
 * the lane of system events, and moving tail. Nobody waits, and nothing is allocated.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE && KYMO_POSIX_HOSTED

/* With a new tail so much is free at least: one in so many events goes out of line. */
#define CHUNKS 16u

/* A lane that others fill as fast as room is made in it, or whose words make no sense. */
#define ATTEMPTS_MAX 10000u

static bool fits(uint64_t head, uint64_t tail, uint64_t step, uint32_t ring_bytes)
{
	return (uint32_t)(head + step) - (uint32_t)tail <= ring_bytes - KYMO_STORE_PAST;
}

bool kymop_lane_is_full(const struct kymo_ring *ring, uint64_t step, uint32_t ring_bytes)
{
	return !fits(__atomic_load_n(&ring->head, __ATOMIC_RELAXED),
		     __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE), step, ring_bytes);
}

/* Copies bytes of a lane, which may go on at its begin: nothing here needs the second mapping. */
void kymop_ring_out(const struct kymop_view *view, uint32_t lane, uint64_t from, void *to,
		    uint32_t bytes)
{
	const uint8_t *data = view->data + lane * view->stride;
	uint32_t at = (uint32_t)from & (view->ring_bytes - 1);
	uint32_t first = view->ring_bytes - at < bytes ? view->ring_bytes - at : bytes;

	memcpy(to, data + at, first);
	if (bytes > first)
		memcpy((uint8_t *)to + first, data, bytes - first);
}

static void ring_in(const struct kymop_view *view, uint32_t lane, uint64_t to, const void *from,
		    uint32_t bytes)
{
	uint8_t *data = view->data + lane * view->stride;
	uint32_t at = (uint32_t)to & (view->ring_bytes - 1);
	uint32_t first = view->ring_bytes - at < bytes ? view->ring_bytes - at : bytes;

	if (!bytes)
		return; /* from may be null */
	memcpy(data + at, from, first);
	if (bytes > first)
		memcpy(data, (const uint8_t *)from + first, bytes - first);
}

/* Where the record behind the one at position begins; head where the bytes make no sense. */
static uint64_t record_end(const struct kymop_view *view, uint32_t lane, uint64_t position,
			   uint64_t head, uint64_t *word)
{
	struct kymop_record record;
	uint32_t left = (uint32_t)(head - position);

	if (left < KYMOP_RECORD_BYTES || left > view->ring_bytes)
		return head;
	kymop_ring_out(view, lane, position, &record, sizeof(record));
	*word = record.word;
	if (record.data_bytes > left - KYMOP_RECORD_BYTES)
		return head;
	return position + kymop_step(record.data_bytes);
}

/*
 * A stream that overwrites: gives up its oldest records, until one that makes step fits. What is
 * read meanwhile may be overwritten by others; then tail has moved, and it is not used.
 */
static bool overwrite(const struct kymop_view *view, uint32_t lane, uint64_t step)
{
	struct kymop_shared *shared = view->shared;
	struct kymo_ring *ring = &view->rings[lane];
	uint32_t ring_bytes = view->ring_bytes;
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	uint64_t to = tail, first = 0, word = 0, none = 0;

	if (fits(head, tail, step, ring_bytes))
		return true;
	while ((uint32_t)to != (uint32_t)head && !fits(head, to, step + ring_bytes / CHUNKS, ring_bytes)) {
		to = record_end(view, lane, to, head, &word);
		if (!first)
			first = word;
	}
	if (!__atomic_compare_exchange_n(&ring->tail, &tail, to, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return true; /* somebody else has made room */
	__atomic_compare_exchange_n(&shared->lost_first, &none, first, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	__atomic_fetch_add(&ring->lost_full, (to - tail) >> 32, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->full, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
	return true;
}

/* The first that finds a lane full stops the stream, for all lanes: what is kept has no holes. */
static void stop_full(const struct kymop_view *view)
{
	struct kymop_shared *shared = view->shared;
	uint64_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);
	uint64_t stopped = kymop_clock_read(view->clock) << KYMOP_STATE_BITS | KYMOP_AUTO_STOPPED;

	__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
	if (kymop_state_of(state) != KYMOP_RUNNING)
		return;
	/* That it is full, the state says: a flag beside it could be set when it runs again. */
	if (__atomic_compare_exchange_n(&shared->state, &state, stopped, false, __ATOMIC_SEQ_CST,
					__ATOMIC_RELAXED))
		kymop_wants_update(shared);
}

/*
 * kymop_make_room: for a record that did not fit. False: the stream keeps what it has, and is
 * stopped; or the record is longer than the lane.
 */
bool kymop_make_room(const struct kymop_view *view, uint32_t lane, uint64_t step)
{
	if (view->policy == KYMOP_LOOP && (uint32_t)step < view->ring_bytes / 2)
		return overwrite(view, lane, step);
	stop_full(view);
	return false;
}

/* kymop_lane_write: into a lane that nobody else writes now. */
void kymop_lane_write(const struct kymop_view *view, uint32_t lane, const struct kymop_event *event)
{
	struct kymo_ring *ring = &view->rings[lane];
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	uint64_t step = kymop_step(event->data_bytes);
	struct kymop_record record = {
		.pid = event->pid,
		.thread_low = (uint32_t)event->thread,
		.thread_high = (uint32_t)(event->thread >> 32),
		.address_low = (uint32_t)event->address,
		.address_high = (uint32_t)(event->address >> 32),
		.data_bytes = (uint16_t)event->data_bytes,
		.flags = event->flags,
	};

	for (unsigned i = 0; kymop_lane_is_full(ring, step, view->ring_bytes); i++) {
		if (i == ATTEMPTS_MAX)
			__atomic_store_n(&view->shared->overrun, 1, __ATOMIC_RELAXED);
		if (i == ATTEMPTS_MAX || !kymop_make_room(view, lane, step))
			return;
	}
	record.word = kymop_clock_read(view->clock) << 16 | event->id;
	ring_in(view, lane, head, &record, sizeof(record));
	ring_in(view, lane, head + sizeof(record), event->data, event->data_bytes);
	__atomic_store_n(&ring->head, head + step, __ATOMIC_RELEASE);
}

/*
 * kymop_locked_write: into one of the lanes that belong to no CPU. Who finds one locked takes the
 * next: a handler that interrupted its owner, or another thread. The lock of a process that was
 * killed inside costs a lane, of which nothing but the unpublished record is lost.
 * Returns: false when all are locked.
 */
bool kymop_locked_write(const struct kymop_view *view, const struct kymop_event *event,
			uint32_t self)
{
	uint32_t first = view->cpu_count;
	uint32_t count = view->lane_count - 1 - first;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t lane = first + (uint32_t)(event->thread / 64 + i) % count;
		struct kymo_ring *ring = &view->rings[lane];
		uint32_t nobody = 0;

		if (__atomic_load_n(&ring->owner, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&ring->owner, &nobody, self, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		kymop_lane_write(view, lane, event);
		__atomic_store_n(&ring->owner, 0, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}
#else
typedef int kymop_no_ring; /* a file must not be empty */
#endif
