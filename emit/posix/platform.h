/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * platform.h: what the system must do for libkymo-posix, in emit/platform/linux or
 * emit/platform/freestanding. int is 0 or an error number.
 */
#ifndef KYMO_POSIX_PLATFORM_H
#define KYMO_POSIX_PLATFORM_H

#include "stream.h"

#pragma GCC visibility push(hidden)

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

/*
 * What the first attempt of posix_trace_event() looks at: the first page of each slot's stream,
 * at an address that is always readable. Everything else has a view.
 */
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
	uint32_t is_ours; /* 0 in a new child */
} __attribute__((aligned(KYMOP_HEADER_BYTES)));
extern struct kymop_slots kymop_slots;

/*
 * kymop_attach: the view of the stream that is in a slot for this process, mapped until
 * kymop_release. False: there is none now, or it cannot be had.
 * Context: any, signal handlers included; system calls at a stream's first event in a process.
 */
bool kymop_attach(uint32_t slot, struct kymop_view *view);
void kymop_release(const struct kymop_view *view);
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
/*
 * Others may add names meanwhile, of this process or another: one at a time. False: somebody has it
 * for longer than a second; a process that is stopped inside, or that writes what it likes.
 */
bool kymop_names_lock(struct kymop_names *names);
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

#if KYMOP_KERNEL
/*
 * Events of the kernel [posix.md 10], of a stream whose attributes ask for them; under kymop_lock.
 * kymop_kernel_make: recording is prepared, and stopped. Returns: 0; EPERM; ENOTSUP; ENOMEM; EMFILE.
 * kymop_kernel_filter: types that are in the filter are not recorded from now on. 0 or ENOMEM.
 * kymop_kernel_clear: nothing that was recorded up to now is given.
 */
int kymop_kernel_make(struct kymop_stream *stream);
void kymop_kernel_free(struct kymop_stream *stream);
void kymop_kernel_run(struct kymop_kernel *kernel, bool is_running);
int kymop_kernel_filter(struct kymop_kernel *kernel, const uint32_t *filter);
void kymop_kernel_clear(struct kymop_kernel *kernel);
bool kymop_kernel_is_due(const struct kymop_kernel *kernel);
/*
 * Reading. look: there may be something again. peek: whether there is an event, and the stamp of the
 * oldest. take: that event, or false: it was one of those that are not given. kymop_kernel_loss: what
 * was lost since the last call: the stamps before it, and behind it; false: nothing.
 */
void kymop_kernel_look(struct kymop_kernel *kernel);
bool kymop_kernel_peek(struct kymop_kernel *kernel, uint64_t *stamp);
bool kymop_kernel_take(struct kymop_kernel *kernel, struct kymop_read *read, void *data,
		       uint32_t bytes);
bool kymop_kernel_loss(struct kymop_kernel *kernel, uint64_t *before, uint64_t *behind);
#endif

#if KYMO_POSIX_LOG && KYMO_POSIX_HOSTED
/*
 * Under kymop_lock: lets it go until it is resumed, with what pause has given; waits until another
 * thread has woken those who wait. A thread is not cancelled in between.
 */
int kymop_lock_pause(void);
void kymop_lock_resume(int before);
void kymop_lock_wait(void);
void kymop_lock_wake(void);
/*
 * kymop_file_check: whether a log with this policy can be written to file. *can_seek says how.
 * kymop_file_write: all of the bytes, at an offset, or (UINT64_MAX) where the file is. *done: how many.
 */
int kymop_file_check(int file, int policy, bool *can_seek);
int kymop_file_write(int file, uint64_t offset, const void *bytes, size_t count, size_t *done);
int kymop_file_cut(int file, uint64_t bytes);
void *kymop_alloc(size_t bytes);
void kymop_free(void *at, size_t bytes);
void kymop_uuid(uint64_t uuid[2]);
/* kymop_flusher_start: a stream with the policy FLUSH is flushed from now on [posix.md 7]. */
int kymop_flusher_start(trace_id_t trid);
#endif
#if KYMO_POSIX_RETRIEVAL
/* kymop_file_map: the whole file for reading; null bytes when it is empty. */
int kymop_file_map(int file, const uint8_t **at, size_t *bytes);
void kymop_file_unmap(const uint8_t *at, size_t bytes);
#endif

#pragma GCC visibility pop

#endif
