/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * log.c: streams with a log: what is recorded is written to a file, pipe or device when it is
 * flushed [posix.md 7]. Unit: trace to log. Under kymop_lock, in the controller, by one thread for a
 * stream at a time: it claims it. Records leave the stream only when there is room for them in the
 * block that is filled.
 */
#define _GNU_SOURCE
#include "log_pieces.h"

#if KYMO_POSIX_LOG

/*
 * kymop_claim: an active stream, when nobody else writes its log: flushes, ends and clears come one
 * behind the other, and no other function waits for them. Null: the stream is gone. kymop_unclaim
 * also for one that has been destroyed.
 */
struct kymop_stream *kymop_claim(trace_id_t trid)
{
	struct kymop_stream *stream;

	while ((stream = kymop_find_active(trid)) && stream->is_claimed)
		kymop_lock_wait();
	if (stream)
		stream->is_claimed = true;
	return stream;
}

void kymop_unclaim(struct kymop_stream *stream)
{
	stream->is_claimed = false;
	kymop_lock_wake();
}

static uint32_t record_bytes_max(const struct kymop_stream *stream)
{
	size_t system;

	posix_trace_attr_getmaxsystemeventsize(&stream->attr, &system);
	return (uint32_t)(stream->attr.kymo__data_bytes + KYMOP_RECORD_BYTES > system ?
				  stream->attr.kymo__data_bytes + KYMOP_RECORD_BYTES : system);
}

/* Room for any record. Without an error and without room the log is full for good. */
static int make_room(struct kymop_stream *stream, bool *has_room)
{
	struct kymop_log *log = stream->log;
	bool is_last = log->policy == KYMOP_UNTIL_FULL &&
		       log->block_sequence + 1 >= log->block_total;
	uint32_t needed = record_bytes_max(stream) +
			  (is_last ? KYMOP_RECORD_BYTES + (uint32_t)sizeof(int) : 0);

	*has_room = true;
	if (kymop_block_room(log) >= needed)
		return 0;
	if (!is_last)
		return kymop_block_next(log);
	*has_room = false;
	return log->is_full ? 0 : kymop_block_end_full(log);
}

/*
 * Moves what is recorded into blocks: at most bytes, so that a program that records faster than its
 * log is written does not hold its controller for ever.
 */
static int drain(struct kymop_stream *stream, uint64_t bytes)
{
	struct kymop_log *log = stream->log;
	struct kymop_read read;
	uint8_t *data = (uint8_t *)log->names + NAMES_BYTES + log->block_bytes;
	uint64_t moved = 0;
	bool has_room;
	int error;

	while (moved < bytes) {
		error = make_room(stream, &has_room);
		if (error)
			return error;
		if (kymop_reader_next(stream, &read, data, record_bytes_max(stream)) != KYMOP_GOT)
			return 0;
		moved += read.record.data_bytes + KYMOP_RECORD_BYTES;
		if (has_room)
			kymop_block_add(log, &read, data);
		else
			log->has_overrun = true;
	}
	return 0;
}

static uint32_t block_bytes_for(const struct kymop_stream *stream)
{
	uint32_t needed = (uint32_t)sizeof(struct kymop_chunk) + record_bytes_max(stream) +
			  KYMOP_RECORD_BYTES + (uint32_t)sizeof(int);
	uint32_t bytes = AREA_BYTES;

	while (bytes < needed)
		bytes *= 2;
	return bytes;
}

static int log_make(struct kymop_stream *stream, int file, bool can_seek)
{
	uint32_t block_bytes = block_bytes_for(stream);
	size_t bytes = sizeof(struct kymop_log) + NAMES_BYTES + block_bytes + record_bytes_max(stream);
	struct kymop_log *log = kymop_alloc(bytes);

	if (!log)
		return ENOMEM;
	memset(log, 0, sizeof(*log));
	log->alloc_bytes = bytes;
	log->file = file;
	log->can_seek = can_seek;
	log->policy = stream->attr.kymo__log_policy;
	log->block_bytes = block_bytes;
	if (log->policy != KYMOP_APPEND) {
		log->block_total = stream->attr.kymo__log_bytes / block_bytes;
		if (log->block_total < 2)
			log->block_total = 2;
	}
	log->names = (struct kymop_chunk *)(void *)(log + 1);
	log->block = (struct kymop_chunk *)(void *)((uint8_t *)log->names + NAMES_BYTES);
	stream->log = log;
	return kymop_log_begin(stream);
}

static void log_free(struct kymop_stream *stream)
{
	if (stream->log)
		kymop_free(stream->log, stream->log->alloc_bytes);
	stream->log = NULL;
}

