/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * record.c: a record for all sessions, out of line: restarts, a full ring, the spill lane, a thread's
 * first record, contexts. Reached from entry.c, when the attempts there did not write. No locks;
 * atomics only where a record is lost or spilled. Nobody waits, but in a session and a program that
 * want it so [session.md 12].
 */
#include <errno.h>
#include <string.h>

#include "compact.h"
#include "filter.h"
#include "kymo/tracepoint.h"

/* Restarts of one sequence before the record goes to the spill lane [ring.md 5.4]. */
#define RESTARTS_MAX 64
/* Pieces of a payload: 32 fields, in front of each and behind the last a run of staged bytes. */
#define PIECES_MAX 65

#if KYMO_ARCH_SEQUENCE
static bool is_full(const struct kymo_ring *ring, uint64_t step, uint32_t room)
{
	/* In this order: outside a sequence head moves on, and must not be seen behind tail. */
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

	return (uint32_t)(head + step) - (uint32_t)tail > room;
}

static void count(uint64_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* A record on its way out of line. */
struct record {
	struct kymo_self *self;
	const struct kymo_slot *slot;
	const struct kymo_memory *memory;
	uint64_t step;
	uint16_t id;
	bool is_compact; /* step is that of its longest form [ring.md 11] */
	struct kymo_wait wait;
	const struct kymo_seg *segs, *segs_end;
};

/* The spill lane, by plain code under its try-lock. Nobody waits. */
static void spill(struct kymo_ring *rings, uint32_t lane, const struct record *record)
{
	const struct kymo_slot *slot = record->slot;
	struct kymo_ring *ring = &rings[lane];
	uint64_t head, word;
	uint8_t *at;

	if (__atomic_exchange_n(&ring->owner, 1, __ATOMIC_ACQUIRE)) {
		count(&ring->lost_restart);
		return;
	}
	if (is_full(ring, record->step, slot->room) &&
	    !kymo_overwrite(record->memory, lane, &ring->head, record->step - KYMO_ONE_RECORD)) {
		count(&ring->lost_full);
		goto out;
	}
	head = ring->head;
	at = (uint8_t *)rings + slot->data_offset + lane * slot->stride + (head & slot->mask);
	if (record->is_compact) {
		kymo_compact_spill(ring, at, record->self->tid, record->id, record->step, record->segs,
				   record->segs_end);
		goto out;
	}
	word = kymo_clock_read() << 16 | record->id;
	__atomic_store_n(&ring->last, word, __ATOMIC_RELAXED);
	memcpy(at, &word, sizeof(word));
	memcpy(at + KYMO_RECORD_HEADER, &record->self->tid, sizeof(record->self->tid));
	kymo_copy_segs(at + KYMO__BEFORE_PAYLOAD, record->segs, record->segs_end);
	__atomic_store_n(&ring->head, head + record->step, __ATOMIC_RELEASE);
out:
	__atomic_store_n(&ring->owner, 0, __ATOMIC_RELEASE);
}

/*
 * The ring has no room. In overwrite mode there is some now. A loss that is not counted by its sequence
 * is counted at the spill lane: lost_full of a CPU's lane is no atomic's.
 */
static enum kymo_verdict settle_full(struct kymo_ring *rings, uint32_t cpu, uint32_t cpu_count,
				     struct record *record, bool last_attempt)
{
	if (kymo_overwrite(record->memory, cpu, &rings[cpu].head, record->step - KYMO_ONE_RECORD))
		return KYMO_RETRY;
	if (kymo_may_wait(record->self, &record->wait, record->memory))
		return KYMO_WAIT;
	if (!record->slot->counts_full || last_attempt) {
		count(&rings[cpu_count].lost_full);
		return KYMO_SETTLED;
	}
	return KYMO_RETRY;
}

/* An attempt did not write. Finds out why, and deals with it. The memory is held. */
static enum kymo_verdict settle(struct kymo_ring *rings, struct record *record, bool last_attempt)
{
	const struct kymo_slot *slot = record->slot;
	uint32_t cpu_count = __atomic_load_n(&slot->cpu_count, __ATOMIC_RELAXED);
	uint32_t cpu = kymo__sequence_cpu(slot->rseq_offset);
	uint64_t bytes = record->step - KYMO_ONE_RECORD;

	if (!record->id)
		return KYMO_SETTLED;
	if (!cpu_count) /* since it was held; the next look says where to */
		return KYMO_RETRY;
	if (bytes > KYMO_RECORD_MAX || bytes > slot->room) {
		count(&rings[cpu < cpu_count ? cpu : cpu_count].lost_size);
		return KYMO_SETTLED;
	}
	if (cpu < cpu_count && is_full(&rings[cpu], record->step, slot->room)) {
		enum kymo_verdict verdict = settle_full(rings, cpu, cpu_count, record, last_attempt);

		if (verdict != KYMO_RETRY)
			return verdict;
	}
	if (cpu < cpu_count && !last_attempt)
		return KYMO_RETRY;
	spill(rings, cpu_count, record);
	return KYMO_SETTLED;
}

static inline int sequence_attempt(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
			  const struct kymo_seg *segs, const struct kymo_seg *segs_end, bool is_compact)
{
	if (is_compact)
		return kymo__sequence_compact(slot, event, step, segs, segs_end);
	return kymo__sequence_segs(slot, event, step, segs, segs_end);
}

/* An attempt, and what becomes of it. */
static enum kymo_verdict rseq_attempt(struct kymo_event *event, uint32_t index,
				      struct record *record, bool last_attempt)
{
	const struct kymo_slot *slot = &kymo_process->slots[index];
	struct kymo_ring *rings;
	enum kymo_verdict verdict;

	if (record->step - KYMO_ONE_RECORD <= KYMO_RECORD_MAX &&
	    sequence_attempt(slot, event, record->step, record->segs, record->segs_end, record->is_compact))
		return KYMO_SETTLED;
	if (slot->rseq_offset)
		kymo__sequence_clear(slot->rseq_offset);
	rings = kymo_hold(index);
	if (!rings)
		return KYMO_GONE;
	record->slot = slot;
	record->memory = &kymo_memories[index];
	record->id = __atomic_load_n(&event->id[index], __ATOMIC_RELAXED);
	verdict = settle(rings, record, last_attempt);
	kymo_release(index);
	return verdict;
}

/* A record that the first attempt did not write. */
static __attribute__((noinline)) enum kymo_verdict
rseq_write_again(struct kymo_self *self, struct kymo_event *event, uint32_t index, uint64_t step,
		 const struct kymo_seg *segs, const struct kymo_seg *segs_end, bool is_compact)
{
	struct record record = { .self = self, .step = step, .is_compact = is_compact, .segs = segs,
				 .segs_end = segs_end };
	uint32_t moved;

	for (unsigned restarts = 0;; restarts++) {
		switch (rseq_attempt(event, index, &record, restarts >= RESTARTS_MAX)) {
		case KYMO_SETTLED:
			return KYMO_SETTLED;
		case KYMO_RETRY:
			break;
		case KYMO_WAIT:
			restarts = 0;
			kymo_wait(&record.wait);
			/* This may be a child by now, of a handler that forked. */
			kymo_refresh(self);
			break;
		case KYMO_GONE:
			moved = __atomic_load_n(&kymo_moved_to[index], __ATOMIC_ACQUIRE);
			if (!moved || kymo_with_contexts[index])
				return KYMO_GONE;
			index = moved - 1;
		}
	}
}

static inline enum kymo_verdict rseq_write(struct kymo_self *self, struct kymo_event *event,
					   uint32_t index, uint64_t step,
					   const struct kymo_seg *segs,
					   const struct kymo_seg *segs_end, bool is_compact)
{
	if (KYMO__LIKELY(step - KYMO_ONE_RECORD <= KYMO_RECORD_MAX) &&
	    KYMO__LIKELY(sequence_attempt(&kymo_process->slots[index], event, step, segs, segs_end, is_compact)))
		return KYMO_SETTLED;
	return rseq_write_again(self, event, index, step, segs, segs_end, is_compact);
}
#endif

/*
 * For one session, which is followed to other rings. With contexts it is not: they are of the slot
 * that is held. Returns: KYMO_SETTLED or KYMO_GONE.
 */
static inline __attribute__((always_inline)) enum kymo_verdict
write_one(struct kymo_self *self, struct kymo_event *event, uint32_t slot, uint64_t step,
	  const struct kymo_seg *segs, const struct kymo_seg *segs_end, bool is_compact)
{
	if (is_compact)
		step += KYMO_COMPACT_EXCESS;
#if KYMO_ARCH_SEQUENCE
	if (kymo_kind == KYMO_KIND_RSEQ)
		return rseq_write(self, event, slot, step, segs, segs_end, is_compact);
#endif
	return kymo_portable_write(self, event, slot, step, segs, segs_end, is_compact);
}

static __attribute__((noinline)) enum kymo_verdict
write_compact(struct kymo_self *self, struct kymo_event *event, uint32_t slot, uint64_t step,
	      const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	return write_one(self, event, slot, step, segs, segs_end, true);
}

/* The same with the contexts of a slot that is held in front of the payload. */
static enum kymo_verdict write_held(struct kymo_self *self, struct kymo_event *event, uint32_t slot,
				    uint64_t step, const struct kymo_seg *segs,
				    const struct kymo_seg *segs_end, const void *frame)
{
	uint64_t words[KYMO_CONTEXT_BYTES_MAX / 8 + 2];
	struct kymo_seg all[PIECES_MAX + 1];
	struct kymo_seg *end = all + 1;
	uint32_t bytes = kymo_contexts_put(self, slot, frame, (uint8_t *)words);

	memset((uint8_t *)words + bytes, 0, 8);
	all[0] = (struct kymo_seg){ words, bytes | KYMO_SEG_STAGED };
	/* Without the empty ones: of a staged piece a whole word is written, however short it is. */
	for (; segs < segs_end && end < all + PIECES_MAX + 1; segs++)
		if (segs->bytes & ~KYMO_SEG_STAGED)
			*end++ = *segs;
	if (segs < segs_end)
		step = KYMO_ONE_RECORD + KYMO_RECORD_MAX; /* nothing makes such a record; it is counted */
	if (KYMO__UNLIKELY(kymo_is_compact(slot)))
		return write_compact(self, event, slot, step + bytes, bytes ? all : all + 1, end);
	return write_one(self, event, slot, step + bytes, all, end, false);
}

/*
 * For one session with contexts. The slot is held all along: what they were made for is the memory
 * that the record goes to.
 */
static __attribute__((noinline)) void write_with_contexts(struct kymo_self *self,
							  struct kymo_event *event, uint32_t slot,
							  uint64_t step, const struct kymo_seg *segs,
							  const struct kymo_seg *segs_end,
							  const void *frame)
{
	enum kymo_verdict verdict;
	uint32_t moved;

	for (;; slot = moved - 1) {
		if (kymo_hold(slot)) {
			verdict = write_held(self, event, slot, step, segs, segs_end, frame);
			kymo_release(slot);
			if (verdict == KYMO_SETTLED)
				return;
		}
		moved = __atomic_load_n(&kymo_moved_to[slot], __ATOMIC_ACQUIRE);
		if (!moved) {
			kymo_lanes_gone(slot);
			return;
		}
	}
}

/* A record of a thread that may not read a clock: lost for each session that wants it. */
static __attribute__((noinline)) void lose(uint32_t wanted)
{
	for (; wanted; wanted &= wanted - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);
		const struct kymo_memory *memory = &kymo_memories[slot];

		if (!kymo_hold(slot)) {
			kymo_lanes_gone(slot);
			continue;
		}
		if (kymo_kind == KYMO_KIND_PORTABLE)
			__atomic_add_fetch(&kymo_memory_header(memory)->lost_lane, 1, __ATOMIC_RELAXED);
		else
			__atomic_add_fetch(&memory->rings[memory->lane_count - 1].lost_restart, 1,
					   __ATOMIC_RELAXED);
		kymo_release(slot);
	}
}

