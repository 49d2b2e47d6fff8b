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

#include "internal.h"

/* Where tests let a signal handler run: emit/tests/interrupted.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

/* glibc keeps the values of this many keys in the thread itself: setting one allocates nothing. */
#define KEYS_WITHOUT_MALLOC 32

static struct kymo_claim claims[KYMO_SLOTS][KYMO_CLAIMS_MAX];
static pthread_key_t exit_key;
static bool exit_key_usable;

/* Changes the owner of a lane, if it is who was seen. */
static bool take(struct kymo_claim *claim, uint32_t seen, uint32_t tid)
{
	return __atomic_compare_exchange_n(&claim->owner, &seen, tid, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void thread_ends(void *value)
{
	struct kymo_self *self = value;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		if (!self->claim[slot])
			continue;
		/* If it is ours still: the slot may have another memory by now. */
		take(&claims[slot][self->claim[slot] - 1], self->tid, 0);
		self->claim[slot] = 0;
	}
}

void kymo_portable_init(void)
{
	if (kymo_kind != KYMO_KIND_PORTABLE || pthread_key_create(&exit_key, thread_ends))
		return;
	exit_key_usable = exit_key < KEYS_WITHOUT_MALLOC;
	if (!exit_key_usable)
		pthread_key_delete(exit_key);
}

/* kymo_portable_forget: in a new child, where the parent's lanes are not mapped. */
void kymo_portable_forget(uint32_t slot)
{
	kymo_slot_publish(slot, NULL);
	memset(claims[slot], 0, sizeof(claims[slot]));
}

/*
 * kymo_portable_idle: no thread is inside a record of this slot. After the slot was switched off
 * and a membarrier.
 */
bool kymo_portable_idle(uint32_t slot)
{
	for (uint32_t i = 0; i < KYMO_CLAIMS_MAX; i++)
		if (__atomic_load_n(&claims[slot][i].users, __ATOMIC_SEQ_CST))
			return false;
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

static bool owner_is_dead(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) && errno == ESRCH;
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
		kymo_touch(data, 2 * (size_t)memory->ring_bytes);
		claim->data = data;
		claim->ring = &memory->rings[lane];
		claim->serial = from->serial;
	}
	recover(claim, memory);
	note_lanes_used(header, lane + 1);
	__atomic_store_n(&claim->ring->owner, self->tid, __ATOMIC_RELAXED);
	self->claim[slot] = (uint16_t)(lane + 1);
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
	if (KYMO__LIKELY(self->claim[slot])) {
		struct kymo_claim *claim = &claims[slot][self->claim[slot] - 1];

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
 * Space for a record at the end of what is handed out. Returns false when the ring is full. The
 * clock is read, and last set, between looking at reserve and deciding, so that neither is older
 * than what a handler wrote meanwhile.
 */
static bool reserve(const struct kymo_memory *memory, struct kymo_ring *ring, uint64_t id,
		    uint64_t step, uint64_t *position, uint64_t *word)
{
	uint32_t room = memory->ring_bytes - KYMO_STORE_PAST;
	uint32_t lane = (uint32_t)(ring - memory->rings);

	for (;;) {
		uint64_t tail;

		*position = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		*word = kymo_clock_read() << 16 | id;
		__atomic_store_n(&ring->last, *word, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if ((uint32_t)(*position + step) - (uint32_t)tail <= room) {
			if (kymo__cas_local(&ring->reserve, *position, *position + step))
				return true;
		} else if (__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) == *position &&
			   !kymo_overwrite(memory, lane, &ring->reserve, step - KYMO_ONE_RECORD)) {
			return false;
		}
	}
}

/*
 * One attempt, with all that it takes given back at its end: who waits for room between two
 * attempts is outside of the lane, and what handlers record meanwhile is published.
 */
static enum kymo_verdict attempt(struct kymo_self *self, struct kymo_event *event, uint32_t slot,
				 uint64_t step, const struct kymo_seg *segs,
				 const struct kymo_seg *segs_end, struct kymo_wait *wait)
{
	struct kymo_slot *to = &kymo_process->slots[slot];
	enum kymo_verdict verdict = KYMO_SETTLED;
	struct kymo_claim *claim = lane_of(self, slot, &verdict);
	uint64_t bytes = step - KYMO_ONE_RECORD;
	uint64_t position, word;
	struct kymo_ring *ring;
	uint8_t *at;
	uint16_t id;

	if (!claim)
		return verdict;
	/*
	 * By a locked instruction: if this thread was away since it looked, the slot may have had
	 * another memory meanwhile, and the lane may be another thread's.
	 */
	__atomic_add_fetch(&claim->users, 1, __ATOMIC_SEQ_CST);
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
	__atomic_store_n(&claim->inside, claim->inside + 1, __ATOMIC_RELAXED);
	id = __atomic_load_n(&event->id[slot], __ATOMIC_RELAXED);
	if (!id)
		goto give_back;
	ring = claim->ring;
	__atomic_store_n(&claim->depth, claim->depth + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (bytes > KYMO_RECORD_MAX || bytes > to->room) {
		kymo__add_local(&ring->lost_size, 1);
	} else if (!reserve(&kymo_memories[slot], ring, id, step, &position, &word)) {
		if (kymo_may_wait(self, wait, &kymo_memories[slot]))
			verdict = KYMO_WAIT;
		else
			kymo__add_local(&ring->lost_full, 1);
	} else {
		KYMO_TEST_STOP(RESERVED);
		at = claim->data + (position & to->mask);
		memcpy(at, &word, sizeof(word));
		memcpy(at + KYMO_RECORD_HEADER, &self->tid, sizeof(self->tid));
		kymo_copy_segs(at + KYMO__BEFORE_PAYLOAD, segs, segs_end);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	leave(claim);
give_back:
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&claim->inside, claim->inside - 1, __ATOMIC_RELAXED);
out:
	__atomic_sub_fetch(&claim->users, 1, __ATOMIC_SEQ_CST);
	return verdict;
}

enum kymo_verdict kymo_portable_write(struct kymo_self *self, struct kymo_event *event,
				      uint32_t slot, uint64_t step, const struct kymo_seg *segs,
				      const struct kymo_seg *segs_end)
{
	struct kymo_wait wait = { 0 };

	for (;;) {
		enum kymo_verdict verdict = attempt(self, event, slot, step, segs, segs_end, &wait);
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
		if (!moved || kymo_with_contexts[slot])
			return KYMO_GONE;
		slot = moved - 1;
	}
}
