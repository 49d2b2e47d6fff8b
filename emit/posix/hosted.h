/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hosted.h: a stream where there are processes: records, the memory that processes share, and how a
 * writer and a reader see it [posix.md 3]. The other one is platform/freestanding/freestanding.h.
 */
#ifndef KYMO_POSIX_HOSTED_H
#define KYMO_POSIX_HOSTED_H

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
/* It is mapped by itself. */
#define KYMOP_HEADER_BYTES 4096u
KYMO_STATIC_ASSERT(sizeof(struct kymop_shared) <= KYMOP_HEADER_BYTES, "fits its page");

/*
 * One stream as a process sees it that has mapped it: the addresses, and the numbers of the page as
 * they were when it was mapped. Whoever uses lanes takes them from here: others can write the page.
 */
struct kymop_view {
	struct kymop_shared *shared; /* good as long as the view: not the address of the slot */
	struct kymo_ring *rings;
	uint8_t *data; /* of lane 0 */
	uint64_t stride;
	uint32_t generation;
	uint32_t cpu_count, lane_count;
	uint32_t ring_bytes;
	uint32_t data_max;
	uint32_t clock;
	int32_t policy;
	bool is_inherited;
	uint32_t place; /* the platform's own */
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

/* A record that was read: its time in full, and the data that it has in the lane. */
struct kymop_read {
	struct kymop_record record;
	uint64_t stamp;
	uint32_t lane;
	uint32_t stored_bytes;
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

/* Whether the state was still what it was before. */
static inline bool kymop_state_change(struct kymop_shared *shared, uint64_t before, uint64_t after)
{
	return __atomic_compare_exchange_n(&shared->state, &before, after, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}
static inline uint32_t kymop_take_flag(uint32_t *flag)
{
	return __atomic_exchange_n(flag, 0, __ATOMIC_RELAXED);
}

/* What a record takes of a stream, and how a lane's head counts it [ring.md 3.2]. */
static inline size_t kymop_record_step(size_t data_bytes)
{
	return KYMOP_RECORD_BYTES + data_bytes;
}
static inline uint64_t kymop_step(uint32_t data_bytes)
{
	return KYMO_ONE_RECORD + KYMOP_RECORD_BYTES + data_bytes;
}

#endif
