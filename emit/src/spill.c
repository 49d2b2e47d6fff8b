/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spill.c: the lane for records whose sequence cannot be completed: single-stepped, or on a CPU that the memory was not
 * laid out for [ring.md 5.4]. Plain code under a try-lock; nobody waits.
 */
#include <string.h>

#include "internal.h"

/* Threads between looking at a slot and leaving it again; its memory stays mapped meanwhile. */
static uint32_t users[KYMO_SLOTS];

/* kymo_spill_idle: nobody holds a pointer into the slot's memory any more. After the fence of ring.md 5.3 only. */
bool kymo_spill_idle(uint32_t slot)
{
	return __atomic_load_n(&users[slot], __ATOMIC_SEQ_CST) == 0;
}

/* The spill lane of a live slot, with the slot held; null (and not held) where the session is gone. */
static struct kymo_lane *hold(uint32_t slot)
{
	struct kymo_slot *from = &kymo_runtime.slots[slot];
	uint32_t cpu_count;

	__atomic_add_fetch(&users[slot], 1, __ATOMIC_SEQ_CST);
	cpu_count = __atomic_load_n(&from->cpu_count, __ATOMIC_SEQ_CST);
	if (cpu_count)
		return &__atomic_load_n(&from->lanes, __ATOMIC_RELAXED)[cpu_count];
	__atomic_sub_fetch(&users[slot], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void release(uint32_t slot)
{
	__atomic_sub_fetch(&users[slot], 1, __ATOMIC_SEQ_CST);
}

void kymo_count_restart_loss(uint32_t slot)
{
	struct kymo_lane *lane = hold(slot);

	if (!lane)
		return;
	__atomic_add_fetch(&lane->ring->lost_restart, 1, __ATOMIC_RELAXED);
	release(slot);
}

static void write_locked(struct kymo_lane *lane, uint64_t id, uint32_t room, uint32_t mask,
			 const struct kymo_seg *segs, const struct kymo_seg *segs_end,
			 uint64_t bytes)
{
	struct kymo_ring *ring = lane->ring;
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t word = kymo_clock_read() << 16 | id;
	uint8_t *at = lane->data + (head & mask);

	if ((uint32_t)head - (uint32_t)tail + (uint32_t)bytes > room) {
		__atomic_add_fetch(&ring->lost_full, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&ring->last, word, __ATOMIC_RELAXED);
	memcpy(at, &word, sizeof(word));
	at += sizeof(word);
	for (; segs < segs_end; segs++) {
		memcpy(at, segs->at, segs->bytes);
		at += segs->bytes;
	}
	__atomic_store_n(&ring->head, head + bytes + KYMO_ONE_RECORD, __ATOMIC_RELEASE);
}

void kymo_spill(struct kymo_event *event, uint32_t slot, const struct kymo_seg *segs,
		const struct kymo_seg *segs_end, uint64_t payload_bytes)
{
	struct kymo_lane *lane = hold(slot);
	uint16_t id;

	if (!lane)
		return;
	id = __atomic_load_n(&event->id[slot], __ATOMIC_RELAXED);
	if (!id)
		goto out;
	if (__atomic_exchange_n(&lane->ring->owner, 1, __ATOMIC_ACQUIRE)) {
		__atomic_add_fetch(&lane->ring->lost_restart, 1, __ATOMIC_RELAXED);
		goto out;
	}
	write_locked(lane, id, kymo_runtime.slots[slot].room, kymo_runtime.slots[slot].mask, segs,
		     segs_end, KYMO_RECORD_HEADER + payload_bytes);
	__atomic_store_n(&lane->ring->owner, 0, __ATOMIC_RELEASE);
out:
	release(slot);
}
