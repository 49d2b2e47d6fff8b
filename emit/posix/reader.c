/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * reader.c: the records of an active stream, merged from its lanes in the order of time, and what
 * is reported between them: overflow and resume, the automatic stop [posix.md 4]. Under
 * kymop_lock. Trusts nothing that a writer could have left in a lane.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE

/* A stamp that is newer than the watermark is so by less than this. */
#define NEWER_MAX (1ull << 40)

/* A lane whose tail moves whenever we look, or never makes sense: the next look tells. */
#define ATTEMPTS_MAX 10000u

/* A stamp's upper bits: it is near the watermark, or less than 2^48 older. */
static uint64_t extend(uint64_t watermark, uint64_t word)
{
	uint64_t newer = ((word >> 16) - watermark) & KYMOP_STAMP_MASK;

	if (newer < NEWER_MAX)
		return watermark + newer;
	return watermark - ((watermark - (word >> 16)) & KYMOP_STAMP_MASK);
}

/* What is published now. The time is taken before: later ones may depend on what is missed. */
static void look(struct kymop_stream *stream)
{
	stream->watermark = kymop_clock_ordered(stream->view.clock);
	for (uint32_t lane = 0; lane < stream->view.lane_count; lane++)
		stream->cursors[lane].head =
			__atomic_load_n(&stream->view.rings[lane].head, __ATOMIC_ACQUIRE);
#if KYMOP_KERNEL
	/* Behind the heads: what an event in a lane depends on has been published by now. */
	if (stream->kernel)
		kymop_kernel_look(stream->kernel);
#endif
}

/* A lane whose words make no sense is given up to its head. */
static void skip_damaged(struct kymop_stream *stream, uint32_t lane, uint64_t tail)
{
	__atomic_compare_exchange_n(&stream->view.rings[lane].tail, &tail,
				    stream->cursors[lane].head, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
}

static bool is_plausible(const struct kymop_record *record, uint32_t left)
{
	uint16_t id = (uint16_t)record->word;

	if (record->data_bytes > left - KYMOP_RECORD_BYTES)
		return false;
	if (id >= KYMOP_USER_FIRST)
		return id < KYMOP_EVENTS;
	return id && id <= KYMOP_SYSTEM_LAST && record->data_bytes <= KYMOP_OWN_DATA_MAX;
}

/*
 * A writer that was interrupted since the stream in its slot was another one may have recorded more
 * than this one takes.
 */
static void cut(struct kymop_read *read, uint32_t data_max)
{
	read->stored_bytes = read->record.data_bytes;
	if ((uint16_t)read->record.word < KYMOP_USER_FIRST || read->stored_bytes <= data_max)
		return;
	read->record.data_bytes = (uint16_t)data_max;
	read->record.flags |= KYMOP_TRUNCATED;
}

/*
 * The oldest record of a lane into its cursor. Where records of the lane were overwritten since the
 * last time, nothing of another lane that is older than this one counts any more: what is kept is
 * the end of what was recorded, whatever CPUs it came from.
 */
static void load(struct kymop_stream *stream, uint32_t lane)
{
	struct kymop_cursor *cursor = &stream->cursors[lane];
	struct kymo_ring *ring = &stream->view.rings[lane];

	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		uint64_t lost = __atomic_load_n(&ring->lost_full, __ATOMIC_ACQUIRE);
		uint32_t left = (uint32_t)(cursor->head - tail);

		if (tail == cursor->head || left > stream->view.ring_bytes)
			return; /* nothing, or overtaken: the next look tells */
		cursor->next.record.word = 0;
		if (left >= KYMOP_RECORD_BYTES)
			kymop_ring_out(&stream->view, lane, tail, &cursor->next.record,
				       KYMOP_RECORD_BYTES);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&ring->tail, __ATOMIC_RELAXED) != tail)
			continue;
		if (left < KYMOP_RECORD_BYTES || !is_plausible(&cursor->next.record, left)) {
			skip_damaged(stream, lane, tail);
			return;
		}
		cut(&cursor->next, stream->view.data_max);
		cursor->tail = tail;
		cursor->next.lane = lane;
		cursor->next.stamp = extend(stream->watermark, cursor->next.record.word);
		cursor->has_next = true;
		if (lost != cursor->lost) {
			cursor->lost = lost;
			if (cursor->next.stamp > stream->floor)
				stream->floor = cursor->next.stamp;
		}
		return;
	}
}

#if KYMOP_KERNEL
/* Behind the lanes: lane_count is none, and this are the kernel's rings. */
static uint32_t kernel_lane(const struct kymop_stream *stream)
{
	return stream->view.lane_count + 1;
}

/*
 * Rings of the kernel overwrite their oldest events. Of a stream that does so, too, nothing older
 * than what is left counts any more; of any other one the hole is reported.
 */
static void note_kernel_loss(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	uint64_t before, behind, none = 0;

	if (!kymop_kernel_loss(stream->kernel, &before, &behind))
		return;
	__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&shared->lost_first, &none, before << 16 | KYMOP_OVERFLOW, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (stream->view.policy == KYMOP_LOOP && behind > stream->floor)
		stream->floor = behind;
}

