/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * portable.c: the ring of one thread, for processes without rseq or without a usable TSC [ring.md
 * 6]. Signal handlers nest on it; the outermost record publishes. Lanes are claimed by a thread's
 * first record and handed back when it ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compact.h"
#include "put.h"

/* Where tests let a signal handler run: emit/tests/interrupted.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

#define CELLS_MAX 1024u
/* The owner of a cell that is being given back: no thread's number, so nobody takes it. */
#define CELL_BUSY UINT32_MAX

static struct kymo_claim claims[KYMO_SLOTS][KYMO_CLAIMS_MAX];
/* A bit for each slot whose lanes this process has lost by being made, until it has others. */
static uint32_t without_lanes;
static pthread_key_t exit_key;
static bool exit_key_usable;

/*
 * Where a thread says that it is inside of a slot's memory. Nobody else writes there, so that plain
 * stores do; the helper thread fences before it looks [ring.md 6]. A thread that finds none free counts
 * at its claims instead, by locked instructions.
 */
struct kymo_cell {
	uint32_t owner; /* thread id; 0: free */
	uint32_t inside[KYMO_SLOTS];
} __attribute__((aligned(64)));

static struct kymo_cell cells[CELLS_MAX];
static uint32_t cells_end; /* cells at and above this were never taken */

