/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * log_pieces.h: a log that is being written, as the files of the unit trace to log share it: log.c
 * decides what is written when, log_pieces.c makes the chunks.
 */
#ifndef KYMO_POSIX_LOG_PIECES_H
#define KYMO_POSIX_LOG_PIECES_H

#include "chunk.h"

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
	uint64_t records;	   /* that were added to blocks so far */
	uint32_t ever;		   /* enum kymop_log_ever */
	/* Of a pipe: a chunk of which the first sent bytes have gone, and the file took no more. */
	struct kymop_chunk *sending;
	size_t sent;
};

/* Where things stand in a file: head, two copies of names and of the end by turns, blocks. */
enum place {
	HEAD_AT = 0,
	NAMES_AT = AREA_BYTES,
	END_AT = NAMES_AT + 2 * NAMES_BYTES,
	BLOCKS_AT = END_AT + 2 * AREA_BYTES,
};

#pragma GCC visibility push(hidden)
/*
 * All but room: under kymop_lock by who has claimed the stream; the lock is let go while the file is
 * written. int: 0 or an error number; what was not written is written by the next call.
 */
int kymop_log_begin(struct kymop_stream *stream);
int kymop_log_resume(struct kymop_log *log);
void kymop_block_begin(struct kymop_log *log);
uint32_t kymop_block_room(const struct kymop_log *log);
int kymop_block_write(struct kymop_log *log);
int kymop_block_next(struct kymop_log *log);
void kymop_block_add(struct kymop_log *log, const struct kymop_read *read, const void *data);
int kymop_block_end_full(struct kymop_log *log);
int kymop_names_write(struct kymop_stream *stream);
int kymop_end_write(struct kymop_stream *stream, bool is_final);
#pragma GCC visibility pop

#endif
