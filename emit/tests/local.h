/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * local.h: a collector inside the test itself, without sockets: makes the memory, attaches slot 0,
 * enables events, and reads lanes the way ring.md 4 prescribes. For tests of the ring alone; linked
 * with libkymo.a, whose internals it uses.
 */
#ifndef KYMO_TEST_LOCAL_H
#define KYMO_TEST_LOCAL_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../src/internal.h"
#include "kymo/tracepoint.h"

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond);                 \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * In front of libkymo's own start: no session may attach to a process that fills the slots by itself. A
 * relative directory is none [session.md 1]. LOCAL_IS_FOUND: a test that fills none, and is to be found.
 */
#ifndef LOCAL_IS_FOUND
static void __attribute__((constructor(101))) local_alone(void)
{
	setenv("KYMO_RUNTIME_DIR", "none", 1);
}
#endif

/* The collector's own view of the memory; the writers have another mapping of it. */
struct local {
	struct kymo_memory view;
	uint8_t *data[KYMO_CLAIMS_MAX]; /* doubled, mapped when first read */
	uint32_t lane_count, ring_bytes;
	int fd;
	struct kymo_mem *mem;
};

/* For the session of a slot, with contexts as header has them. Returns what kymo_memory_map says. */
static inline int local_attach_at(struct local *local, uint32_t slot_number, uint32_t ring_bytes,
				  uint32_t lane_count, bool overwrite, const struct kymo_mem *header)
{
	struct kymo_msg_attach attach = { .msg = { KYMO_MSG_ATTACH, sizeof(attach) } };
	uint32_t marks_offset = KYMO_MEM_HEADER_BYTES + lane_count * (uint32_t)sizeof(struct kymo_ring);
	struct kymo_memory *memory = &kymo_memories[slot_number];
	struct kymo_mem mem = *header;
	struct kymo_fd given;
	struct kymo_slot slot;
	int error, fd = memfd_create("kymo-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	attach.abi = KYMO_ABI_VERSION;
	attach.kind = kymo_kind;
	attach.clock = kymo_clock_kind;
	attach.lane_count = lane_count;
	attach.ring_bytes = ring_bytes;
	attach.rings_offset = KYMO_MEM_HEADER_BYTES;
	attach.data_offset =
		(marks_offset + (overwrite ? lane_count * (sizeof(struct kymo_marks) + sizeof(struct kymo_places)) : 0) +
		 4095) & ~4095ull;
	attach.mem_bytes = attach.data_offset + (uint64_t)lane_count * ring_bytes;
	attach.serial = 77 + slot_number;
	CHECK(!ftruncate(fd, (off_t)attach.mem_bytes), "size");
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "seals");
	memset(local, 0, sizeof(*local));
	mem.marks_offset = overwrite ? marks_offset : 0;
	CHECK(pwrite(fd, &mem, sizeof(mem), 0) == sizeof(mem), "header");
	if (overwrite) {
		uint64_t tail = (uint32_t)(ring_bytes / KYMO_CHUNKS - (ring_bytes - KYMO_STORE_PAST));

		for (uint32_t lane = 0; lane < lane_count; lane++)
			CHECK(pwrite(fd, &tail, sizeof(tail),
				     (off_t)(KYMO_MEM_HEADER_BYTES + lane * sizeof(struct kymo_ring) +
					     offsetof(struct kymo_ring, tail))) == sizeof(tail), "tail");
	}
	given = kymo_fd_note(dup(fd));
	error = kymo_memory_map(memory, &attach, &given);
	kymo_fd_close(&given);
	if (error) {
		close(fd);
		return error;
	}
	kymo_with_contexts[slot_number] = memory->contexts.bits != 0;
	local->view = *memory;
	local->fd = fd;
	local->lane_count = lane_count;
	local->ring_bytes = ring_bytes;
	local->mem = kymo_memory_header(&local->view);
	slot = kymo_memory_slot(memory, kymo_kind);
	kymo_slot_publish(slot_number, &slot);
	return 0;
}

