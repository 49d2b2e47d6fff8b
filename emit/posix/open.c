/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * open.c: logs that are read in any process, at any time later [posix.md 7]. Unit: log retrieval.
 * Trusts nothing in the file: what has no good checksum is passed over.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "chunk.h"

#if KYMO_POSIX_RETRIEVAL

/* One log in memory. */
struct kymop_opened {
	const uint8_t *bytes;
	size_t count;
	const struct kymop_chunk *names; /* null: none are known */
	struct kymop_log_head head;
	struct kymop_log_end end;
	const struct kymop_chunk **blocks; /* by sequence */
	size_t block_count;
	size_t block;	 /* the next record is in this one, */
	uint32_t offset; /* at this byte of its content */
	uint64_t stamp;
	char name[KYMO_POSIX_EVENT_NAME_BYTES + 1];
};

static int by_sequence(const void *a, const void *b)
{
	const struct kymop_chunk *left = *(const struct kymop_chunk *const *)a;
	const struct kymop_chunk *right = *(const struct kymop_chunk *const *)b;

	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* The head stands first in a file, and in what came out of a pipe. */
static bool read_head(struct kymop_opened *opened, uint64_t *log)
{
	const struct kymop_chunk *chunk = (const struct kymop_chunk *)(const void *)opened->bytes;

	if (!kymop_chunk_is_good(chunk, opened->count) || chunk->type != KYMOP_HEAD ||
	    chunk->used < sizeof(opened->head))
		return false;
	memcpy(&opened->head, chunk + 1, sizeof(opened->head));
	*log = chunk->log;
	return opened->head.version == KYMOP_LOG_VERSION && opened->head.real_ns &&
	       (opened->head.clock == KYMO_CLOCK_TSC || opened->head.clock == KYMO_CLOCK_MONOTONIC);
}

static bool add_block(struct kymop_opened *opened, const struct kymop_chunk *chunk, size_t *room)
{
	if (opened->block_count == *room) {
		size_t more = *room ? 2 * *room : 64;
		const struct kymop_chunk **blocks =
			realloc(opened->blocks, more * sizeof(*opened->blocks));

		if (!blocks)
			return false;
		opened->blocks = blocks;
		*room = more;
	}
	opened->blocks[opened->block_count++] = chunk;
	return true;
}

static void take_end(struct kymop_opened *opened, const struct kymop_chunk *chunk, uint64_t *newest)
{
	if (chunk->used < sizeof(opened->end) || chunk->sequence + 1 <= *newest)
		return;
	memcpy(&opened->end, chunk + 1, sizeof(opened->end));
	*newest = chunk->sequence + 1;
}

/* One walk over the file. Where no good chunk begins, the next one is looked for. */
static int read_chunks(struct kymop_opened *opened, uint64_t log)
{
	uint64_t newest_end = 0;
	size_t room = 0;

	for (size_t at = 0; at + sizeof(struct kymop_chunk) <= opened->count;) {
		const struct kymop_chunk *chunk =
			(const struct kymop_chunk *)(const void *)(opened->bytes + at);

		if (chunk->log != log || !kymop_chunk_is_good(chunk, opened->count - at)) {
			at += 8;
			continue;
		}
		if (chunk->type == KYMOP_NAMES &&
		    (!opened->names || chunk->sequence > opened->names->sequence))
			opened->names = chunk;
		if (chunk->type == KYMOP_END)
			take_end(opened, chunk, &newest_end);
		if (chunk->type == KYMOP_EVENTS_CHUNK && !add_block(opened, chunk, &room))
			return ENOMEM;
		at += chunk->bytes;
	}
	if (opened->block_count)
		qsort(opened->blocks, opened->block_count, sizeof(*opened->blocks), by_sequence);
	return 0;
}

static void copy_text(char *to, const char *from)
{
	size_t length = strnlen(from, KYMO_POSIX_TRACE_NAME_BYTES - 1);

	memcpy(to, from, length);
}

static void fill_attr(struct kymop_stream *stream)
{
	const struct kymop_log_head *head = &stream->opened->head;
	trace_attr_t *attr = &stream->attr;

	kymop_attr_defaults(attr);
	attr->kymo__stream_policy = head->stream_policy;
	attr->kymo__log_policy = head->log_policy;
	attr->kymo__inherited = head->inherited;
	attr->kymo__stream_bytes = head->stream_bytes;
	attr->kymo__data_bytes = head->data_bytes;
	attr->kymo__log_bytes = head->log_bytes;
	attr->kymo__created.tv_sec = (time_t)(head->created_ns / 1000000000u);
	attr->kymo__created.tv_nsec = (long)(head->created_ns % 1000000000u);
	attr->kymo__resolution.tv_nsec = head->resolution_ns % 1000000000u;
	memset(attr->kymo__version, 0, sizeof(attr->kymo__version));
	copy_text(attr->kymo__name, head->name);
	copy_text(attr->kymo__version, head->version_text);
}

static void fill_base(struct kymop_stream *stream)
{
	const struct kymop_opened *opened = stream->opened;
	struct kymop_base *base = &stream->base;

	base->clock = opened->head.clock;
	base->stamp = base->end_stamp = opened->head.stamp;
	base->real_ns = base->end_real_ns = opened->head.real_ns;
	if (opened->end.stamp > base->stamp && opened->end.real_ns >= base->real_ns) {
		base->end_stamp = opened->end.stamp;
		base->end_real_ns = opened->end.real_ns;
	}
	kymop_clock_rate(base);
}

static void opened_free(struct kymop_opened *opened)
{
	if (opened->bytes)
		kymop_file_unmap(opened->bytes, opened->count);
	free(opened->blocks);
	free(opened);
}

static int opened_make(int file, struct kymop_opened **made)
{
	struct kymop_opened *opened = calloc(1, sizeof(*opened));
	uint64_t log;
	int error;

	if (!opened)
		return ENOMEM;
	error = kymop_file_map(file, &opened->bytes, &opened->count);
	if (!error && (!opened->bytes || !read_head(opened, &log)))
		error = EINVAL;
	if (!error)
		error = read_chunks(opened, log);
	if (error)
		opened_free(opened);
	else
		*made = opened;
	return error;
}

KYMOP_EXPORT int posix_trace_open(int log, trace_id_t *trid)
{
	struct kymop_opened *opened = NULL;
	struct kymop_stream *stream;
	int error;

	if (!trid)
		return EINVAL;
	error = opened_make(log, &opened);
	if (error)
		return error;
	kymop_lock();
	stream = kymop_stream_new();
	if (stream) {
		stream->kind = KYMOP_OPENED;
		stream->opened = opened;
		fill_attr(stream);
		fill_base(stream);
		*trid = stream->trid;
	}
	kymop_unlock();
	if (!stream)
		opened_free(opened);
	return stream ? 0 : EMFILE;
}

static struct kymop_stream *find_opened(trace_id_t trid)
{
	struct kymop_stream *stream = kymop_find(trid);

	return stream && stream->kind == KYMOP_OPENED ? stream : NULL;
}

KYMOP_EXPORT int posix_trace_rewind(trace_id_t trid)
{
	struct kymop_stream *stream;

	kymop_lock();
	stream = find_opened(trid);
	if (stream) {
		stream->opened->block = 0;
		stream->opened->offset = 0;
		stream->time_last = 0;
	}
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

KYMOP_EXPORT int posix_trace_close(trace_id_t trid)
{
	struct kymop_stream *stream;

	kymop_lock();
	stream = find_opened(trid);
	if (stream) {
		opened_free(stream->opened);
		kymop_stream_free(stream);
	}
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

void kymop_opened_status(const struct kymop_stream *stream, struct posix_trace_status_info *status)
{
	const struct kymop_log_end *end = &stream->opened->end;

	status->posix_stream_full_status = end->full ? POSIX_TRACE_FULL : POSIX_TRACE_NOT_FULL;
	status->posix_stream_overrun_status =
		end->overrun ? POSIX_TRACE_OVERRUN : POSIX_TRACE_NO_OVERRUN;
	status->posix_stream_flush_error = end->flush_error;
	status->posix_log_overrun_status =
		end->log_overrun ? POSIX_TRACE_OVERRUN : POSIX_TRACE_NO_OVERRUN;
	status->posix_log_full_status = end->log_full ? POSIX_TRACE_FULL : POSIX_TRACE_NOT_FULL;
}

/* Null where the log has no such event. What it gives is good until the next call. */
const char *kymop_opened_name(const struct kymop_stream *stream, uint32_t id)
{
	struct kymop_opened *opened = stream->opened;
	const struct kymop_chunk *names = opened->names;
	const uint8_t *content = (const uint8_t *)(names + 1);
	struct kymop_log_name entry;

	for (uint32_t at = 0; names && at + sizeof(entry) <= names->used; at += entry.bytes) {
		memcpy(&entry, content + at, sizeof(entry));
		at += (uint32_t)sizeof(entry);
		if (entry.bytes > names->used - at)
			return NULL;
		if (entry.id != id)
			continue;
		if (entry.bytes > KYMO_POSIX_EVENT_NAME_BYTES)
			return NULL;
		memcpy(opened->name, content + at, entry.bytes);
		opened->name[entry.bytes] = 0;
		return opened->name;
	}
	return NULL;
}

/* The next record, or nothing at the log's end. A block that is wrong inside is left there. */
enum kymop_got kymop_opened_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes)
{
	struct kymop_opened *opened = stream->opened;

	for (; opened->block < opened->block_count; opened->block++, opened->offset = 0) {
		const struct kymop_chunk *block = opened->blocks[opened->block];
		const uint8_t *at = (const uint8_t *)(block + 1) + opened->offset;
		uint32_t left = block->used - opened->offset;

		if (left < KYMOP_RECORD_BYTES)
			continue;
		memcpy(&read->record, at, KYMOP_RECORD_BYTES);
		if (read->record.data_bytes > left - KYMOP_RECORD_BYTES)
			continue;
		if (!opened->offset)
			opened->stamp = block->stamp;
		opened->stamp += ((read->record.word >> 16) - opened->stamp) & KYMOP_STAMP_MASK;
		read->stamp = opened->stamp;
		read->lane = 0;
		if (bytes > read->record.data_bytes)
			bytes = read->record.data_bytes;
		if (bytes)
			memcpy(data, at + KYMOP_RECORD_BYTES, bytes);
		opened->offset += KYMOP_RECORD_BYTES + read->record.data_bytes;
		return KYMOP_GOT;
	}
	return KYMOP_NOTHING;
}
#else
typedef int kymop_no_retrieval; /* a file must not be empty */
#endif
