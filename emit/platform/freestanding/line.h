/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * line.h: frames, which are the log of a target without files [target.md 3]. Little endian;
 * host/kymo-target reads the same.
 */
#ifndef KYMO_POSIX_LINE_H
#define KYMO_POSIX_LINE_H

#include "../../posix/internal.h"

#define KYMOP_FRAME_MAGIC 0xa5594bu /* "KY" and a byte that no text has; the type is the fourth byte */

enum kymop_frame_type { KYMOP_FRAME_HEAD = 1, KYMOP_FRAME_NAMES = 2, KYMOP_FRAME_EVENTS = 3 };

/* In front of the payload; behind it stands a CRC-32 of both. */
struct kymop_frame {
	uint32_t magic;	  /* and type * 2^24 */
	uint16_t bytes;	  /* of the payload: a multiple of 4 */
	uint16_t inverse; /* of bytes */
	uint32_t boot;
	uint32_t sequence;
};
KYMO_CHECK_SIZE(struct kymop_frame, 16);

/* KYMOP_FRAME_HEAD; the stream's name follows, with NULs up to a multiple of 4. */
struct kymop_line_head {
	uint32_t version;
	uint32_t hz; /* of the clock */
	uint32_t stamp_low, stamp_high; /* now */
	uint32_t lost;	  /* records that were lost on the target, of this stream */
	uint32_t records; /* in frames before this one */
	uint16_t names;	  /* user events that have a name */
	uint16_t flags;	  /* KYMOP_LINE_FINAL */
};
KYMO_CHECK_SIZE(struct kymop_line_head, 28);
#define KYMOP_LINE_VERSION 1u
#define KYMOP_LINE_FINAL 1u

/* KYMOP_FRAME_NAMES: so many times this, and the name with NULs up to a multiple of 4. */
struct kymop_line_name {
	uint16_t id;
	uint16_t bytes; /* of the name */
};

/* KYMOP_FRAME_EVENTS; records follow as they stand in the lane. */
struct kymop_line_events {
	uint32_t stamp_low, stamp_high; /* of the first record, in full */
	uint32_t lost;	/* records that were lost on the target, up to the first one here */
	uint32_t first; /* records in frames before this one */
};
KYMO_CHECK_SIZE(struct kymop_line_events, 16);

/* A record at least goes into a frame. */
#define KYMOP_RECORD_BYTES_MAX                                                                     \
	(KYMOP_RECORD_BYTES + (KYMO_POSIX_DATA_BYTES_MAX > 2 * sizeof(uint32_t) * (KYMOP_EVENTS / 32 + 1) ? \
				       (KYMO_POSIX_DATA_BYTES_MAX + 3u) & ~3u :                            \
				       2 * sizeof(uint32_t) * (KYMOP_EVENTS / 32 + 1)))
#define KYMOP_PAYLOAD_BYTES_MIN 236u
#define KYMOP_PAYLOAD_BYTES                                                                        \
	(sizeof(struct kymop_line_events) + KYMOP_RECORD_BYTES_MAX > KYMOP_PAYLOAD_BYTES_MIN ?      \
		 sizeof(struct kymop_line_events) + KYMOP_RECORD_BYTES_MAX :                       \
		 KYMOP_PAYLOAD_BYTES_MIN)

/* The head and the names come again after so many frames of events: for who listens later. */
#define KYMOP_HEAD_AGAIN 64u
/* Who flushes pauses after so many bytes, and gives up after so many pauses without one. */
#define KYMOP_BURST_BYTES 1024u
#define KYMOP_PATIENCE 1000u

#endif
