/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * freestanding.h: a stream without an operating system [target.md 2]: one lane in static memory,
 * which tasks and interrupts of one core write. In the place of hosted.h.
 */
#ifndef KYMO_POSIX_FREESTANDING_H
#define KYMO_POSIX_FREESTANDING_H

#include "kymo/target.h"

/* A call would be longer than what it does. */
#define KYMOP_INLINE static inline __attribute__((always_inline))

/* A record in the lane and on the line, without the data behind it, which are padded to whole words. */
struct kymop_record {
	uint64_t word; /* id | time stamp * 2^16 */
	uint32_t thread;
	uint32_t address;
	uint16_t flags;
	uint16_t data_bytes;
} __attribute__((packed, aligned(4)));
KYMO_CHECK_SIZE(struct kymop_record, 20);
KYMO_CHECK_OFFSET(struct kymop_record, data_bytes, 18);
#define KYMOP_RECORD_BYTES 20u
#define KYMOP_PID 1

/* The lane: a power of two that holds what a stream may be asked to hold. */
#define KYMOP_POWER(n) \
	((n) <= 256u ? 256u : (n) <= 512u ? 512u : (n) <= 1024u ? 1024u : (n) <= 2048u ? 2048u : \
	 (n) <= 4096u ? 4096u : (n) <= 8192u ? 8192u : (n) <= 16384u ? 16384u : (n) <= 32768u ? 32768u : \
	 65536u)
#define KYMOP_LANE_BYTES KYMOP_POWER(KYMO_POSIX_STREAM_BYTES_MAX)
#if KYMO_POSIX_STREAM_BYTES_MAX > 65536
#error "KYMO_POSIX_STREAM_BYTES_MAX must be at most 65536 without an operating system"
#endif

/* Nobody but this program sees it, so layouts may differ. */
struct kymop_shared {
	uint32_t state; /* enum kymop_state */
	uint32_t full, overrun;
	int32_t policy;
	uint32_t data_max;
	uint32_t filter[(KYMOP_EVENTS + 31) / 32];
	/* Bytes, which count on for ever [target.md 2.1]. */
	uint32_t head;	  /* everything below is whole */
	uint32_t tail;	  /* everything below is free again */
	uint32_t reserve; /* end of the space that is handed out */
	uint32_t inside;  /* writers that have not left */
	uint32_t lost;	  /* records that are not and will not be read */
	uint32_t overflow; /* enum kymop_overflow: of overflow_word */
	uint64_t overflow_word; /* header word of the first record that was overwritten */
	uint32_t lane[KYMOP_LANE_BYTES / 4];
};

enum kymop_overflow { KYMOP_NO_OVERFLOW = 0, KYMOP_OVERFLOW_BEGUN = 1, KYMOP_OVERFLOW_KNOWN = 2 };

extern struct kymop_shared kymop_headers[KYMO_POSIX_STREAMS];
KYMOP_INLINE struct kymop_shared *kymop_shared(uint32_t slot)
{
	/* A place that the compiler knows, where there is one. */
	return &kymop_headers[KYMO_POSIX_STREAMS > 1 ? slot : 0];
}

/* What a writer brings. */
struct kymop_event {
	uint16_t id;
	uint16_t flags;
	uint32_t address;
	const void *data;
	uint32_t data_bytes;
};

/* A record that was read: its time in full, and how many were lost before it. */
struct kymop_read {
	struct kymop_record record;
	uint32_t lost;
	uint64_t stamp;
};

/* Order between what is written and who interrupts it: one core, so nothing but the compiler. */
KYMOP_INLINE void kymop_fence(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
KYMOP_INLINE uint32_t kymop_load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* What a record takes of a lane. */
KYMOP_INLINE size_t kymop_record_step(size_t data_bytes)
{
	return KYMOP_RECORD_BYTES + ((data_bytes + 3) & ~(size_t)3);
}

/* atomic.c: against interrupts of the same core. Return: cas, whether it was done; add, the sum. */
#if defined(__ARM_ARCH) && __ARM_ARCH_ISA_THUMB == 1
bool kymop_cas(uint32_t *word, uint32_t before, uint32_t after);
uint32_t kymop_add(uint32_t *word, uint32_t count);
#else
KYMOP_INLINE bool kymop_cas(uint32_t *word, uint32_t before, uint32_t after)
{
	return __atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}
KYMOP_INLINE uint32_t kymop_add(uint32_t *word, uint32_t count)
{
	return __atomic_add_fetch(word, count, __ATOMIC_RELAXED);
}
#endif

/* lane.c */
void kymop_lane_write(struct kymop_shared *shared, const struct kymop_event *event);
void kymop_lane_out(const struct kymop_shared *shared, uint32_t from, void *to, uint32_t bytes);

/* Whether the state was still what it was before. */
KYMOP_INLINE bool kymop_state_change(struct kymop_shared *shared, uint32_t before, uint32_t after)
{
	return kymop_cas(&shared->state, before, after);
}
KYMOP_INLINE bool kymop_take_flag(uint32_t *flag)
{
	return kymop_cas(flag, 1, 0);
}

/* There is one process, and its names are always known. */
#define kymop_lock kymo_target_lock
#define kymop_unlock kymo_target_unlock
static inline int kymop_prepare(void)
{
	return 0;
}
#define kymop_names_lock(names) ((void)(names), true)
#define kymop_names_unlock(names) ((void)(names))
/* Writers look at state and filter themselves. */
#define kymop_wants_update(shared) ((void)(shared))
#define kymop_filter_changed(shared) ((void)(shared))

/* Nothing to give back, no signals to hold back, no cursors to put at the begin. */
#define kymop_memory_free(stream) ((void)(stream))
#define kymop_reader_begin(stream) ((void)(stream))
#define kymop_wait_begin(mask_space) ((void)(mask_space))
#define kymop_wait_end(mask_space) ((void)(mask_space))

/* memory.c */
void kymop_time_of(uint64_t stamp, struct timespec *time);

#endif
