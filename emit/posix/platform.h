/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * platform.h: what the system must do for libkymo-posix, in emit/platform/linux or
 * emit/platform/freestanding. int is 0 or an error number.
 */
#ifndef KYMO_POSIX_PLATFORM_H
#define KYMO_POSIX_PLATFORM_H

#include "internal.h"

#if KYMO_POSIX_HOSTED
/*
 * What posix_trace_event() looks at first: of idle, a bit is 0 for each slot whose stream this
 * process may write into. Before the process is known to the platform all are: the first event
 * comes to kymop_attach() then. Shared with the controllers of the process's streams.
 */
struct kymop_page {
	uint64_t magic;
	uint64_t start; /* of the process */
	int32_t pid;
	uint32_t idle;
	uint32_t generation[KYMO_POSIX_STREAMS];
} __attribute__((aligned(KYMOP_HEADER_BYTES)));
extern struct kymop_page kymop_page;

/* The headers of all slots; always readable. */
union kymop_header {
	struct kymop_shared shared;
	uint8_t bytes[KYMOP_HEADER_BYTES];
} __attribute__((aligned(KYMOP_HEADER_BYTES)));
extern union kymop_header kymop_headers[KYMO_POSIX_STREAMS];
static inline struct kymop_shared *kymop_shared(uint32_t slot)
{
	return &kymop_headers[slot].shared;
}

/*
 * The memory of slots as restartable sequences see it; not attached: without lanes. Wiped in a
 * new child. And the calling process's number, which records carry; 0 before a thread's first one.
 */
struct kymop_slots {
	struct kymo_slot slot[KYMO_POSIX_STREAMS];
	uint32_t generation[KYMO_POSIX_STREAMS];
	uint32_t is_ours; /* 0 in a new child */
} __attribute__((aligned(KYMOP_HEADER_BYTES)));
extern struct kymop_slots kymop_slots;

/*
 * kymop_attach: makes a slot's stream usable for a writer of this process, and keeps it so until
 * kymop_release. False: it is gone, or never was this process's.
 * Context: any, signal handlers included; system calls at a stream's first event in a process.
 */
bool kymop_attach(uint32_t slot, struct kymop_view *view);
void kymop_release(uint32_t slot);
uint32_t kymop_self_pid(void);
uint64_t kymop_self_thread(void);
#endif

#if KYMO_POSIX_HOSTED
/*
 * kymop_prepare: the process is known: page, names. Before anything else that is asked for.
 */
int kymop_prepare(void);
void kymop_lock(void);
void kymop_unlock(void);
#endif

#if KYMO_POSIX_HOSTED
/* Time. ordered: not before anything that the thread has seen. */
uint64_t kymop_clock_read(uint32_t clock);
uint64_t kymop_clock_ordered(uint32_t clock);
uint32_t kymop_clock_kind(void);
/* The pair of now; and another one behind it. */
void kymop_clock_begin(struct kymop_base *base, uint32_t clock);
void kymop_clock_update(struct kymop_base *base);
void kymop_clock_rate(struct kymop_base *base);
/* Nanoseconds since 1970 of a stamp. Of an active stream the base becomes better meanwhile. */
uint64_t kymop_clock_ns(struct kymop_base *base, uint64_t stamp, bool is_active);
#endif

/*
 * kymop_memory_make: a stream's memory and slot, with the sizes that stream->attr asks for; the
 * view, cursors and names of the stream; the target has it, and may write when the state says so.
 */
int kymop_memory_make(struct kymop_stream *stream, pid_t pid);
/* kymop_stream_made: the attributes say what has become of them: size, time of creation. */
void kymop_stream_made(struct kymop_stream *stream);
struct kymop_names *kymop_own_names(void);
#if KYMO_POSIX_HOSTED
void kymop_memory_free(struct kymop_stream *stream);
/* Others may add names meanwhile, of this process or another: one at a time. */
void kymop_names_lock(struct kymop_names *names);
void kymop_names_unlock(struct kymop_names *names);
#endif

#if KYMO_POSIX_ONLINE
/*
 * kymop_wait: a while, until a stream may have something; longer from time to time. Between begin
 * and end no signal handler runs but in here. until_ns: CLOCK_REALTIME; UINT64_MAX: no end.
 * Returns: 0; EINTR, a handler has run; ETIMEDOUT.
 */
#define KYMOP_MASK_SPACE (KYMO_POSIX_HOSTED ? 128 : 8)
int kymop_wait(uint32_t *pause_us, uint64_t until_ns, const uint64_t *mask_space);
#if KYMO_POSIX_HOSTED
void kymop_wait_begin(uint64_t *mask_space);
void kymop_wait_end(const uint64_t *mask_space);
#endif
#endif

#if KYMO_POSIX_LOG && KYMO_POSIX_HOSTED
/*
 * kymop_file_check: whether a log with this policy can be written to file. *can_seek says how.
 * kymop_file_write: all of the bytes, at an offset, or (UINT64_MAX) where the file is.
 */
int kymop_file_check(int file, int policy, bool *can_seek);
int kymop_file_write(int file, uint64_t offset, const void *bytes, size_t count);
int kymop_file_cut(int file, uint64_t bytes);
void *kymop_alloc(size_t bytes);
void kymop_free(void *at, size_t bytes);
void kymop_uuid(uint64_t uuid[2]);
/* kymop_flusher_need: streams with the policy FLUSH are flushed from now on [posix.md 7]. */
int kymop_flusher_need(void);
#endif
#if KYMO_POSIX_RETRIEVAL
/* kymop_file_map: the whole file for reading; null bytes when it is empty. */
int kymop_file_map(int file, const uint8_t **at, size_t *bytes);
void kymop_file_unmap(const uint8_t *at, size_t bytes);
#endif

#endif