static inline void local_attach(struct local *local, uint32_t ring_bytes, uint32_t lane_count,
				bool overwrite)
{
	const struct kymo_mem header = { .magic = KYMO_MEM_MAGIC };

	CHECK(!local_attach_at(local, 0, ring_bytes, lane_count, overwrite, &header), "writer's mapping");
}

static inline void local_enable(struct kymo_event *event, uint16_t id)
{
	kymo_event_enable(event, 0, id);
}

static inline struct kymo_ring *local_ring(const struct local *local, uint32_t lane)
{
	return &local->view.rings[lane];
}

/* The reader's own mapping of a lane, twice in a row. */
static inline void local_map(struct local *local, uint32_t lane)
{
	size_t bytes = local->ring_bytes;
	uint8_t *to;

	if (local->data[lane])
		return;
	to = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(to != MAP_FAILED, "room");
	for (size_t half = 0; half < 2; half++)
		CHECK(mmap(to + half * bytes, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, local->fd,
			   (off_t)(local->view.control_bytes + lane * bytes)) != MAP_FAILED,
		      "reader's mapping");
	local->data[lane] = to;
}

/*
 * Hands over what is published on a lane: the bytes from tail to head, contiguous. Returns how
 * many; local_done frees them.
 */
static inline uint32_t local_take(struct local *local, uint32_t lane, const uint8_t **bytes,
				  uint64_t *head)
{
	struct kymo_ring *ring = local_ring(local, lane);
	uint32_t used;

	*head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	used = (uint32_t)*head - (uint32_t)ring->tail;
	CHECK(used <= local->ring_bytes, "lane %u holds %u bytes", lane, used);
	if (used)
		local_map(local, lane);
	*bytes = local->data[lane] + (ring->tail & (local->ring_bytes - 1));
	return used;
}

static inline void local_done(struct local *local, uint32_t lane, uint64_t head)
{
	__atomic_store_n(&local_ring(local, lane)->tail, head, __ATOMIC_RELEASE);
}

/*
 * Overwrite mode: copies what is intact on a lane to copy (ring_bytes). Returns its bytes; *from and
 * *head say which [ring.md 10]. 0 where the writer was faster.
 */
static inline uint32_t local_snapshot(struct local *local, uint32_t lane, uint8_t *copy, uint64_t *from,
				      uint64_t *head)
{
	const struct kymo_marks *marks = &local->view.marks[lane];
	struct kymo_ring *ring = local_ring(local, lane);
	uint32_t best = 0, tail;

	*head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	local_map(local, lane);
	memcpy(copy, local->data[lane] + (*head & (local->ring_bytes - 1)), local->ring_bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	tail = (uint32_t)__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	*from = *head;
	for (uint32_t i = 0; i < KYMO_MARKS; i++) {
		uint64_t mark = __atomic_load_n(&marks->at[i], __ATOMIC_RELAXED), span = *head - mark;
		uint32_t bytes = (uint32_t)span;

		if ((int32_t)((uint32_t)mark - tail) < 0 || bytes > local->ring_bytes ||
		    (span >> 32) * 12 > bytes || bytes <= best)
			continue;
		best = bytes;
		*from = mark;
	}
	memmove(copy, copy + local->ring_bytes - best, best);
	return best;
}

static inline uint64_t local_lost(const struct local *local)
{
	uint64_t lost = __atomic_load_n(&local->mem->lost_lane, __ATOMIC_RELAXED);

	for (uint32_t lane = 0; lane < local->lane_count; lane++) {
		const struct kymo_ring *ring = local_ring(local, lane);

		lost += __atomic_load_n(&ring->lost_full, __ATOMIC_RELAXED) +
			__atomic_load_n(&ring->lost_size, __ATOMIC_RELAXED) +
			__atomic_load_n(&ring->lost_restart, __ATOMIC_RELAXED);
	}
	return lost;
}

#endif
