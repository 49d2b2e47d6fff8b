/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stream.h: what a stream is [posix.md 3]: the units that are built, ids of events, states, and the
 * stream as its controller has it. The functions of this library are in internal.h, those of the
 * system in platform.h.
 */
#ifndef KYMO_POSIX_STREAM_H
#define KYMO_POSIX_STREAM_H

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

/* Events of the kernel, at least one type of them. */
#define KYMOP_KERNEL                                                                               \
	(KYMO_POSIX_EVENT_CONTEXT_SWITCH || KYMO_POSIX_EVENT_SYSTEM_CALL || KYMO_POSIX_EVENT_LOCK)

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
#if KYMOP_KERNEL && !(KYMO_POSIX_HOSTED && (KYMO_POSIX_ONLINE || KYMO_POSIX_LOG))
#error "kernel events need KYMO_POSIX_HOSTED, and KYMO_POSIX_ONLINE or KYMO_POSIX_LOG"
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

/* Ids of events: 1 to 13 system, 16 unnamed, from 17 on named. */
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
	KYMOP_CONTEXT_SWITCH = 9,
	KYMOP_SYSTEM_CALL_ENTRY = 10,
	KYMOP_SYSTEM_CALL_EXIT = 11,
	KYMOP_LOCK_WAIT_BEGIN = 12,
	KYMOP_LOCK_WAIT_END = 13,
	KYMOP_SYSTEM_LAST = KYMOP_KERNEL ? KYMOP_LOCK_WAIT_END : KYMOP_FLUSH_STOP,
};

/* Events of the kernel: what attributes ask for, a bit each. */
enum kymop_kernel_kind { KYMOP_KERNEL_SWITCH = 1, KYMOP_KERNEL_CALL = 2, KYMOP_KERNEL_LOCK = 4 };
#define KYMOP_KERNEL_KINDS                                                                         \
	(KYMO_POSIX_EVENT_CONTEXT_SWITCH * KYMOP_KERNEL_SWITCH |                                   \
	 KYMO_POSIX_EVENT_SYSTEM_CALL * KYMOP_KERNEL_CALL | KYMO_POSIX_EVENT_LOCK * KYMOP_KERNEL_LOCK)
#define KYMOP_KERNEL_DATA_MAX 56u

/* Full policies of logs and streams; the same numbers as in <trace.h>. */
enum kymop_policy { KYMOP_LOOP = 1, KYMOP_UNTIL_FULL = 2, KYMOP_FLUSH = 3, KYMOP_APPEND = 4 };

#define KYMOP_TRUNCATED 1u

/* The longest data of a system event of the stream itself (FILTER has two sets), and of any. */
#if KYMO_POSIX_FILTER
#define KYMOP_OWN_DATA_MAX (2 * (uint32_t)sizeof(trace_event_set_t))
#else
#define KYMOP_OWN_DATA_MAX ((uint32_t)sizeof(int))
#endif
#if KYMOP_KERNEL
#define KYMOP_SYSTEM_DATA_MAX                                                                      \
	(KYMOP_OWN_DATA_MAX > KYMOP_KERNEL_DATA_MAX ? KYMOP_OWN_DATA_MAX : KYMOP_KERNEL_DATA_MAX)
#else
#define KYMOP_SYSTEM_DATA_MAX KYMOP_OWN_DATA_MAX
#endif

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
struct kymop_kernel;

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
	int32_t target; /* process, and when it began */
	uint64_t target_start;
	uint32_t owner; /* user whose directory the stream is in */
	struct kymop_cursor *cursors;
	struct kymop_names *names;
	uint64_t watermark, floor;
	uint64_t gap_from, gap_to; /* of the last automatic stop: nothing is valid between */
	uint64_t overflow_word;	   /* to be reported; 0: none */
	bool is_resume_due;
#endif
#if KYMOP_KERNEL
	struct kymop_kernel *kernel; /* null: its attributes ask for no events of the kernel */
#endif
#if KYMO_POSIX_LOG
	struct kymop_log *log;
	bool is_claimed; /* by the thread that writes its log, or ends the stream */
#endif
#if KYMO_POSIX_RETRIEVAL
	struct kymop_opened *opened;
#endif
};

#if KYMOP_ACTIVE
/* What all who write into an active stream share. */
static inline struct kymop_shared *kymop_shared_of(const struct kymop_stream *stream)
{
#if KYMO_POSIX_HOSTED
	return stream->view.shared;
#else
	return kymop_shared(stream->slot);
#endif
}
#endif

/* Names of the user events of a process, and of those that share them [posix.md 5]. */
struct kymop_names {
	uint64_t magic;
	uint64_t start; /* of the process that it was made for */
	uint32_t count; /* with the unnamed one */
	uint32_t owner; /* process that is adding one; 0: none */
	char name[KYMO_POSIX_USER_EVENT_COUNT][KYMO_POSIX_EVENT_NAME_BYTES + 1];
};

#pragma GCC visibility pop

#endif