/* Changes the owner of a lane or a cell, if it is who was seen. */
static bool take_word(uint32_t *owner, uint32_t seen, uint32_t tid)
{
	return __atomic_compare_exchange_n(owner, &seen, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool take(struct kymo_claim *claim, uint32_t seen, uint32_t tid)
{
	return take_word(&claim->owner, seen, tid);
}

/* The lane that a thread has for a slot, as far as it knows; null: none. */
static inline struct kymo_claim *claim_of(const struct kymo_self *self, uint32_t slot)
{
	uint32_t place = self->claim[slot];

	return place ? (void *)((uint8_t *)claims + (place - 1)) : NULL;
}

static void cell_give_back(struct kymo_self *self)
{
	struct kymo_cell *cell = self->cell;

	if (!cell)
		return;
	/* Not ours from here on: a handler's first record in a session would find it again by our number. */
	__atomic_store_n(&cell->owner, CELL_BUSY, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self->cell = NULL;
	memset(cell->inside, 0, sizeof(cell->inside));
	__atomic_store_n(&cell->owner, 0, __ATOMIC_RELEASE);
}

static void thread_ends(void *value)
{
	struct kymo_self *self = value;

	cell_give_back(self);
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		if (!self->claim[slot])
			continue;
		/* If it is ours still: the slot may have another memory by now. */
		take(claim_of(self, slot), self->tid, 0);
		self->claim[slot] = 0;
	}
}

void kymo_portable_init(void)
{
	if (kymo_kind != KYMO_KIND_PORTABLE || pthread_key_create(&exit_key, thread_ends))
		return;
	exit_key_usable = exit_key < KYMO_KEYS_WITHOUT_MALLOC;
	if (!exit_key_usable)
		pthread_key_delete(exit_key);
}

/* kymo_portable_child: in a new child, whose only thread is this one: it is inside of what it was inside of. */
void kymo_portable_child(const struct kymo_self *self)
{
	for (uint32_t i = 0; i < cells_end; i++)
		if (&cells[i] != self->cell)
			memset(&cells[i], 0, sizeof(cells[i]));
}

/* kymo_portable_refresh: the calling thread has another number than before. */
void kymo_portable_refresh(const struct kymo_self *self)
{
	if (self->cell)
		__atomic_store_n(&self->cell->owner, self->tid, __ATOMIC_RELEASE);
}

static void forget(uint32_t slot)
{
	kymo_slot_publish(slot, NULL);
	memset(claims[slot], 0, sizeof(claims[slot]));
}

static bool owner_is_dead(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) && errno == ESRCH;
}

/*
 * kymo_portable_orphan: in a new child, where the parent's lanes are not mapped. was_on: the parent
 * was recorded there; the child is not, until it has rings of its own.
 */
void kymo_portable_orphan(uint32_t slot, bool was_on)
{
	forget(slot);
	if (was_on)
		without_lanes |= 1u << slot;
}

/* kymo_portable_forget: a child gives up its parent's rings, for its own. */
void kymo_portable_forget(uint32_t slot)
{
	forget(slot);
	without_lanes &= ~(1u << slot);
}

/*
 * kymo_portable_gone: a record whose slot is off. It is lost where that is so because this is a
 * child that no handler of fork has run in [ring.md 6]. Else nobody wants it.
 */
void kymo_portable_gone(uint32_t slot)
{
	if (without_lanes & 1u << slot)
		__atomic_add_fetch(&kymo_memory_header(&kymo_memories[slot])->lost_lane, 1,
				   __ATOMIC_RELAXED);
}

/*
 * kymo_portable_idle: no thread is inside a record of this slot. After the slot was switched off
 * and a membarrier.
 */
bool kymo_portable_idle(uint32_t slot)
{
	uint32_t end = __atomic_load_n(&cells_end, __ATOMIC_SEQ_CST);

	for (uint32_t i = 0; i < KYMO_CLAIMS_MAX; i++)
		if (__atomic_load_n(&claims[slot][i].users, __ATOMIC_SEQ_CST))
			return false;
	for (uint32_t i = 0; i < end; i++) {
		uint32_t owner = __atomic_load_n(&cells[i].owner, __ATOMIC_SEQ_CST);

		if (owner && __atomic_load_n(&cells[i].inside[slot], __ATOMIC_SEQ_CST) && !owner_is_dead(owner))
			return false;
	}
	return true;
}

void kymo_portable_unmap(uint32_t slot)
{
	for (uint32_t i = 0; i < KYMO_CLAIMS_MAX; i++) {
		struct kymo_claim *claim = &claims[slot][i];

		kymo_lane_give_back(&kymo_memories[slot], claim->data);
		/*
		 * Not users: a thread may be looking at this claim, and will see that it is stale.
		 */
		claim->serial = 0;
		claim->data = NULL;
		claim->owner = 0;
	}
}

/*
 * A cell for the calling thread, by its number until it ends. A cell with this number belongs to a thread
 * that ended unseen, and so do those of dead owners. None is no harm.
 */
static void find_cell(struct kymo_self *self)
{
	for (int dead = 0; dead < 2; dead++)
		for (uint32_t i = 0; i < CELLS_MAX; i++) {
			struct kymo_cell *cell = &cells[i];
			uint32_t owner = __atomic_load_n(&cell->owner, __ATOMIC_RELAXED);
			uint32_t end = i + 1, seen = __atomic_load_n(&cells_end, __ATOMIC_RELAXED);

			if (owner && owner != self->tid && !(dead && owner_is_dead(owner)))
				continue;
			while (seen < end && !__atomic_compare_exchange_n(&cells_end, &seen, end, true,
									  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				;
			if (!take_word(&cell->owner, owner, self->tid))
				continue;
			/* A handler that came in between may have found one, and may be this one's second owner. */
			if (self->cell)
				return;
			memset(cell->inside, 0, sizeof(cell->inside));
			self->cell = cell;
			return;
		}
}

/* A lane for the calling thread: free ones first, then those whose thread ended unseen. */
static struct kymo_claim *find_lane(uint32_t slot, uint32_t lane_count, uint32_t tid)
{
	for (uint32_t i = 0; i < lane_count; i++) {
		struct kymo_claim *claim = &claims[slot][i];

		if (!__atomic_load_n(&claim->owner, __ATOMIC_RELAXED) && take(claim, 0, tid))
			return claim;
	}
	for (uint32_t i = 0; i < lane_count; i++) {
		struct kymo_claim *claim = &claims[slot][i];
		uint32_t owner = __atomic_load_n(&claim->owner, __ATOMIC_RELAXED);

		if (owner_is_dead(owner) && take(claim, owner, tid))
			return claim;
	}
	return NULL;
}

static void note_lanes_used(struct kymo_mem *mem, uint32_t count)
{
	uint32_t seen = __atomic_load_n(&mem->lanes_used, __ATOMIC_RELAXED);

	while (seen < count && !__atomic_compare_exchange_n(&mem->lanes_used, &seen, count, true,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/*
 * A lane from a thread that ended in the middle of a record, by siglongjmp or cancellation: what it
 * did not publish is lost, and counted. Nothing to do for any other.
 */
static void recover(struct kymo_claim *claim, const struct kymo_memory *memory)
{
	struct kymo_ring *ring = claim->ring;

	__atomic_sub_fetch(&claim->users, claim->inside, __ATOMIC_SEQ_CST);
	claim->depth = claim->inside = 0;
	kymo__add_local(&ring->lost_restart, (ring->reserve - ring->head) >> 32);
	if (ring->reserve == ring->head)
		return;
	ring->reserve = ring->head;
	kymo_unmark(memory, (uint32_t)(ring - memory->rings));
}

/* Lanes that threads may claim now: what the session's memory has room for [session.md 6]. */
static uint32_t lanes_allowed(const struct kymo_memory *memory, const struct kymo_mem *header)
{
	uint32_t limit = __atomic_load_n(&header->lanes_limit, __ATOMIC_RELAXED);

	return limit && limit < memory->lane_count ? limit : memory->lane_count;
}

/* The first record of a thread in a session, whose memory is held. Context: any; system calls. */
static struct kymo_claim *claim_held_lane(struct kymo_self *self, uint32_t slot)
{
	struct kymo_slot *from = &kymo_process->slots[slot];
	struct kymo_memory *memory = &kymo_memories[slot];
	struct kymo_mem *header = kymo_memory_header(memory);
	struct kymo_claim *claim;
	uint32_t lane;

	claim = find_lane(slot, lanes_allowed(memory, header), self->tid);
	if (!claim) {
		__atomic_add_fetch(&header->lost_lane, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	lane = (uint32_t)(claim - claims[slot]);
	if (claim->serial != from->serial) {
		uint8_t *data;

		if (kymo_lane_claim(memory, lane, &data)) {
			__atomic_add_fetch(&header->lost_lane, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&claim->owner, 0, __ATOMIC_RELEASE);
			return NULL;
		}
		madvise(data, 2 * (size_t)memory->ring_bytes, MADV_DONTFORK);
		madvise(data, 2 * (size_t)memory->ring_bytes, MADV_DONTDUMP);
		kymo_touch(data, 2 * (size_t)memory->ring_bytes);
		claim->data = data;
		claim->ring = &memory->rings[lane];
		claim->serial = from->serial;
	}
	recover(claim, memory);
	note_lanes_used(header, lane + 1);
	__atomic_store_n(&claim->ring->owner, self->tid, __ATOMIC_RELAXED);
	self->claim[slot] = (uint32_t)((uint8_t *)claim - (uint8_t *)claims) + 1;
	if (!self->cell)
		find_cell(self);
	if (exit_key_usable)
		pthread_setspecific(exit_key, self);
	return claim;
}

/* The same for one that may be gone. Null: *verdict says whether that, or no lane was free. */
static struct kymo_claim *claim_lane(struct kymo_self *self, uint32_t slot,
				     enum kymo_verdict *verdict)
{
	struct kymo_claim *claim;

	*verdict = KYMO_GONE;
	if (!kymo_hold(slot))
		return NULL;
	*verdict = KYMO_SETTLED;
	claim = claim_held_lane(self, slot);
	kymo_release(slot);
	return claim;
}

/* Whether a lane is this thread's, in the memory that the slot has now. */
static bool is_ours(const struct kymo_claim *claim, const struct kymo_self *self, uint32_t slot)
{
	return claim->serial == kymo_process->slots[slot].serial &&
	       __atomic_load_n(&claim->owner, __ATOMIC_RELAXED) == self->tid;
}

static struct kymo_claim *lane_of(struct kymo_self *self, uint32_t slot,
				  enum kymo_verdict *verdict)
{
	struct kymo_claim *claim = claim_of(self, slot);

	if (KYMO__LIKELY(claim != NULL)) {
		if (KYMO__LIKELY(is_ours(claim, self, slot)))
			return claim;
		self->claim[slot] = 0;
	}
	return claim_lane(self, slot, verdict);
}

void kymo_portable_claim_all(struct kymo_self *self)
{
	enum kymo_verdict verdict;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_process->slots[slot].cpu_count)
			lane_of(self, slot, &verdict);
}

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
			kymo_portable_gone(slot);
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
