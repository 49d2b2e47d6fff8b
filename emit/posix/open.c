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
	const struct kymop_chunk **allocated;
	size_t block_count;
	uint64_t block_begin, block_end; /* sequences that there should be */
	bool is_damaged;		 /* bytes are no chunk of the log, or times are not known */
	size_t block;	 /* the next record is in this one, */
	uint32_t offset; /* at this byte of its content */
	uint32_t told;	 /* of what is missing in front of it: reports that were given */
	uint64_t stamp;
	char name[KYMO_POSIX_EVENT_NAME_BYTES + 1];
};

static int by_sequence(const void *a, const void *b)
{
	const struct kymop_chunk *left = *(const struct kymop_chunk *const *)a;
	const struct kymop_chunk *right = *(const struct kymop_chunk *const *)b;

	if (left->sequence != right->sequence)
		return left->sequence < right->sequence ? -1 : 1;
	/* A block that was written again has more in it. */
	if (left->records != right->records)
		return left->records > right->records ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* The head stands first in a file, and in what came out of a pipe. */
static bool read_head(struct kymop_opened *opened, uint64_t *log)
{
	const struct kymop_chunk *chunk = (const struct kymop_chunk *)(const void *)opened->bytes;

	if (!kymop_chunk_is_good(chunk, opened->count) || chunk->type != KYMOP_HEAD ||
	    chunk->used < KYMOP_LOG_HEAD_BYTES_MIN)
		return false;
	memcpy(&opened->head, chunk + 1,
	       chunk->used < sizeof(opened->head) ? chunk->used : sizeof(opened->head));
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
	uint32_t bytes = chunk->used < sizeof(opened->end) ? chunk->used : sizeof(opened->end);

	if (bytes < KYMOP_LOG_END_BYTES_MIN || chunk->sequence + 1 <= *newest)
		return;
	memset(&opened->end, 0, sizeof(opened->end));
	memcpy(&opened->end, chunk + 1, bytes);
	*newest = chunk->sequence + 1;
}

/* By sequence, each once. */
static void sort_blocks(struct kymop_opened *opened)
{
	size_t kept = 0;

	if (!opened->block_count)
		return;
	qsort(opened->blocks, opened->block_count, sizeof(*opened->blocks), by_sequence);
	for (size_t i = 0; i < opened->block_count; i++)
		if (!i || opened->blocks[i]->sequence != opened->blocks[kept - 1]->sequence)
			opened->blocks[kept++] = opened->blocks[i];
	opened->block_count = kept;
}

/* Which blocks there should be. A log that goes round has the last ones only. */
static void expect_blocks(struct kymop_opened *opened)
{
	uint64_t total;

	opened->block_end = opened->end.block_count;
	if (!opened->block_count)
		return;
	if (opened->blocks[opened->block_count - 1]->sequence >= opened->block_end)
		opened->block_end = opened->blocks[opened->block_count - 1]->sequence + 1;
	if (opened->head.log_policy != KYMOP_LOOP)
		return;
	total = opened->head.log_bytes / opened->blocks[0]->bytes;
	if (total < 2)
		total = 2;
	if (opened->block_end > total)
		opened->block_begin = opened->block_end - total;
	/* Of an earlier round, where the block that should be over it is damaged. */
	while (opened->block_count && opened->blocks[0]->sequence < opened->block_begin) {
		opened->blocks++;
		opened->block_count--;
	}
}

/* Whether blocks are missing in front of one, or behind the last. */
static bool has_gap(const struct kymop_opened *opened, size_t block)
{
	uint64_t from = block ? opened->blocks[block - 1]->sequence + 1 : opened->block_begin;
	uint64_t to = block < opened->block_count ? opened->blocks[block]->sequence : opened->block_end;

	return to > from;
}

static bool has_gaps(const struct kymop_opened *opened)
{
	for (size_t block = 0; block <= opened->block_count; block++)
		if (has_gap(opened, block))
			return true;
	return false;
}

/* Places in a file that nothing was written to are no damage. */
static bool is_written(const struct kymop_opened *opened, size_t at)
{
	static const uint8_t nothing[8];
	size_t left = opened->count - at;

	return memcmp(opened->bytes + at, nothing, left < 8 ? left : 8) != 0;
}

/* One walk over the file. Where no good chunk begins, the next one is looked for. */
static int read_chunks(struct kymop_opened *opened, uint64_t log)
{
	uint64_t newest_end = 0;
	size_t room = 0;

	for (size_t at = 0; at < opened->count;) {
		const struct kymop_chunk *chunk =
			(const struct kymop_chunk *)(const void *)(opened->bytes + at);

		if (!kymop_chunk_is_good(chunk, opened->count - at) || chunk->log != log) {
			opened->is_damaged |= is_written(opened, at);
			at += 8;
			continue;
		}
		if (chunk->type == KYMOP_NAMES &&
		    (!opened->names || chunk->sequence > opened->names->sequence))
			opened->names = chunk;
		if (chunk->type == KYMOP_END)
			take_end(opened, chunk, &newest_end);
		if (chunk->type == KYMOP_EVENTS_CHUNK && !add_block(opened, chunk, &room)) {
			opened->allocated = opened->blocks;
			return ENOMEM;
		}
		at += chunk->bytes;
	}
	opened->allocated = opened->blocks;
	sort_blocks(opened);
	expect_blocks(opened);
	opened->stamp = opened->head.stamp;
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
	/* Without a later pair: what was known when the stream was made. */
	if (base->end_stamp > base->stamp || base->clock != KYMO_CLOCK_TSC)
		kymop_clock_rate(base);
	else
		base->ns_per_stamp = opened->head.ns_per_stamp;
	if (!base->ns_per_stamp) {
		kymop_clock_rate(base);
		stream->opened->is_damaged = true;
	}
}

static void opened_free(struct kymop_opened *opened)
{
	if (opened->bytes)
		kymop_file_unmap(opened->bytes, opened->count);
	free(opened->allocated);
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
		stream->opened->told = 0;
		stream->opened->stamp = stream->opened->head.stamp;
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
		end->log_overrun || has_gaps(stream->opened) ? POSIX_TRACE_OVERRUN : POSIX_TRACE_NO_OVERRUN;
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

/* What is reported where blocks are missing, in this order. */
static const uint8_t reports[] = { KYMOP_ERROR, KYMOP_OVERFLOW, KYMOP_RESUME };

/*
 * Something that no block has: its time is borrowed. Damage without a gap is told at the end, by
 * the error alone; behind what is missing at the end nothing resumes.
 */
static bool report_damage(struct kymop_opened *opened, struct kymop_read *read, void *data,
			  uint32_t bytes)
{
	static const int error = EBADMSG;
	bool is_end = opened->block == opened->block_count;
	uint32_t count = has_gap(opened, opened->block) ? is_end ? 2 : 3 :
			 is_end && opened->is_damaged && !has_gaps(opened) ? 1 : 0;
	uint16_t id;

	if (opened->offset || opened->told >= count)
		return false;
	id = reports[opened->told++];
	memset(read, 0, sizeof(*read));
	read->stamp = id == KYMOP_RESUME ? opened->blocks[opened->block]->stamp : opened->stamp;
	read->record.word = read->stamp << 16 | id;
	if (id == KYMOP_ERROR) {
		read->record.data_bytes = sizeof(error);
		if (bytes)
			memcpy(data, &error, bytes < sizeof(error) ? bytes : sizeof(error));
	}
	return true;
}

/* The next record, or nothing at the log's end. A block that is wrong inside is left there. */
enum kymop_got kymop_opened_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes)
{
	struct kymop_opened *opened = stream->opened;

	for (;; opened->block++, opened->offset = opened->told = 0) {
		const struct kymop_chunk *block;
		const uint8_t *at;
		uint32_t left;

		if (report_damage(opened, read, data, bytes))
			return KYMOP_GOT;
		if (opened->block == opened->block_count)
			return KYMOP_NOTHING;
		block = opened->blocks[opened->block];
		at = (const uint8_t *)(block + 1) + opened->offset;
		left = block->used - opened->offset;
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
}
#else
typedef int kymop_no_retrieval; /* a file must not be empty */
#endif
