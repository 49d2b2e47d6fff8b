/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * portable.c: the ring of one thread, for processes without rseq or without a usable TSC [ring.md
 * 6]. Signal handlers nest on it; the outermost record publishes. Whose lane is which is lanes.c.
 */
#include <string.h>

#include "compact.h"
#include "lanes.h"
#include "put.h"

/* Where tests let a signal handler run: emit/tests/interrupted.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

/* The outermost record of a lane publishes all that is complete [ring.md 6]. */
static void leave(struct kymo_claim *claim)
{
	struct kymo_ring *ring = claim->ring;
	uint64_t reserve;

	if (claim->depth > 1) {
		claim->depth--;
		return;
	}
	do {
		__atomic_store_n(&claim->depth, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		reserve = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
		__atomic_store_n(&ring->head, reserve, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&claim->depth, 0, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) !=
		 __atomic_load_n(&ring->head, __ATOMIC_RELAXED));
}

/*
 * Space for a record at the end of what is handed out. Returns false when the ring is full. Room is looked
 * for before the clock is read. The clock is read, and last set, between looking at reserve and
 * exchanging it, so that neither is older than what a handler wrote meanwhile; a record that finds no room
 * behind an exchange that failed sets last again.
 */
static inline bool reserve(const struct kymo_slot *to, uint32_t slot, struct kymo_ring *ring, uint64_t id,
			   uint64_t step, uint64_t *position, uint64_t *word)
{
	bool is_dated = false;

	for (;;) {
		uint64_t tail;

		*position = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (KYMO__UNLIKELY((uint32_t)(*position + step) - (uint32_t)tail > to->room)) {
			const struct kymo_memory *memory = &kymo_memories[slot];

			if (is_dated)
				__atomic_store_n(&ring->last, kymo_clock_read() << 16 | id, __ATOMIC_RELAXED);
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) == *position &&
			    !kymo_overwrite(memory, (uint32_t)(ring - memory->rings), &ring->reserve,
					    step - KYMO_ONE_RECORD))
				return false;
			continue;
		}
		*word = kymo_clock_read() << 16 | id;
		__atomic_store_n(&ring->last, *word, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (KYMO__LIKELY(kymo__cas_local(&ring->reserve, *position, *position + step)))
			return true;
		is_dated = true;
	}
}

/*
 * From here on the slot's memory stays mapped. Without a cell by a locked instruction: if this thread was
 * away since it looked, the slot may have had another memory meanwhile, and the lane may be another
 * thread's. A cell is nobody else's.
 */
static inline void enter(struct kymo_cell *cell, struct kymo_claim *claim, uint32_t slot)
{
	if (KYMO__LIKELY(cell != NULL))
		__atomic_store_n(&cell->inside[slot], cell->inside[slot] + 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&claim->users, 1, __ATOMIC_SEQ_CST);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void go_out(struct kymo_cell *cell, struct kymo_claim *claim, uint32_t slot)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (KYMO__LIKELY(cell != NULL))
		__atomic_store_n(&cell->inside[slot], cell->inside[slot] - 1, __ATOMIC_RELEASE);
	else
		__atomic_sub_fetch(&claim->users, 1, __ATOMIC_SEQ_CST);
}

/*
 * One attempt, with all that it takes given back at its end: who waits for room between two
 * attempts is outside of the lane, and what handlers record meanwhile is published.
 */
