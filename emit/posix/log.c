/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * log.c: streams with a log: what is recorded is written to a file, pipe or device when it is
 * flushed [posix.md 7]. Unit: trace to log. Under kymop_lock, in the controller. Records leave the
 * stream only when there is room for them in the block that is filled.
 */
#define _GNU_SOURCE
#include "chunk.h"

#if KYMO_POSIX_LOG

#define AREA_BYTES 4096u
#define ONE_NAME_BYTES (sizeof(struct kymop_log_name) + KYMO_POSIX_EVENT_NAME_BYTES)
/* All names, of the system's events, too. */
#define NAMES_BYTES                                                                                \
	((sizeof(struct kymop_chunk) + KYMOP_EVENTS * ONE_NAME_BYTES + AREA_BYTES - 1) /           \
	 AREA_BYTES * AREA_BYTES)

struct kymop_log {
	int file;
	bool can_seek;
	int policy;
	bool is_full;	  /* UNTIL_FULL: nothing more goes in. LOOP: it has gone round */
	bool has_overrun;
	bool is_flushing;
	int flush_error; /* the first, until it is told */
	uint64_t log;	 /* identity */
	uint64_t block_sequence, names_sequence, end_sequence;
	uint32_t names_written;
	uint64_t block_total; /* blocks that fit; 0: any number */
	uint64_t stamp_last;
	uint64_t flushed_at; /* stamp */
	uint32_t block_bytes;
	size_t alloc_bytes;
	struct kymop_chunk *names; /* NAMES_BYTES */
	struct kymop_chunk *block; /* being filled: block_bytes */
};

/* Where things stand in a file: head, two copies of names and of the end by turns, blocks. */
enum place {
	HEAD_AT = 0,
	NAMES_AT = AREA_BYTES,
	END_AT = NAMES_AT + 2 * NAMES_BYTES,
	BLOCKS_AT = END_AT + 2 * AREA_BYTES,
};

static void chunk_begin(struct kymop_log *log, struct kymop_chunk *chunk, uint32_t type,
			uint64_t sequence)
{
	memset(chunk, 0, sizeof(*chunk));
	chunk->magic = KYMOP_CHUNK_MAGIC;
	chunk->type = type;
	chunk->log = log->log;
	chunk->sequence = sequence;
}

/* At its place, where the log has places, padded to area_bytes; else behind what is there. */
static int chunk_write(struct kymop_log *log, struct kymop_chunk *chunk, uint64_t at,
		       uint32_t area_bytes)
{
	uint32_t bytes = (uint32_t)sizeof(*chunk) + (chunk->used + 7) / 8 * 8;

	chunk->bytes = log->can_seek ? area_bytes : bytes;
	kymop_chunk_seal(chunk);
	return kymop_file_write(log->file, log->can_seek ? at : UINT64_MAX, chunk, chunk->bytes);
}

static void block_begin(struct kymop_log *log)
{
	memset(log->block, 0, log->block_bytes);
	chunk_begin(log, log->block, KYMOP_EVENTS_CHUNK, log->block_sequence);
}

static uint32_t block_room(const struct kymop_log *log)
{
	return log->block_bytes - (uint32_t)sizeof(*log->block) - log->block->used;
}

static int block_write(struct kymop_log *log)
{
	uint64_t index = log->block_sequence;

	if (!log->block->records)
		return 0;
	if (log->block_total)
		index %= log->block_total;
	return chunk_write(log, log->block, BLOCKS_AT + index * log->block_bytes, log->block_bytes);
}

/* The block is full, or a pipe must have it: the next one. */
static int block_next(struct kymop_log *log)
{
	int error = block_write(log);

	if (error)
		return error;
	if (log->block->records)
		log->block_sequence++;
	if (log->block_total && log->block_sequence >= log->block_total &&
	    log->policy == KYMOP_LOOP) {
		log->is_full = true;
		log->has_overrun = true;
	}
	block_begin(log);
	return 0;
}

/* Stamps do not go back in a log: so each is known from the one before. */
static void block_add(struct kymop_log *log, const struct kymop_read *read, const void *data)
{
	struct kymop_record record = read->record;
	uint64_t stamp = read->stamp < log->stamp_last ? log->stamp_last : read->stamp;
	uint8_t *to = (uint8_t *)(log->block + 1) + log->block->used;

	if (!log->block->records)
		log->block->stamp = stamp;
	log->stamp_last = stamp;
	record.word = stamp << 16 | (uint16_t)record.word;
	memcpy(to, &record, sizeof(record));
	memcpy(to + sizeof(record), data, record.data_bytes);
	log->block->used += (uint32_t)sizeof(record) + record.data_bytes;
	log->block->records++;
}

