/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * overwrite.c: makes room in a ring of a flight recorder: moves tail and leaves a mark, once in a
 * chunk [ring.md 10]. Called by the record path out of line, when a record does not fit.
 */
#include "internal.h"

/*
 * Marks the place of head, for its own chunk and for those in front that a long record skipped:
 * what stands there is of an earlier lap. A mark of the same chunk stays: it is the older one, and
 * the first of all is the ring's beginning.
 */
static void leave_marks(struct kymo_marks *marks, uint32_t chunk_bytes, uint64_t head)
{
	uint32_t chunks = UINT32_MAX / chunk_bytes; /* a power of two, less 1 */
	uint32_t chunk = (uint32_t)head / chunk_bytes;

	for (uint32_t back = 0; back < KYMO_MARKS; back++) {
		uint64_t *mark = &marks->at[(chunk - back) % KYMO_MARKS];
		uint32_t of = (uint32_t)__atomic_load_n(mark, __ATOMIC_RELAXED) / chunk_bytes;

		if (of == ((chunk - back) & chunks))
			break;
		__atomic_store_n(mark, head, __ATOMIC_RELAXED);
	}
}

/*
 * kymo_overwrite: gives up the oldest bytes of a lane so that a record of bytes fits behind head (a
 * word of the lane: head, or reserve of a portable one), and a chunk more.
 * Returns: true when another attempt may succeed; false in discard mode, and for a record longer
 * than the ring.
 * Context: any; no system call. Callers hold the memory.
 */
bool kymo_overwrite(const struct kymo_memory *memory, uint32_t lane, uint64_t *head, uint64_t bytes)
{
	struct kymo_ring *ring = &memory->rings[lane];
	uint32_t room = memory->ring_bytes - KYMO_STORE_PAST;
	uint32_t chunk_bytes = memory->ring_bytes / KYMO_CHUNKS;
	uint64_t tail, now;
	uint32_t ahead;

	if (!memory->marks || bytes > room)
		return false;
	tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	now = __atomic_load_n(head, __ATOMIC_RELAXED);
	if ((uint32_t)(now + bytes) - (uint32_t)tail <= room)
		return true;
	/* Not beyond head: what is there now stays intact until it is written over. */
	ahead = (uint32_t)bytes + chunk_bytes < room ? (uint32_t)bytes + chunk_bytes : room;
	leave_marks(&memory->marks[lane], chunk_bytes, now);
	__atomic_compare_exchange_n(&ring->tail, &tail, (uint64_t)(uint32_t)((uint32_t)now + ahead - room),
				    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	return true;
}