static bool kernel_is_older(struct kymop_stream *stream, uint64_t stamp)
{
	uint64_t next;
	bool is_older = stream->kernel && kymop_kernel_peek(stream->kernel, &next) && next < stamp &&
			next <= stream->watermark;

	if (stream->kernel)
		note_kernel_loss(stream);
	return is_older;
}
#endif

/* The lane of the oldest record that was published at the last look, or lane_count. */
static uint32_t oldest(struct kymop_stream *stream)
{
	uint32_t best = stream->view.lane_count;
	uint64_t stamp = UINT64_MAX;

	for (uint32_t lane = 0; lane < stream->view.lane_count; lane++) {
		struct kymop_cursor *cursor = &stream->cursors[lane];

		if (!cursor->has_next)
			load(stream, lane);
		/* One that is newer than the look waits for the next: others may be missing. */
		if (cursor->has_next && cursor->next.stamp < stamp &&
		    cursor->next.stamp <= stream->watermark) {
			stamp = cursor->next.stamp;
			best = lane;
		}
	}
#if KYMOP_KERNEL
	if (kernel_is_older(stream, stamp))
		best = kernel_lane(stream);
#endif
	return best;
}

/* Copies the data, and frees the record. False: it was overwritten meanwhile. */
static bool take(struct kymop_stream *stream, uint32_t lane, void *data, uint32_t bytes)
{
	struct kymop_cursor *cursor = &stream->cursors[lane];
	struct kymo_ring *ring = &stream->view.rings[lane];
	uint64_t tail = cursor->tail;
	uint64_t to = tail + kymop_step(cursor->next.stored_bytes);

	if (bytes > cursor->next.record.data_bytes)
		bytes = cursor->next.record.data_bytes;
	if (bytes)
		kymop_ring_out(&stream->view, lane, tail + KYMOP_RECORD_BYTES, data, bytes);
	cursor->has_next = false;
	if (stream->view.policy != KYMOP_LOOP) {
		__atomic_store_n(&ring->tail, to, __ATOMIC_RELEASE);
		return true;
	}
	return __atomic_compare_exchange_n(&ring->tail, &tail, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* Older than what was overwritten in another lane, or written while the stream was full. */
static bool is_void(const struct kymop_stream *stream, const struct kymop_read *read)
{
	if (read->stamp < stream->floor)
		return true;
	return (uint16_t)read->record.word > KYMOP_FLUSH_STOP &&
	       read->stamp > stream->gap_from && read->stamp < stream->gap_to;
}

/* Something that no lane has: its time is borrowed. */
static void make(struct kymop_read *read, uint16_t id, uint64_t stamp)
{
	memset(read, 0, sizeof(*read));
	read->record.word = stamp << 16 | id;
	read->stamp = stamp;
}

/* Overflow with the time of the first record lost, resume with that of the first one behind. */
static bool report_loss(struct kymop_stream *stream, struct kymop_shared *shared,
			uint64_t next_stamp, struct kymop_read *read)
{
	bool is_resume = stream->is_resume_due;
	uint64_t lost, word;

	if (!KYMO_POSIX_EVENT_OVERFLOW)
		return false;
	if (!is_resume) {
		if (!__atomic_load_n(&shared->lost_first, __ATOMIC_RELAXED))
			return false;
		word = __atomic_exchange_n(&shared->lost_first, 0, __ATOMIC_RELAXED);
		lost = extend(stream->watermark, word);
		stream->is_resume_due = true;
		if (!kymop_filters(shared, KYMOP_OVERFLOW)) {
			make(read, KYMOP_OVERFLOW, lost < next_stamp ? lost : next_stamp);
			return true;
		}
	}
	stream->is_resume_due = false;
	if (kymop_filters(shared, KYMOP_RESUME))
		return false;
	make(read, KYMOP_RESUME, next_stamp);
	return true;
}

/*
 * All that was recorded has been read. A stream that stopped itself reports that, and goes on: the
 * next record stands behind its start.
 */
static enum kymop_got at_end(struct kymop_stream *stream, struct kymop_shared *shared,
			     struct kymop_read *read, void *data, uint32_t bytes)
{
	uint64_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);
	static const int is_automatic = 1;
	bool is_reported = KYMO_POSIX_EVENT_START_STOP && !kymop_filters(shared, KYMOP_STOP);

	if (kymop_state_of(state) != KYMOP_AUTO_STOPPED) {
		__atomic_store_n(&shared->full, 0, __ATOMIC_RELAXED);
		return KYMOP_NOTHING;
	}
	stream->gap_from = extend(stream->watermark, state >> KYMOP_STATE_BITS << 16);
	kymop_restart(stream);
	if (!is_reported)
		return KYMOP_NOTHING;
	make(read, KYMOP_STOP, stream->gap_from);
	read->record.data_bytes = sizeof(is_automatic);
	if (bytes)
		memcpy(data, &is_automatic, bytes < sizeof(is_automatic) ? bytes : sizeof(is_automatic));
	return KYMOP_GOT;
}

#if KYMOP_KERNEL
/*
 * The kernel's oldest event. False: it is not given. One that came while the stream had stopped
 * itself is lost, as one of a lane would be.
 */
static bool take_kernel(struct kymop_stream *stream, struct kymop_shared *shared,
			struct kymop_read *read, void *data, uint32_t bytes)
{
	uint64_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);
	uint64_t stopped = extend(stream->watermark, state >> KYMOP_STATE_BITS << 16);

	if (!kymop_kernel_take(stream->kernel, read, data, bytes))
		return false;
	if (!is_void(stream, read) &&
	    (kymop_state_of(state) != KYMOP_AUTO_STOPPED || read->stamp <= stopped))
		return true;
	__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
	return false;
}

