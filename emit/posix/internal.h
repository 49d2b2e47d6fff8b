/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * internal.h: what the files of libkymo-posix share [posix.md]. attr*.c know only the attributes
 * object; record.c writes user events; ring.c keeps room in lanes; reader.c merges lanes; stream.c
 * has the handles and what changes a stream's state; log*.c and open.c are the log. What the
 * system must do is in platform.h.
 */
#ifndef KYMO_POSIX_INTERNAL_H
#define KYMO_POSIX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <trace.h>

#if KYMO_POSIX_HOSTED
#include <errno.h>
#include <string.h>

#include "kymo/abi/ring.h"
#include "kymo/runtime.h"
#else
#include "../platform/freestanding/strings.h"
#include "kymo/abi/check.h"
#include "kymo/posix/errors.h"
#endif

/* Of this library alone: no table of addresses stands between its files. */
#pragma GCC visibility push(hidden)

/* Dependencies of units [posix.md 9]. */
#if !KYMO_POSIX_ONLINE && !KYMO_POSIX_LOG
#if KYMO_POSIX_USER_EVENTS
#error "KYMO_POSIX_USER_EVENTS needs KYMO_POSIX_ONLINE or KYMO_POSIX_LOG"
#endif
#if KYMO_POSIX_FILTER
#error "KYMO_POSIX_FILTER needs KYMO_POSIX_ONLINE or KYMO_POSIX_LOG"
#endif
#if KYMO_POSIX_INHERIT
#error "KYMO_POSIX_INHERIT needs KYMO_POSIX_ONLINE or KYMO_POSIX_LOG"
#endif
#if !KYMO_POSIX_RETRIEVAL
#error "no unit is chosen: at least one of ONLINE, LOG and RETRIEVAL"
#endif
#endif
#if KYMO_POSIX_EVENT_FILTER && !KYMO_POSIX_FILTER
#error "KYMO_POSIX_EVENT_FILTER needs KYMO_POSIX_FILTER"
#endif
#if KYMO_POSIX_EVENT_FLUSH && !KYMO_POSIX_LOG
#error "KYMO_POSIX_EVENT_FLUSH needs KYMO_POSIX_LOG"
#endif
#if KYMO_POSIX_INHERIT && !KYMO_POSIX_HOSTED
#error "KYMO_POSIX_INHERIT needs processes: KYMO_POSIX_HOSTED"
#endif
#if KYMO_POSIX_RETRIEVAL && !KYMO_POSIX_HOSTED
#error "KYMO_POSIX_RETRIEVAL needs files: KYMO_POSIX_HOSTED"
#endif
#if KYMO_POSIX_STREAMS < 1 || KYMO_POSIX_STREAMS > 32
#error "KYMO_POSIX_STREAMS must be 1 to 32"
#endif
#if KYMO_POSIX_USER_EVENT_COUNT < 1 || KYMO_POSIX_USER_EVENT_COUNT > 1024
#error "KYMO_POSIX_USER_EVENT_COUNT must be 1 to 1024"
#endif
#if KYMO_POSIX_DATA_BYTES_MAX > 16384
#error "KYMO_POSIX_DATA_BYTES_MAX must be at most 16384"
#endif

/* A bit for each slot. */
#define KYMOP_ALL_IDLE (0xffffffffu >> (32 - KYMO_POSIX_STREAMS))

/* Order between processors; of one core only the compiler's matters, and calls stand between. */
#if KYMO_POSIX_HOSTED
#define KYMOP_ACQUIRE __ATOMIC_ACQUIRE
#define KYMOP_SEQ_CST __ATOMIC_SEQ_CST
#else
#define KYMOP_ACQUIRE __ATOMIC_RELAXED
#define KYMOP_SEQ_CST __ATOMIC_RELAXED
#endif

