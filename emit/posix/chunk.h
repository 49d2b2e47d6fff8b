/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * chunk.h: a log as bytes [posix.md 7]: chunks with a head each, in the byte order of the machine
 * that wrote them. host/kymo-posix reads the same.
 */
#ifndef KYMO_POSIX_CHUNK_H
#define KYMO_POSIX_CHUNK_H

#include "internal.h"

#define KYMOP_CHUNK_MAGIC 0x31474f4c494d594bull /* "KYMILOG1" in memory, little endian */
#define KYMOP_CHUNK_BYTES_MAX (1u << 20)

enum kymop_chunk_type { KYMOP_HEAD = 1, KYMOP_NAMES = 2, KYMOP_EVENTS_CHUNK = 3, KYMOP_END = 4 };

struct kymop_chunk {
	uint64_t magic;
	uint32_t type;
	uint32_t bytes; /* of the whole chunk, padding included; a multiple of 8 */
	uint32_t used;	/* of its content */
	uint32_t crc;	/* of this head with crc 0, then of the content that is used */
	uint64_t sequence; /* counts by type; of two the higher one holds */
	uint64_t stamp;	   /* events: of the first record, in full */
	uint64_t log;	   /* identity: other chunks are left from an earlier log in the file */
	uint32_t records;
	uint32_t unused;
	uint64_t first; /* events: records of the log before this chunk */
};
KYMO_CHECK_SIZE(struct kymop_chunk, 64);
KYMO_CHECK_OFFSET(struct kymop_chunk, crc, 20);
KYMO_CHECK_OFFSET(struct kymop_chunk, records, 48);
KYMO_CHECK_OFFSET(struct kymop_chunk, first, 56);

#define KYMOP_TEXT_BYTES 64u

struct kymop_log_head {
	uint32_t version; /* KYMOP_LOG_VERSION */
	uint32_t clock;	  /* enum kymo_clock */
	uint64_t uuid[2];
	uint64_t stamp, real_ns; /* a time of the clock, and what time it was: ns since 1970 */
	uint64_t created_ns;
	uint64_t stream_bytes, data_bytes, log_bytes;
	int32_t stream_policy, log_policy, inherited;
	uint32_t resolution_ns;
	uint32_t event_set_bytes;
	uint32_t target; /* process */
	char name[KYMOP_TEXT_BYTES], version_text[KYMOP_TEXT_BYTES];
	uint64_t ns_per_stamp; /* times 2^40, as known when the stream was made; older logs end before */
};
KYMO_CHECK_SIZE(struct kymop_log_head, 232);
#define KYMOP_LOG_HEAD_BYTES_MIN 224u
KYMO_CHECK_OFFSET(struct kymop_log_head, stream_policy, 72);
KYMO_CHECK_OFFSET(struct kymop_log_head, name, 96);
#define KYMOP_LOG_VERSION 1u

/* KYMOP_NAMES: entries of this head, then the name without a NUL. */
struct kymop_log_name {
	uint16_t id;
	uint16_t bytes;
};

/* The newest one says how it stands; is_final: the stream was shut down. */
struct kymop_log_end {
	uint64_t stamp, real_ns; /* a later pair: between the two lies the frequency */
	int32_t status, full, overrun, flush_status, flush_error, log_overrun, log_full;
	uint32_t is_final;
	/* Older logs end here. */
	uint64_t block_count; /* blocks that were written, and records in them: also those overwritten since */
	uint64_t records;
	uint32_t ever; /* enum kymop_log_ever */
	uint32_t unused;
};
KYMO_CHECK_SIZE(struct kymop_log_end, 72);
KYMO_CHECK_OFFSET(struct kymop_log_end, block_count, 48);
#define KYMOP_LOG_END_BYTES_MIN 48u

/* What happened at any time, whether posix_trace_get_status() has told it or not. */
enum kymop_log_ever { KYMOP_EVER_STREAM = 1 /* the stream lost events */, KYMOP_EVER_LOG = 2 /* the log */ };

/* chunk.c */
uint32_t kymop_crc(uint32_t crc, const void *bytes, size_t count);
void kymop_chunk_seal(struct kymop_chunk *chunk);
bool kymop_chunk_is_good(const struct kymop_chunk *chunk, size_t bytes_left);

#endif