/* The last record of a log that is full. Room for it was kept. */
static int end_full(struct kymop_log *log)
{
	static const int is_automatic = 1;
	struct kymop_read stop = { .stamp = log->stamp_last };

	if (KYMO_POSIX_EVENT_START_STOP) {
		stop.record.word = KYMOP_STOP;
		stop.record.data_bytes = sizeof(is_automatic);
		block_add(log, &stop, &is_automatic);
	}
	log->is_full = true;
	return block_write(log);
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
	if (block_room(log) >= needed)
		return 0;
	if (!is_last)
		return block_next(log);
	*has_room = false;
	return log->is_full ? 0 : end_full(log);
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
			block_add(log, &read, data);
		else
			log->has_overrun = true;
	}
	return 0;
}

/* A name in two parts. */
static void names_add(struct kymop_chunk *chunk, uint32_t id, const char *prefix, const char *name)
{
	size_t before = strlen(prefix), length = strnlen(name, KYMO_POSIX_EVENT_NAME_BYTES - before);
	struct kymop_log_name head = { (uint16_t)id, (uint16_t)(before + length) };
	uint8_t *to = (uint8_t *)(chunk + 1) + chunk->used;

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), prefix, before);
	memcpy(to + sizeof(head) + before, name, length);
	chunk->used += (uint32_t)sizeof(head) + head.bytes;
	chunk->records++;
}

/* The names, where there are new ones. */
static int names_write(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;
	uint32_t count = __atomic_load_n(&stream->names->count, __ATOMIC_ACQUIRE);
	int error;

	if (count == log->names_written)
		return 0;
	memset(log->names, 0, NAMES_BYTES);
	chunk_begin(log, log->names, KYMOP_NAMES, log->names_sequence);
	for (uint32_t id = 1; id <= KYMOP_SYSTEM_LAST; id++)
		if (kymop_system_exists(id))
			names_add(log->names, id, KYMOP_NAME_PREFIX, kymop_system_name(id));
	names_add(log->names, KYMOP_USER_FIRST, KYMOP_NAME_PREFIX, "unnamed_userevent");
	for (uint32_t i = 1; i < count && i < KYMO_POSIX_USER_EVENT_COUNT; i++)
		names_add(log->names, KYMOP_USER_FIRST + i, "", stream->names->name[i]);
	error = chunk_write(log, log->names, NAMES_AT + log->names_sequence % 2 * NAMES_BYTES,
			    NAMES_BYTES);
	if (!error) {
		log->names_written = count;
		log->names_sequence++;
	}
	return error;
}

/* How it stands, over the one before the last. A pipe gets it once, at the end. */
static int end_write(struct kymop_stream *stream, bool is_final)
{
	struct kymop_log *log = stream->log;
	const struct kymop_shared *shared = kymop_shared(stream->slot);
	struct kymop_chunk *chunk = log->names;
	struct kymop_log_end end;
	int error;

	if (!log->can_seek && !is_final)
		return 0;
	memset(chunk, 0, AREA_BYTES);
	chunk_begin(log, chunk, KYMOP_END, log->end_sequence);
	kymop_clock_update(&stream->base);
	memset(&end, 0, sizeof(end));
	end.stamp = stream->base.end_stamp;
	end.real_ns = stream->base.end_real_ns;
	end.status = POSIX_TRACE_SUSPENDED;
	end.full = (int32_t)__atomic_load_n(&shared->full, __ATOMIC_RELAXED);
	end.overrun = (int32_t)__atomic_load_n(&shared->overrun, __ATOMIC_RELAXED);
	end.flush_error = log->flush_error;
	end.log_overrun = log->has_overrun;
	end.log_full = log->is_full;
	end.is_final = is_final;
	memcpy(chunk + 1, &end, sizeof(end));
	chunk->used = sizeof(end);
	error = chunk_write(log, chunk, END_AT + log->end_sequence % 2 * AREA_BYTES, AREA_BYTES);
	if (!error)
		log->end_sequence++;
	return error;
}

