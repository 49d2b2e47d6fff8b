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
#include <string.h>

#include <trace.h>

#include "kymo/abi/ring.h"
#include "kymo/runtime.h"

#if KYMO_POSIX_HOSTED
#include <errno.h>
#else
#include "errors.h"
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

/* A record as it stands in a lane and in a log, without the data behind it [posix.md 3.2]. */
struct kymop_record {
	uint64_t word; /* id | time stamp * 2^16 */
	uint32_t pid;
	uint32_t thread_low, thread_high;
	uint32_t address_low, address_high;
	uint16_t data_bytes;
	uint16_t flags;
} __attribute__((packed));
KYMO_CHECK_SIZE(struct kymop_record, 32);
KYMO_CHECK_OFFSET(struct kymop_record, data_bytes, 28);
#define KYMOP_RECORD_BYTES 32u
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

/*
 * The first page of a stream's memory, at a fixed address for each slot: a writer may look at it at
 * any time [posix.md 3.1]. Then the lanes' control blocks, and their bytes.
 */
struct kymop_shared {
	uint64_t magic;
	uint64_t memory_bytes;
	uint32_t generation; /* of this stream, never 0; another one in the slot has another */
	uint32_t cpu_count;  /* lanes that belong to a CPU */
	uint32_t lane_count; /* then those that are locked, then the system events' own */
	uint32_t ring_bytes;
	uint32_t data_max;
	uint32_t clock; /* enum kymo_clock */
	int32_t policy;
	int32_t is_inherited;
	uint64_t state; /* controller, and who finds it full */
	uint32_t full;
	uint32_t overrun;
	uint64_t lost_first; /* writers: header word of the first record that was lost; 0: none */
	uint32_t filter_version;
	int32_t target;
	uint64_t target_start; /* when the process began: a number may be given again */
	uint32_t filter[(KYMOP_EVENTS + 31) / 32];
	uint16_t wants[KYMOP_EVENTS]; /* id: to be recorded; 0: not. Read inside the sequence */
};
/* Builds with other limits have other layouts, and must not meet. */
#define KYMOP_LAYOUT                                                                               \
	((uint64_t)KYMOP_EVENTS << 16 | KYMO_POSIX_STREAMS << 8 | KYMO_POSIX_EVENT_NAME_BYTES)
#define KYMOP_MAGIC (0x31585349504d594bull + KYMOP_LAYOUT)
/* On a system with pages it is mapped by itself. */
#if KYMO_POSIX_HOSTED
#define KYMOP_HEADER_BYTES 4096u
#else
#define KYMOP_HEADER_BYTES 512u
#endif
KYMO_STATIC_ASSERT(sizeof(struct kymop_shared) <= KYMOP_HEADER_BYTES, "fits its page");

/* One stream as a writer of this process sees it. */
struct kymop_view {
	struct kymo_ring *rings;
	uint8_t *data; /* of lane 0 */
	uint64_t stride;
};

/* What a writer brings. */
struct kymop_event {
	uint16_t id;
	uint16_t flags;
	uint32_t pid;
	uint64_t thread, address;
	const void *data;
	uint32_t data_bytes;
};

/* A record that was read: its time in full. */
struct kymop_read {
	struct kymop_record record;
	uint64_t stamp;
	uint32_t lane;
};

/* A time of the clock, and what time of day it was; a later pair, between which lies the frequency. */
struct kymop_base {
	uint32_t clock; /* enum kymo_clock */
	uint32_t unused;
	uint64_t stamp, real_ns;
	uint64_t end_stamp, end_real_ns;
	uint64_t mono_ns; /* with stamp */
	uint64_t ns_per_stamp; /* times 2^40 */
};

/* The reader's place in one lane. */
struct kymop_cursor {
	uint64_t head; /* as it was at the last look */
	uint64_t tail; /* of next */
	uint64_t lost; /* records of this lane that were overwritten, as known */
	bool has_next;
	struct kymop_read next;
};

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
	struct kymop_base base;
	uint64_t time_last; /* ns: what is reported does not go back */
#if KYMOP_ACTIVE
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
#define KYMOP_HANDLES (2 * KYMO_POSIX_STREAMS)
extern struct kymop_stream kymop_streams[KYMOP_HANDLES];
struct kymop_stream *kymop_stream_new(void);
void kymop_stream_free(struct kymop_stream *stream);
struct kymop_stream *kymop_find(trace_id_t trid);
struct kymop_stream *kymop_find_active(trace_id_t trid);
void kymop_streams_forget(void);
static inline enum kymop_state kymop_state_of(uint64_t word)
{
	return (enum kymop_state)(word & ((1u << KYMOP_STATE_BITS) - 1));
}
void kymop_wants_update(struct kymop_shared *shared);
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
extern const char *const kymop_system_names[KYMOP_SYSTEM_LAST + 1];
int kymop_name_open(struct kymop_names *names, const char *name, trace_event_id_t *event);
bool kymop_name_exists(const struct kymop_names *names, uint32_t id);
bool kymop_system_exists(uint32_t id);

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
static inline uint64_t kymop_step(uint32_t data_bytes)
{
	return KYMO_ONE_RECORD + KYMOP_RECORD_BYTES + data_bytes;
}

/* reader.c */
enum kymop_got { KYMOP_NOTHING, KYMOP_GOT };
void kymop_reader_begin(struct kymop_stream *stream);
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