/* Units that make up others. */
#define KYMOP_ACTIVE (KYMO_POSIX_ONLINE || KYMO_POSIX_LOG)
#define KYMOP_WITH_LOG (KYMO_POSIX_LOG || KYMO_POSIX_RETRIEVAL)

#if KYMO_POSIX_HOSTED
#define KYMOP_EXPORT __attribute__((visibility("default")))
#else
#define KYMOP_EXPORT
#endif

/* Ids of events: 1 to 8 system, 16 unnamed, from 17 on named. */
#define KYMOP_USER_FIRST 16u
#define KYMOP_EVENTS KYMO__POSIX_EVENTS

/* Ids that exist whatever units there are: a log may have them. */
enum kymop_system_event {
	KYMOP_ERROR = 1,
	KYMOP_START = 2,
	KYMOP_STOP = 3,
	KYMOP_OVERFLOW = 4,
	KYMOP_RESUME = 5,
	KYMOP_FILTER = 6,
	KYMOP_FLUSH_START = 7,
	KYMOP_FLUSH_STOP = 8,
	KYMOP_SYSTEM_LAST = 8,
};

/* Full policies of logs and streams; the same numbers as in <trace.h>. */
enum kymop_policy { KYMOP_LOOP = 1, KYMOP_UNTIL_FULL = 2, KYMOP_FLUSH = 3, KYMOP_APPEND = 4 };

#define KYMOP_TRUNCATED 1u

#define KYMOP_STAMP_MASK ((1ull << 48) - 1)

/* State of a stream: the low bits of kymop_shared.state; above, the time of the change. */
enum kymop_state {
	KYMOP_DEAD = 0,
	KYMOP_SUSPENDED = 1,
	KYMOP_RUNNING = 2,
	KYMOP_AUTO_STOPPED = 3, /* full; goes on by itself when it has been read */
};
#define KYMOP_STATE_BITS 2

#if KYMO_POSIX_HOSTED
#include "hosted.h"
#else
#include "../platform/freestanding/freestanding.h"
#endif

struct kymop_log;
struct kymop_opened;

enum kymop_kind { KYMOP_FREE, KYMOP_ONLINE, KYMOP_LOGGED, KYMOP_OPENED };

/* A stream as its controller has it. Under kymop_lock. */
struct kymop_stream {
	uint32_t kind;
	uint32_t trid;
	uint32_t slot;
	trace_attr_t attr;
	uint32_t type_next; /* of the event type list */
#if KYMO_POSIX_HOSTED
	struct kymop_base base;
	uint64_t time_last; /* ns: what is reported does not go back */
#endif
#if KYMOP_ACTIVE && !KYMO_POSIX_HOSTED
	struct kymop_names *names;
	uint64_t stamp_last; /* that was read */
	bool is_resume_due;
#elif KYMOP_ACTIVE
	struct kymop_view view;
	struct kymop_cursor *cursors;
	struct kymop_names *names;
	uint64_t watermark, floor;
	uint64_t gap_from, gap_to; /* of the last automatic stop: nothing is valid between */
	uint64_t overflow_word;	   /* to be reported; 0: none */
	bool is_resume_due;
#endif
#if KYMO_POSIX_LOG
	struct kymop_log *log;
#endif
#if KYMO_POSIX_RETRIEVAL
	struct kymop_opened *opened;
#endif
};

/* Names of the user events of a process, and of those that share them [posix.md 5]. */
struct kymop_names {
	uint64_t magic;
	uint64_t start; /* of the process that it was made for */
	uint32_t count; /* with the unnamed one */
	uint32_t owner; /* process that is adding one; 0: none */
	char name[KYMO_POSIX_USER_EVENT_COUNT][KYMO_POSIX_EVENT_NAME_BYTES + 1];
};