static int head_write(struct kymop_stream *stream, const uint64_t uuid[2])
{
	const trace_attr_t *attr = &stream->attr;
	struct kymop_log *log = stream->log;
	struct kymop_log_head head;

	memset(log->names, 0, AREA_BYTES);
	memset(&head, 0, sizeof(head));
	chunk_begin(log, log->names, KYMOP_HEAD, 0);
	head.version = KYMOP_LOG_VERSION;
	head.clock = stream->base.clock;
	memcpy(head.uuid, uuid, sizeof(head.uuid));
	head.stamp = stream->base.stamp;
	head.real_ns = head.created_ns = stream->base.real_ns;
	head.stream_bytes = attr->kymo__stream_bytes;
	head.data_bytes = attr->kymo__data_bytes;
	head.log_bytes = attr->kymo__log_bytes;
	head.stream_policy = attr->kymo__stream_policy;
	head.log_policy = attr->kymo__log_policy;
	head.inherited = attr->kymo__inherited;
	head.resolution_ns = (uint32_t)attr->kymo__resolution.tv_nsec;
	head.event_set_bytes = (KYMOP_EVENTS + 31) / 32 * 4;
	head.target = (uint32_t)kymop_shared(stream->slot)->target;
	memcpy(head.name, attr->kymo__name, strlen(attr->kymo__name));
	memcpy(head.version_text, attr->kymo__version, strlen(attr->kymo__version));
	memcpy(log->names + 1, &head, sizeof(head));
	log->names->used = sizeof(head);
	return chunk_write(log, log->names, HEAD_AT, AREA_BYTES);
}

/* A log that can be opened, with nothing in it. */
static int log_begin(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;
	uint64_t uuid[2];
	int error = log->can_seek ? kymop_file_cut(log->file, 0) : 0;

	if (error)
		return error;
	kymop_uuid(uuid);
	log->log = uuid[0] ^ uuid[1];
	log->block_sequence = 0;
	log->names_written = 0;
	log->is_full = log->has_overrun = false;
	block_begin(log);
	error = head_write(stream, uuid);
	if (!error)
		error = names_write(stream);
	return error ? error : end_write(stream, false);
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
	return log_begin(stream);
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
	const struct kymop_shared *shared = kymop_shared(stream->slot);
	uint64_t bytes = 2ull * shared->ring_bytes * shared->lane_count;
	int error;

	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_START, NULL, 0);
	error = names_write(stream);
	if (!error)
		error = drain(stream, bytes);
	if (KYMO_POSIX_EVENT_FLUSH)
		kymop_system_event(stream, KYMOP_FLUSH_STOP, NULL, 0);
	if (!error)
		error = drain(stream, bytes);
	if (!error)
		error = log->can_seek ? block_write(log) : block_next(log);
	/* Of events that came up meanwhile. */
	return error ? error : names_write(stream);
}

/* kymop_log_flush: 0; ENOSPC, EFBIG, or what else the file says. */
int kymop_log_flush(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;
	int error;

	log->is_flushing = true;
	error = flush_now(stream);
	if (!error)
		error = end_write(stream, false);
	log->is_flushing = false;
	log->flushed_at = kymop_clock_read(stream->base.clock);
	if (error && !log->flush_error)
		log->flush_error = error;
	return error;
}

/* kymop_log_end: the stream is stopped: the rest, and the end. The log is free whatever happens. */
int kymop_log_end(struct kymop_stream *stream)
{
	int error = flush_now(stream);

	if (!error)
		error = end_write(stream, true);
	log_free(stream);
	return error;
}

int kymop_log_clear(struct kymop_stream *stream)
{
	struct kymop_log *log = stream->log;

	block_begin(log);
	return log->can_seek ? log_begin(stream) : 0;
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
	log->flush_error = 0;
	log->has_overrun = false;
}

/*
 * kymop_log_is_due: a stream that is flushed by itself has a quarter of a lane full, is stopped
 * because it is full, or was not flushed for idle_stamps.
 */
bool kymop_log_is_due(struct kymop_stream *stream, uint64_t idle_stamps)
{
	const struct kymop_shared *shared = kymop_shared(stream->slot);
	bool has_some = false;

	if (shared->policy != KYMOP_FLUSH)
		return false;
	if (kymop_state_of(__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE)) == KYMOP_AUTO_STOPPED)
		return true;
	for (uint32_t lane = 0; lane < shared->lane_count; lane++) {
		const struct kymo_ring *ring = &stream->view.rings[lane];
		uint32_t used = (uint32_t)__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) -
				(uint32_t)__atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

		if (used > shared->ring_bytes / 4)
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
		error = log_make(stream, log, can_seek);
		if (!error && stream->attr.kymo__stream_policy == KYMOP_FLUSH)
			error = kymop_flusher_need();
		if (error) {
			log_free(stream);
			kymop_destroy(stream);
		} else {
			*trid = stream->trid;
		}
	}
	kymop_unlock();
	return error;
}

KYMOP_EXPORT int posix_trace_flush(trace_id_t trid)
{
	struct kymop_stream *stream;
	int error = EINVAL;

	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream && stream->log)
		error = kymop_log_flush(stream);
	kymop_unlock();
	return error;
}
#else
typedef int kymop_no_log_unit; /* a file must not be empty */
#endif
