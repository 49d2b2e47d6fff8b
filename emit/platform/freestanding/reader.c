/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * reader.c: the records of a stream in their order, and what is reported between them: overflow and
 * resume, the automatic stop [posix.md 4, target.md 2.3]. Under kymop_lock.
 */
#include "../../posix/internal.h"

#if KYMOP_ACTIVE

void kymop_reader_clear(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared(stream->slot);
	uint32_t tail;

	do
		tail = kymop_load(&shared->tail);
	while (!kymop_cas(&shared->tail, tail, kymop_load(&shared->head)));
	shared->overflow = KYMOP_NO_OVERFLOW;
	stream->is_resume_due = false;
}

/* Something that the lane does not have: its time is borrowed. */
static void make(struct kymop_read *read, uint32_t id, uint64_t stamp)
{
	memset(&read->record, 0, sizeof(read->record));
	read->record.word = stamp << 16 | id;
	read->stamp = stamp;
}

/* A stamp in full. The clock is read behind what it is held against, so that it is not older. */
static uint64_t extend(uint64_t word)
{
	uint64_t now = kymo_target_clock();

	return now - ((now - (word >> 16)) & KYMOP_STAMP_MASK);
}

#if KYMO_POSIX_EVENT_OVERFLOW
/* Overflow with the time of the first record lost, resume with that of the first one behind. */
static bool report_loss(struct kymop_stream *stream, struct kymop_shared *shared,
			struct kymop_read *read)
{
	uint64_t next = read->stamp, lost;

	if (!stream->is_resume_due) {
		if (kymop_load(&shared->overflow) != KYMOP_OVERFLOW_KNOWN)
			return false;
		lost = extend(shared->overflow_word);
		kymop_fence();
		shared->overflow = KYMOP_NO_OVERFLOW;
		stream->is_resume_due = true;
		if (!kymop_filters(shared, KYMOP_OVERFLOW)) {
			/* More may have been lost behind a resume that was told already. */
			if (lost < stream->stamp_last || lost > next)
				lost = stream->stamp_last;
			make(read, KYMOP_OVERFLOW, lost);
			return true;
		}
	}
	stream->is_resume_due = false;
	stream->stamp_last = next;
	if (kymop_filters(shared, KYMOP_RESUME))
		return false;
	make(read, KYMOP_RESUME, next);
	return true;
}
#endif

/* All that was recorded has been read. A stream that stopped itself says so, and goes on. */
static enum kymop_got at_end(struct kymop_stream *stream, struct kymop_shared *shared,
			     struct kymop_read *read, void *data, uint32_t bytes)
{
	static const int is_automatic = 1;

	if (kymop_load(&shared->state) != KYMOP_AUTO_STOPPED) {
		shared->full = 0;
		return KYMOP_NOTHING;
	}
	/* A record that is being written is older than the stop, and comes first. */
	if (kymop_load(&shared->inside))
		return KYMOP_NOTHING;
	make(read, KYMOP_STOP, kymo_target_clock());
	kymop_restart(stream);
	if (!KYMO_POSIX_EVENT_START_STOP || kymop_filters(shared, KYMOP_STOP))
		return KYMOP_NOTHING;
	read->record.data_bytes = sizeof(is_automatic);
	if (bytes)
		memcpy(data, &is_automatic, bytes < sizeof(is_automatic) ? bytes : sizeof(is_automatic));
	return KYMOP_GOT;
}

/*
 * kymop_reader_next: the next record, with bytes of its data at most. What is copied while somebody
 * overwrites it is not used: tail has moved then.
 */
enum kymop_got kymop_reader_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes)
{
	struct kymop_shared *shared = kymop_shared(stream->slot);

	for (;;) {
		uint32_t tail = kymop_load(&shared->tail), stored;

		read->lost = kymop_load(&shared->lost);
		if (tail == kymop_load(&shared->head))
			return at_end(stream, shared, read, data, bytes);
		kymop_lane_out(shared, tail, &read->record, KYMOP_RECORD_BYTES);
		stored = read->record.data_bytes;
		kymop_lane_out(shared, tail + KYMOP_RECORD_BYTES, data, stored < bytes ? stored : bytes);
		kymop_fence();
		read->stamp = extend(read->record.word);
#if KYMO_POSIX_EVENT_OVERFLOW
		if (kymop_load(&shared->tail) == tail && report_loss(stream, shared, read))
			return KYMOP_GOT;
#endif
		if (kymop_cas(&shared->tail, tail, tail + kymop_record_step(stored))) {
			stream->stamp_last = read->stamp;
			return KYMOP_GOT;
		}
	}
}
#endif

/* kymop_report: what the caller sees of a record. Times are of the target's clock. */
void kymop_report(struct kymop_stream *stream, const struct kymop_read *read, size_t bytes,
		  struct posix_trace_event_info *event)
{
	(void)stream;
	event->posix_event_id = (uint16_t)read->record.word;
	event->posix_pid = KYMOP_PID;
	event->posix_prog_address = (void *)(uintptr_t)read->record.address;
	event->posix_thread_id = (pthread_t)read->record.thread;
	kymop_time_of(read->stamp, &event->posix_timestamp);
	event->posix_truncation_status = POSIX_TRACE_NOT_TRUNCATED;
	if (read->record.flags & KYMOP_TRUNCATED)
		event->posix_truncation_status = POSIX_TRACE_TRUNCATED_RECORD;
	if (bytes < read->record.data_bytes)
		event->posix_truncation_status = POSIX_TRACE_TRUNCATED_READ;
}