/* Everything that is in the stream, to the file. */
static int flush_now(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;
	uint64_t bytes = 2ull * stream->view.ring_bytes * stream->view.lane_count;
	int error;

	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_START, NULL, 0);
	error = kymop_log_resume(log);
	if (!error)
		error = kymop_names_write(stream);
	if (!error)
		error = drain(stream, bytes);
	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_STOP, NULL, 0);
	if (!error)
		error = drain(stream, bytes);
	if (!error)
		error = log->can_seek ? kymop_block_write(log) : kymop_block_next(log);
	/* Of events that came up meanwhile. */
	return error ? error : kymop_names_write(stream);
}

/* kymop_log_flush: 0; ENOSPC, EFBIG, or what else the file says. */
int kymop_log_flush(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;
	int error;

	log->is_flushing = true;
	error = flush_now(stream);
	if (!error)
		error = kymop_end_write(stream, false);
	log->is_flushing = false;
	log->flushed_at = kymop_clock_read(stream->base.clock);
	/* The first one, until it is told: a flusher tries again and again. */
	if (error && !log->flush_error) {
		log->flush_error = error;
		kymop_system_event(stream, KYMOP_ERROR, &error, sizeof(error));
	}
	return error;
}

/* kymop_log_end: the stream is stopped: the rest, and the end. The log is free whatever happens. */
int kymop_log_end(struct kymop_stream *stream)
{
	int error = flush_now(stream);

	if (!error)
		error = kymop_end_write(stream, true);
	log_free(stream);
	return error;
}

int kymop_log_clear(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;

	/* What a pipe has the begin of cannot be taken back. */
	if (!log->sending)
		kymop_block_begin(log);
	return log->can_seek ? kymop_log_begin(stream) : 0;
}

void kymop_log_status(struct kymop_stream *stream, struct posix_trace_status_info *status)
{
	struct kymop_log *log = stream->log;

	if (log->is_flushing)
		status->posix_stream_flush_status = POSIX_TRACE_FLUSHING;
	status->posix_stream_flush_error = log->flush_error;
	if (log->has_overrun)
		status->posix_log_overrun_status = POSIX_TRACE_OVERRUN;
	if (log->is_full)
		status->posix_log_full_status = POSIX_TRACE_FULL;
	if (status->posix_stream_overrun_status == POSIX_TRACE_OVERRUN)
		log->ever |= KYMOP_EVER_STREAM;
	if (log->has_overrun)
		log->ever |= KYMOP_EVER_LOG;
	log->flush_error = 0;
	log->has_overrun = false;
}

/*
 * kymop_log_is_due: a stream that is flushed by itself has a quarter of a lane full, is stopped
 * because it is full, or was not flushed for idle_stamps.
 */
bool kymop_log_is_due(struct kymop_stream *stream, uint64_t idle_stamps)
{
	const struct kymop_shared *shared = kymop_shared_of(stream);
	bool has_some = false;

	if (stream->view.policy != KYMOP_FLUSH)
		return false;
	if (kymop_state_of(__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE)) == KYMOP_AUTO_STOPPED)
		return true;
#if KYMOP_KERNEL
	if (stream->kernel && kymop_kernel_is_due(stream->kernel))
		return true;
	has_some = stream->kernel != NULL;
#endif
	for (uint32_t lane = 0; lane < stream->view.lane_count; lane++) {
		const struct kymo_ring *ring = &stream->view.rings[lane];
		uint32_t used = (uint32_t)__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) -
				(uint32_t)__atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

		if (used > stream->view.ring_bytes / 4)
			return true;
		has_some |= used != 0;
	}
	return has_some &&
	       kymop_clock_read(stream->base.clock) - stream->log->flushed_at > idle_stamps;
}

KYMOP_EXPORT int posix_trace_create_withlog(pid_t pid, const trace_attr_t *restrict attr, int log,
					    trace_id_t *restrict trid)
{
	int policy = kymop_attr_is_valid(attr) ? attr->kymo__log_policy : KYMOP_LOOP;
	struct kymop_stream *stream;
	bool can_seek;
	int error;

	if (!trid)
		return EINVAL;
	error = kymop_file_check(log, policy, &can_seek);
	if (error)
		return error;
	kymop_lock();
	error = kymop_create(pid, attr, true, &stream);
	if (!error) {
		stream->is_claimed = true;
		error = log_make(stream, log, can_seek);
		if (!error && stream->attr.kymo__stream_policy == KYMOP_FLUSH)
			error = kymop_flusher_start(stream->trid);
		if (error) {
			log_free(stream);
			kymop_destroy(stream);
		} else {
			*trid = stream->trid;
		}
		kymop_unclaim(stream);
	}
	kymop_unlock();
	return error;
}

KYMOP_EXPORT int posix_trace_flush(trace_id_t trid)
{
	struct kymop_stream *stream;
	int error = EINVAL;

	kymop_lock();
	stream = kymop_claim(trid);
	if (stream && stream->log)
		error = kymop_log_flush(stream);
	if (stream)
		kymop_unclaim(stream);
	kymop_unlock();
	return error;
}
#else
typedef int kymop_no_log_unit; /* a file must not be empty */
#endif