/* The next one; or nothing, and what is missing in front of it was reported. */
static bool next_kernel(struct kymop_stream *stream, struct kymop_shared *shared,
			struct kymop_read *read, void *data, uint32_t bytes)
{
	uint64_t stamp;

	if (kymop_kernel_peek(stream->kernel, &stamp) && stamp >= stream->floor &&
	    report_loss(stream, shared, stamp, read))
		return true;
	return take_kernel(stream, shared, read, data, bytes);
}
#endif

/*
 * kymop_reader_next: the next record, with bytes of its data at most. What was published at the
 * last look comes without another one.
 */
enum kymop_got kymop_reader_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes)
{
	struct kymop_shared *shared = kymop_shared_of(stream);
	bool has_looked = false;

	for (;;) {
		uint32_t lane = oldest(stream);
		struct kymop_cursor *cursor = &stream->cursors[lane];

#if KYMOP_KERNEL
		if (lane == kernel_lane(stream)) {
			if (next_kernel(stream, shared, read, data, bytes))
				return KYMOP_GOT;
			continue;
		}
#endif
		if (lane == stream->view.lane_count) {
			if (has_looked)
				return at_end(stream, shared, read, data, bytes);
			look(stream);
			has_looked = true;
			continue;
		}
		if (is_void(stream, &cursor->next)) {
			__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
			take(stream, lane, NULL, 0);
			continue;
		}
		if (report_loss(stream, shared, cursor->next.stamp, read))
			return KYMOP_GOT;
		*read = cursor->next;
		if (take(stream, lane, data, bytes)) {
			__atomic_store_n(&shared->full, 0, __ATOMIC_RELAXED);
			return KYMOP_GOT;
		}
	}
}

void kymop_reader_begin(struct kymop_stream *stream)
{
	stream->watermark = stream->base.stamp;
	stream->floor = stream->gap_from = stream->gap_to = 0;
}

/* kymop_reader_clear: nothing of what was recorded up to now is read. */
void kymop_reader_clear(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);

	look(stream);
	for (uint32_t lane = 0; lane < stream->view.lane_count; lane++) {
		struct kymop_cursor *cursor = &stream->cursors[lane];
		struct kymo_ring *ring = &stream->view.rings[lane];

		cursor->has_next = false;
		__atomic_store_n(&ring->tail, cursor->head, __ATOMIC_SEQ_CST);
		cursor->lost = __atomic_load_n(&ring->lost_full, __ATOMIC_ACQUIRE);
	}
#if KYMOP_KERNEL
	if (stream->kernel)
		kymop_kernel_clear(stream->kernel);
#endif
	stream->floor = 0;
	stream->is_resume_due = false;
	__atomic_store_n(&shared->lost_first, 0, __ATOMIC_RELAXED);
}
#endif

/* kymop_report: what the caller sees of a record. Times are of the day, and do not go back. */
void kymop_report(struct kymop_stream *stream, const struct kymop_read *read, size_t bytes,
		  struct posix_trace_event_info *event)
{
	uint64_t ns = kymop_clock_ns(&stream->base, read->stamp, stream->kind != KYMOP_OPENED);
	uint64_t thread = read->record.thread_low | (uint64_t)read->record.thread_high << 32;
	uint64_t address = read->record.address_low | (uint64_t)read->record.address_high << 32;

	if (ns < stream->time_last)
		ns = stream->time_last;
	stream->time_last = ns;
	event->posix_event_id = (uint16_t)read->record.word;
	event->posix_pid = (pid_t)read->record.pid;
	event->posix_prog_address = (void *)(uintptr_t)address;
	event->posix_thread_id = (pthread_t)(uintptr_t)thread;
	event->posix_timestamp.tv_sec = (time_t)(ns / 1000000000u);
	event->posix_timestamp.tv_nsec = (long)(ns % 1000000000u);
	event->posix_truncation_status = POSIX_TRACE_NOT_TRUNCATED;
	if (read->record.flags & KYMOP_TRUNCATED)
		event->posix_truncation_status = POSIX_TRACE_TRUNCATED_RECORD;
	if (bytes < read->record.data_bytes)
		event->posix_truncation_status = POSIX_TRACE_TRUNCATED_READ;
}
