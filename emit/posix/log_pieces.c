/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * log_pieces.c: the chunks of a log: head, blocks of records, names, and how it stands [posix.md 7].
 * Unit: trace to log. Does not know when to write.
 */
#define _GNU_SOURCE
#include "log_pieces.h"

#if KYMO_POSIX_LOG

static void chunk_begin(struct kymop_log *log, struct kymop_chunk *chunk, uint32_t type,
			uint64_t sequence)
{
	memset(chunk, 0, sizeof(*chunk));
	chunk->magic = KYMOP_CHUNK_MAGIC;
	chunk->type = type;
	chunk->log = log->log;
	chunk->sequence = sequence;
	chunk->first = log->records;
}

/* Whoever waits for another process to read a pipe does not keep the others from their streams. */
static int file_write(struct kymop_log *log, uint64_t at, const void *bytes, size_t count,
		      size_t *done)
{
	int before = kymop_lock_pause();
	int error = kymop_file_write(log->file, at, bytes, count, done);

	kymop_lock_resume(before);
	return error;
}

/* Behind what is there. A part that went stays gone, and is never sent again. */
static int chunk_send(struct kymop_log *log, struct kymop_chunk *chunk)
{
	size_t done = 0;
	int error = file_write(log, UINT64_MAX, (const uint8_t *)chunk + log->sent,
			       chunk->bytes - log->sent, &done);

	log->sent = error ? log->sent + done : 0;
	log->sending = log->sent ? chunk : NULL;
	return error;
}

/* At its place, where the log has places, padded to area_bytes. */
static int chunk_write(struct kymop_log *log, struct kymop_chunk *chunk, uint64_t at,
		       uint32_t area_bytes)
{
	uint32_t bytes = (uint32_t)sizeof(*chunk) + (chunk->used + 7) / 8 * 8;
	size_t done = 0;

	chunk->bytes = log->can_seek ? area_bytes : bytes;
	kymop_chunk_seal(chunk);
	if (!log->can_seek)
		return chunk_send(log, chunk);
	return file_write(log, at, chunk, chunk->bytes, &done);
}

/* kymop_log_resume: the rest of a chunk that a pipe took a part of. */
int kymop_log_resume(struct kymop_log *log)
{
	struct kymop_chunk *chunk = log->sending;
	int error = chunk ? chunk_send(log, chunk) : 0;

	if (!error && chunk == log->block) {
		log->block_sequence++;
		kymop_block_begin(log);
	}
	return error;
}

void kymop_block_begin(struct kymop_log *log)
{
	memset(log->block, 0, log->block_bytes);
	chunk_begin(log, log->block, KYMOP_EVENTS_CHUNK, log->block_sequence);
}

uint32_t kymop_block_room(const struct kymop_log *log)
{
	return log->block_bytes - (uint32_t)sizeof(*log->block) - log->block->used;
}

int kymop_block_write(struct kymop_log *log)
{
	uint64_t index = log->block_sequence;

	if (!log->block->records)
		return 0;
	if (log->block_total)
		index %= log->block_total;
	return chunk_write(log, log->block, BLOCKS_AT + index * log->block_bytes, log->block_bytes);
}

/* The block is full, or a pipe must have it: the next one. */
int kymop_block_next(struct kymop_log *log)
{
	int error = kymop_block_write(log);

	if (error)
		return error;
	if (log->block->records)
		log->block_sequence++;
	if (log->block_total && log->block_sequence >= log->block_total &&
	    log->policy == KYMOP_LOOP) {
		log->is_full = true;
		log->has_overrun = true;
	}
	kymop_block_begin(log);
	return 0;
}

/* Stamps do not go back in a log: so each is known from the one before. */
void kymop_block_add(struct kymop_log *log, const struct kymop_read *read, const void *data)
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
	log->records++;
}

/* The last record of a log that is full. Room for it was kept. */
int kymop_block_end_full(struct kymop_log *log)
{
	static const int is_automatic = 1;
	struct kymop_read stop = { .stamp = log->stamp_last };

	if (KYMO_POSIX_EVENT_START_STOP) {
		stop.record.word = KYMOP_STOP;
		stop.record.data_bytes = sizeof(is_automatic);
		kymop_block_add(log, &stop, &is_automatic);
	}
	log->is_full = true;
	return kymop_block_write(log);
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
int kymop_names_write(struct kymop_stream *stream)
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

/* How it stands, over the one before the last. */
int kymop_end_write(struct kymop_stream *stream, bool is_final)
{
	struct kymop_log *log = stream->log;
	const struct kymop_shared *shared = kymop_shared_of(stream);
	struct kymop_chunk *chunk = log->names;
	struct kymop_log_end end;
	int error;

	memset(chunk, 0, AREA_BYTES);
	chunk_begin(log, chunk, KYMOP_END, log->end_sequence);
	kymop_clock_update(&stream->base);
	memset(&end, 0, sizeof(end));
	end.stamp = stream->base.end_stamp;
	end.real_ns = stream->base.end_real_ns;
	end.status = POSIX_TRACE_SUSPENDED;
	end.full = kymop_is_full(stream, kymop_state_of(__atomic_load_n(&shared->state,
								__ATOMIC_ACQUIRE)));
	end.overrun = (int32_t)__atomic_load_n(&shared->overrun, __ATOMIC_RELAXED);
	end.flush_error = log->flush_error;
	end.log_overrun = log->has_overrun;
	end.log_full = log->is_full;
	end.is_final = is_final;
	end.block_count = log->block_sequence + (log->block->records != 0);
	end.records = log->records;
	if (end.overrun)
		log->ever |= KYMOP_EVER_STREAM;
	if (end.log_overrun)
		log->ever |= KYMOP_EVER_LOG;
	end.ever = log->ever;
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
	head.target = (uint32_t)stream->target;
	kymop_clock_update(&stream->base);
	head.ns_per_stamp = stream->base.ns_per_stamp;
	memcpy(head.name, attr->kymo__name, strlen(attr->kymo__name));
	memcpy(head.version_text, attr->kymo__version, strlen(attr->kymo__version));
	memcpy(log->names + 1, &head, sizeof(head));
	log->names->used = sizeof(head);
	return chunk_write(log, log->names, HEAD_AT, AREA_BYTES);
}

/* A log that can be opened, with nothing in it. */
int kymop_log_begin(struct kymop_stream *stream)
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
	log->records = 0;
	log->ever = 0;
	kymop_block_begin(log);
	error = head_write(stream, uuid);
	if (!error)
		error = kymop_names_write(stream);
	return error ? error : kymop_end_write(stream, false);
}
#else
typedef int kymop_no_log_pieces; /* a file must not be empty */
#endif