/* stream.c */
#define KYMOP_HANDLES (KYMO_POSIX_STREAMS * (1 + KYMO_POSIX_RETRIEVAL))
extern struct kymop_stream kymop_streams[KYMOP_HANDLES];
struct kymop_stream *kymop_stream_new(void);
void kymop_stream_free(struct kymop_stream *stream);
struct kymop_stream *kymop_find(trace_id_t trid);
struct kymop_stream *kymop_find_active(trace_id_t trid);
void kymop_streams_forget(void);
/* Of the word state of a stream's memory. */
static inline enum kymop_state kymop_state_of(uint64_t word)
{
	return (enum kymop_state)(word & ((1u << KYMOP_STATE_BITS) - 1));
}
void kymop_system_event(struct kymop_stream *stream, uint16_t id, const void *data,
			uint32_t data_bytes);
int kymop_create(pid_t pid, const trace_attr_t *attr, bool with_log, struct kymop_stream **made);
void kymop_destroy(struct kymop_stream *stream);
void kymop_restart(struct kymop_stream *stream);
bool kymop_filters(const struct kymop_shared *shared, uint32_t id);

/* attr.c */
#define KYMOP_ATTR_MAGIC 0x4b504154u
bool kymop_attr_is_valid(const trace_attr_t *attr);
int kymop_attr_policy(const trace_attr_t *attr, bool with_log);
void kymop_attr_defaults(trace_attr_t *attr);

/* names.c */
#define KYMOP_NAME_PREFIX "posix_trace_" /* of what the standard names */
const char *kymop_system_name(uint32_t id);
int kymop_name_open(struct kymop_names *names, const char *name, trace_event_id_t *event);
bool kymop_name_exists(const struct kymop_names *names, uint32_t id);
bool kymop_system_exists(uint32_t id);

#if KYMO_POSIX_HOSTED
void kymop_wants_update(struct kymop_shared *shared);
static inline void kymop_filter_changed(struct kymop_shared *shared)
{
	__atomic_add_fetch(&shared->filter_version, 1, __ATOMIC_SEQ_CST);
	kymop_wants_update(shared);
}

/* ring.c: writing. Context: any, signal handlers included. */
bool kymop_lane_is_full(const struct kymo_ring *ring, uint64_t step, uint32_t ring_bytes);
bool kymop_make_room(struct kymop_shared *shared, const struct kymop_view *view, uint32_t lane,
		     uint64_t step);
void kymop_lane_write(struct kymop_shared *shared, const struct kymop_view *view, uint32_t lane,
		      const struct kymop_event *event);
bool kymop_locked_write(struct kymop_shared *shared, const struct kymop_view *view,
			const struct kymop_event *event, uint32_t self);
void kymop_ring_out(const struct kymop_view *view, uint32_t lane, uint32_t ring_bytes,
		    uint64_t from, void *to, uint32_t bytes);
#endif

/* reader.c */
enum kymop_got { KYMOP_NOTHING, KYMOP_GOT };
#if KYMO_POSIX_HOSTED
void kymop_reader_begin(struct kymop_stream *stream);
#endif
enum kymop_got kymop_reader_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes);
void kymop_reader_clear(struct kymop_stream *stream);
void kymop_report(struct kymop_stream *stream, const struct kymop_read *read, size_t bytes,
		  struct posix_trace_event_info *event);

/* log.c, open.c */
#if KYMO_POSIX_LOG
int kymop_log_flush(struct kymop_stream *stream);
int kymop_log_end(struct kymop_stream *stream);
int kymop_log_clear(struct kymop_stream *stream);
bool kymop_log_is_due(struct kymop_stream *stream, uint64_t idle_stamps);
void kymop_log_status(struct kymop_stream *stream, struct posix_trace_status_info *status);
#endif
#if KYMO_POSIX_RETRIEVAL
void kymop_opened_status(const struct kymop_stream *stream, struct posix_trace_status_info *status);
const char *kymop_opened_name(const struct kymop_stream *stream, uint32_t id);
enum kymop_got kymop_opened_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes);
#endif

#include "platform.h"

#pragma GCC visibility pop

#endif
