/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lanes.c: which lane of the portable ring is which thread's [ring.md 6]. Lanes are claimed by a thread's
 * first record and handed back when it ends. Writing to them is portable.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lanes.h"

#define CELLS_MAX 1024u
/* The owner of a cell that is being given back: no thread's number, so nobody takes it. */
#define CELL_BUSY UINT32_MAX

struct kymo_claim kymo_claims[KYMO_SLOTS][KYMO_CLAIMS_MAX];
/* A bit for each slot whose lanes this process has lost by being made, until it has others. */
static uint32_t without_lanes;
static pthread_key_t exit_key;
static bool exit_key_usable;

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

void kymo_lanes_init(void)
{
	if (kymo_kind != KYMO_KIND_PORTABLE || pthread_key_create(&exit_key, thread_ends))
		return;
	exit_key_usable = exit_key < KYMO_KEYS_WITHOUT_MALLOC;
	if (!exit_key_usable)
		pthread_key_delete(exit_key);
}

/* kymo_lanes_child: in a new child, whose only thread is this one: it is inside of what it was inside of. */
void kymo_lanes_child(const struct kymo_self *self)
{
	for (uint32_t i = 0; i < cells_end; i++)
		if (&cells[i] != self->cell)
			memset(&cells[i], 0, sizeof(cells[i]));
}

/* kymo_lanes_refresh: the calling thread has another number than before. */
void kymo_lanes_refresh(const struct kymo_self *self)
{
	if (self->cell)
		__atomic_store_n(&self->cell->owner, self->tid, __ATOMIC_RELEASE);
}

static void forget(uint32_t slot)
{
	kymo_slot_publish(slot, NULL);
	memset(kymo_claims[slot], 0, sizeof(kymo_claims[slot]));
}

static bool owner_is_dead(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) && errno == ESRCH;
}

/*
 * kymo_lanes_orphan: in a new child, where the parent's lanes are not mapped. was_on: the parent
 * was recorded there; the child is not, until it has rings of its own.
 */
void kymo_lanes_orphan(uint32_t slot, bool was_on)
{
	forget(slot);
	if (was_on)
		without_lanes |= 1u << slot;
}

/* kymo_lanes_forget: a child gives up its parent's rings, for its own. */
void kymo_lanes_forget(uint32_t slot)
{
	forget(slot);
	without_lanes &= ~(1u << slot);
}

/*
 * kymo_lanes_gone: a record whose slot is off. It is lost where that is so because this is a
 * child that no handler of fork has run in [ring.md 6]. Else nobody wants it.
 */
void kymo_lanes_gone(uint32_t slot)
{
	if (without_lanes & 1u << slot)
		__atomic_add_fetch(&kymo_memory_header(&kymo_memories[slot])->lost_lane, 1,
				   __ATOMIC_RELAXED);
}

/*
 * kymo_lanes_idle: no thread is inside a record of this slot. After the slot was switched off
 * and a membarrier.
 */
bool kymo_lanes_idle(uint32_t slot)
{
	uint32_t end = __atomic_load_n(&cells_end, __ATOMIC_SEQ_CST);

	for (uint32_t i = 0; i < KYMO_CLAIMS_MAX; i++)
		if (__atomic_load_n(&kymo_claims[slot][i].users, __ATOMIC_SEQ_CST))
			return false;
	for (uint32_t i = 0; i < end; i++) {
		uint32_t owner = __atomic_load_n(&cells[i].owner, __ATOMIC_SEQ_CST);

		if (owner && __atomic_load_n(&cells[i].inside[slot], __ATOMIC_SEQ_CST) && !owner_is_dead(owner))
			return false;
	}
	return true;
}

void kymo_lanes_unmap(uint32_t slot)
{
	for (uint32_t i = 0; i < KYMO_CLAIMS_MAX; i++) {
		struct kymo_claim *claim = &kymo_claims[slot][i];

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
		struct kymo_claim *claim = &kymo_claims[slot][i];

		if (!__atomic_load_n(&claim->owner, __ATOMIC_RELAXED) && take(claim, 0, tid))
			return claim;
	}
	for (uint32_t i = 0; i < lane_count; i++) {
		struct kymo_claim *claim = &kymo_claims[slot][i];
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
	lane = (uint32_t)(claim - kymo_claims[slot]);
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
	self->claim[slot] = (uint32_t)((uint8_t *)claim - (uint8_t *)kymo_claims) + 1;
	if (!self->cell)
		find_cell(self);
	if (exit_key_usable)
		pthread_setspecific(exit_key, self);
	return claim;
}

/* The same for one that may be gone. Null: *verdict says whether that, or no lane was free. */
struct kymo_claim *kymo_claim_lane(struct kymo_self *self, uint32_t slot, enum kymo_verdict *verdict)
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

void kymo_lanes_claim_all(struct kymo_self *self)
{
	enum kymo_verdict verdict;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_process->slots[slot].cpu_count)
			lane_of(self, slot, &verdict);
}