static inline __attribute__((always_inline)) enum kymo_verdict
attempt(struct kymo_self *self, struct kymo_event *event, uint32_t slot, uint64_t step, const struct kymo_seg *segs,
	const struct kymo_seg *segs_end, struct kymo_wait *wait, bool is_compact)
{
	struct kymo_slot *to = &kymo_process->slots[slot];
	enum kymo_verdict verdict = KYMO_SETTLED;
	struct kymo_claim *claim = lane_of(self, slot, &verdict);
	uint64_t bytes = step - KYMO_ONE_RECORD;
	struct kymo_compact compact;
	uint64_t position, word;
	struct kymo_ring *ring;
	struct kymo_cell *cell;
	uint8_t *at;
	uint16_t id;

	if (!claim)
		return verdict;
	cell = self->cell;
	enter(cell, claim, slot);
	/* Switched off since: the helper thread fences, then looks at users. */
	verdict = KYMO_GONE;
	if (!__atomic_load_n(&to->cpu_count, __ATOMIC_ACQUIRE))
		goto out;
	verdict = KYMO_RETRY;
	if (!is_ours(claim, self, slot)) {
		self->claim[slot] = 0;
		goto out;
	}
	verdict = KYMO_SETTLED;
	if (!cell)
		__atomic_store_n(&claim->inside, claim->inside + 1, __ATOMIC_RELAXED);
	id = __atomic_load_n(&event->id[slot], __ATOMIC_RELAXED);
	if (!id)
		goto give_back;
	ring = claim->ring;
	__atomic_store_n(&claim->depth, claim->depth + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (bytes > KYMO_RECORD_MAX || bytes > to->room) {
		kymo__add_local(&ring->lost_size, 1);
	} else if (is_compact ? !kymo_compact_reserve(to, slot, ring, self->tid, id, step, &compact) :
				!reserve(to, slot, ring, id, step, &position, &word)) {
		if (kymo_may_wait(self, wait, &kymo_memories[slot]))
			verdict = KYMO_WAIT;
		else
			kymo__add_local(&ring->lost_full, 1);
	} else {
		KYMO_TEST_STOP(RESERVED);
		at = claim->data + ((is_compact ? compact.position : position) & to->mask);
		at = is_compact ? kymo_compact_header(at, &compact, self->tid) : put_header(at, word, self->tid);
		kymo_copy_segs(at, segs, segs_end);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	leave(claim);
give_back:
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!cell)
		__atomic_store_n(&claim->inside, claim->inside - 1, __ATOMIC_RELAXED);
out:
	go_out(cell, claim, slot);
	return verdict;
}

enum kymo_verdict kymo_portable_write(struct kymo_self *self, struct kymo_event *event, uint32_t slot,
				      uint64_t step, const struct kymo_seg *segs,
				      const struct kymo_seg *segs_end, bool is_compact)
{
	struct kymo_wait wait = { 0 };

	for (;;) {
		enum kymo_verdict verdict =
			is_compact ? attempt(self, event, slot, step, segs, segs_end, &wait, true) :
				     attempt(self, event, slot, step, segs, segs_end, &wait, false);
		uint32_t moved;

		if (verdict == KYMO_SETTLED)
			return verdict;
		if (verdict == KYMO_RETRY)
			continue;
		if (verdict == KYMO_WAIT) {
			kymo_wait(&wait);
			/* This may be a child by now, of a handler that forked. */
			kymo_refresh(self);
			continue;
		}
		moved = __atomic_load_n(&kymo_moved_to[slot], __ATOMIC_ACQUIRE);
		if (!moved)
			kymo_lanes_gone(slot);
		if (!moved || kymo_with_contexts[slot])
			return KYMO_GONE;
		slot = moved - 1;
	}
}

/*
 * One attempt of a thread that has recorded in this session before, with nothing in the way. segs: null for
 * words. Returns: whether the record is written, or counted as lost in a full ring.
 */
static inline __attribute__((always_inline)) bool
direct(uint32_t slot, struct kymo_event *event, uint64_t step, const uint64_t *words,
	const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	const struct kymo_slot *to = &kymo_process->slots[slot];
	struct kymo_self *self = kymo_self();
	struct kymo_cell *cell = self->cell;
	struct kymo_claim *claim = claim_of(self, slot);
	uint64_t bytes = step - KYMO_ONE_RECORD, position, word;
	bool is_settled = false;
	uint16_t id;

	if (!cell || !claim || self->generation != kymo_process->generation || bytes > to->room)
		return false;
	self->busy++;
	enter(cell, claim, slot);
	id = __atomic_load_n(&event->id[slot], __ATOMIC_RELAXED);
	if (!__atomic_load_n(&to->cpu_count, __ATOMIC_ACQUIRE) || !is_ours(claim, self, slot) || !id)
		goto out;
	__atomic_store_n(&claim->depth, claim->depth + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (reserve(to, slot, claim->ring, id, step, &position, &word)) {
		uint8_t *at = claim->data + (position & to->mask);

		KYMO_TEST_STOP(RESERVED);
		memcpy(at, &word, sizeof(word));
		memcpy(at + KYMO_RECORD_HEADER, &self->tid, sizeof(self->tid));
		at += KYMO__BEFORE_PAYLOAD;
		if (words)
			put_words(at, words, bytes - KYMO__BEFORE_PAYLOAD);
		for (; segs < segs_end; segs++)
			at = segs->bytes & KYMO_SEG_STAGED ?
				     put_words(at, segs->at, segs->bytes & ~KYMO_SEG_STAGED) :
				     put_piece(at, segs->at, segs->bytes);
		is_settled = true;
	} else if (to->counts_full) {
		kymo__add_local(&claim->ring->lost_full, 1);
		is_settled = true;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	leave(claim);
out:
	go_out(cell, claim, slot);
	self->busy--;
	return is_settled;
}

bool kymo_portable_words(uint32_t slot, struct kymo_event *event, uint64_t step, const uint64_t *words)
{
	return direct(slot, event, step, words, NULL, NULL);
}

bool kymo_portable_segs(uint32_t slot, struct kymo_event *event, uint64_t step,
			const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	return direct(slot, event, step, NULL, segs, segs_end);
}