/*
 * kymo_write_to: for the sessions in wanted, a bit for each slot. frame: of the function that the tracepoint
 * called.
 */
__attribute__((noinline)) void kymo_write_to(uint32_t wanted, struct kymo_event *event,
					       uint64_t step, const struct kymo_seg *segs,
					       const struct kymo_seg *segs_end, const void *frame)
{
	struct kymo_self *self = kymo_self();
	int saved_errno = errno;

	kymo_refresh(self);
	if (KYMO__UNLIKELY(self->is_clockless)) {
		lose(wanted);
		return;
	}
	self->busy++;
	for (; wanted; wanted &= wanted - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(wanted);

		if (kymo_with_contexts[slot])
			write_with_contexts(self, event, slot, step, segs, segs_end, frame);
		else
			write_one(self, event, slot, step, segs, segs_end, false);
	}
	self->busy--;
	errno = saved_errno;
}

KYMO_EXPORT void kymo_thread_init(void)
{
	struct kymo_self *self = kymo_self();
	int saved_errno = errno;

	if (!kymo__module.rt)
		return; /* no events, no runtime */
	kymo_refresh(self);
	if (kymo_kind == KYMO_KIND_PORTABLE)
		kymo_lanes_claim_all(self);
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_with_contexts[slot] && kymo_hold(slot)) {
			kymo_contexts_thread(self, slot);
			kymo_release(slot);
		}
	errno = saved_errno;
}

KYMO_EXPORT const char *kymo_version(void)
{
	return KYMO_VERSION;
}
