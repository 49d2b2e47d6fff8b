/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * slots.c: the slot that a session occupies, and its rings: taking one, other rings for it, and
 * giving it back once nobody can be inside [ring.md 5]. All under kymo_lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "runtime_dir.h"

/*
 * A session's end waits so long for threads that are in a record out of line: their records still
 * count.
 */
#define OFF_LOOKS_MAX 100

/* What a slot remembers of its session, to know it again when a forked child attaches. */
static struct {
	pid_t collector;
	char session[64];
	struct kymo_dir_id met_in; /* our runtime directory when it came */
	bool busy;    /* mapped, whether or not it is switched on */
	bool used;    /* at any time: with or without contexts is decided */
	bool retired; /* off, but the memory could not be unmapped yet */
	/*
	 * The session's other slot + 1, where its rings were before a change and will be after the
	 * next; kept for it, because a thread may still be about to write there.
	 */
	uint32_t other;
} slots[KYMO_SLOTS];

static int fence_command; /* 0: not registered; -1: not to be had */

static long membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

/* kymo_fence_prepare: before the first kymo_fence. */
void kymo_fence_prepare(void)
{
	bool rseq = kymo_kind == KYMO_KIND_RSEQ;

	if (fence_command)
		return;
	fence_command = rseq ? MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ :
			       MEMBARRIER_CMD_PRIVATE_EXPEDITED;
	if (membarrier(rseq ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ :
			      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		fence_command = -1;
}

/*
 * kymo_fence: returns true when no sequence that began before holds what it loaded [ring.md
 * 5.3].
 */
bool kymo_fence(void)
{
	return fence_command > 0 && !membarrier(fence_command);
}

/*
 * Unmaps a slot that is switched off, once nobody is inside, waiting looks_max milliseconds for
 * that.
 */
static void try_unmap(uint32_t slot, int looks_max)
{
	bool portable = kymo_kind == KYMO_KIND_PORTABLE;

	if (!kymo_fence())
		return;
	for (int look = 0; look < looks_max; look++) {
		const struct timespec pause = { 0, 1000000 };

		if (kymo_slot_idle(slot) && (!portable || kymo_lanes_idle(slot))) {
			if (portable)
				kymo_lanes_unmap(slot);
			kymo_counters_end(slot);
			kymo_memory_unmap(&kymo_memories[slot]);
			slots[slot].busy = slots[slot].retired = false;
			return;
		}
		nanosleep(&pause, NULL);
	}
}

/* The session's other slot is kept no longer. Nothing of the session is on. */
static void forget_other(uint32_t slot)
{
	uint32_t other = slots[slot].other - 1;

	if (!slots[slot].other)
		return;
	kymo_slot_disable_all(other);
	__atomic_store_n(&kymo_moved_to[other], 0, __ATOMIC_RELEASE);
	slots[other].other = slots[slot].other = 0;
}

/* kymo_slot_off: switches a session off. Its memory goes as soon as nobody can be inside. */
void kymo_slot_off(uint32_t slot)
{
	kymo_slot_disable_all(slot);
	forget_other(slot);
	kymo_slot_publish(slot, NULL);
	slots[slot].retired = true;
	try_unmap(slot, OFF_LOOKS_MAX);
}

/*
 * kymo_slot_retry: unmaps a slot that could not be unmapped before. Returns whether it is worth
 * trying again: where there is no fence it will never be possible.
 */
bool kymo_slot_retry(uint32_t slot)
{
	if (slots[slot].retired)
		try_unmap(slot, 1);
	return slots[slot].retired && fence_command > 0;
}

/* kymo_slot_is_retired: off, and not unmapped yet. */
bool kymo_slot_is_retired(uint32_t slot)
{
	return slots[slot].retired;
}

/* kymo_slot_forget: in a forked child, of lanes that are not mapped here. */
void kymo_slot_forget(uint32_t slot)
{
	if (!slots[slot].busy)
		return;
	kymo_lanes_forget(slot);
	kymo_slot_disable_all(slot);
	forget_other(slot);
	kymo_memory_leave(&kymo_memories[slot]);
	slots[slot].busy = slots[slot].retired = false;
}

/* A free slot that had such sessions before, else one that had none; see kymo_with_contexts. */
static int find_slot(bool with_contexts)
{
	for (int slot = 0; slot < (int)KYMO_SLOTS; slot++)
		if (!slots[slot].busy && !slots[slot].other && slots[slot].used &&
		    kymo_with_contexts[slot] == with_contexts)
			return slot;
	for (int slot = 0; slot < (int)KYMO_SLOTS; slot++)
		if (!slots[slot].used)
			return slot;
	return -1;
}

/*
 * kymo_slot_take: a slot for a session that this process does not serve yet. Closes fd as soon as
 * it is mapped.
 * Returns: 0, and the slot in *taken; an errno value, and nothing has changed.
 */
int kymo_slot_take(pid_t collector, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		   int *taken)
{
	struct kymo_memory memory;
	struct kymo_slot value;
	int slot, error;

	error = kymo_memory_map(&memory, attach, fd);
	if (error)
		return error;
	slot = find_slot(memory.contexts.bits != 0);
	if (slot < 0) {
		kymo_memory_unmap(&memory);
		return EUSERS;
	}
	kymo_memories[slot] = memory;
	kymo_with_contexts[slot] = memory.contexts.bits != 0;
	slots[slot].used = true;
	slots[slot].collector = collector;
	memcpy(slots[slot].session, attach->session, sizeof(slots[slot].session));
	slots[slot].met_in = kymo_runtime_dir_id();
	slots[slot].busy = true;
	value = kymo_memory_slot(&kymo_memories[slot], attach->kind);
	kymo_slot_publish((uint32_t)slot, &value);
	*taken = slot;
	return 0;
}

/*
 * Other rings that differ in their place only: one store moves all writers of a forked child to
 * its own.
 */
static int slot_replace(uint32_t slot, const struct kymo_msg_attach *attach, struct kymo_fd *fd)
{
	struct kymo_memory old = kymo_memories[slot], new_memory;
	struct kymo_slot value;
	int error;

	error = kymo_memory_map(&new_memory, attach, fd);
	if (error)
		return error;
	if (!kymo_contexts_agree(&new_memory.contexts, &old.contexts)) {
		kymo_memory_unmap(&new_memory);
		return EPROTO;
	}
	kymo_memories[slot] = new_memory;
	value = kymo_memory_slot(&new_memory, attach->kind);
	kymo_slot_publish(slot, &value);
	if (!kymo_fence())
		return 0;
	for (int look = 0; look < OFF_LOOKS_MAX && !kymo_slot_idle(slot); look++) {
		const struct timespec pause = { 0, 1000000 };

		nanosleep(&pause, NULL);
	}
	/* Else it stays, and the collector reads it as long as it is mapped. */
	if (kymo_slot_idle(slot))
		kymo_memory_unmap(&old);
	return 0;
}

/*
 * kymo_slot_change: other rings for a session that this process serves [ring.md 5.6]: they get a slot of their own,
 * each event moves there by one store, and then the first slot goes.
 * Returns: 0, and the new slot in *to; an errno value, and nothing has changed.
 */
int kymo_slot_change(uint32_t from, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		     int *to)
{
	bool with_contexts = kymo_with_contexts[from];
	struct kymo_memory memory;
	struct kymo_slot value;
	int slot, error = 0;

	slot = slots[from].other ? (int)slots[from].other - 1 : find_slot(with_contexts);
	if (fence_command < 0)
		error = EOPNOTSUPP;
	else if (slot < 0)
		error = EUSERS;
	else if (slots[slot].busy)
		error = EBUSY; /* somebody is still inside of the rings before these */
	if (!error)
		error = kymo_memory_map(&memory, attach, fd);
	if (error)
		return error;
	if (!kymo_contexts_agree(&memory.contexts, &kymo_memories[from].contexts)) {
		kymo_memory_unmap(&memory);
		return EPROTO;
	}
	kymo_memories[slot] = memory;
	kymo_with_contexts[slot] = with_contexts;
	slots[slot] = slots[from];
	slots[slot].other = from + 1;
	slots[from].other = (uint32_t)slot + 1;
	kymo_slot_prepare(from, (uint32_t)slot);
	__atomic_store_n(&kymo_moved_to[slot], 0, __ATOMIC_RELEASE);
	value = kymo_memory_slot(&kymo_memories[slot], attach->kind);
	kymo_slot_publish((uint32_t)slot, &value);
	kymo_slot_move(from, (uint32_t)slot);
	__atomic_store_n(&kymo_moved_to[from], (uint32_t)slot + 1, __ATOMIC_RELEASE);
	kymo_slot_publish(from, NULL);
	slots[from].retired = true;
	try_unmap(from, OFF_LOOKS_MAX);
	*to = slot;
	return 0;
}

/* kymo_slot_of_session: -1 where it has none. */
int kymo_slot_of_session(pid_t collector, const char *session)
{
	for (int slot = 0; slot < (int)KYMO_SLOTS; slot++)
		if (slots[slot].busy && !slots[slot].retired &&
		    slots[slot].collector == collector && !strcmp(slots[slot].session, session))
			return slot;
	return -1;
}

/* kymo_slot_met_in: this program's runtime directory when the session of a slot came. */
struct kymo_dir_id kymo_slot_met_in(uint32_t slot)
{
	return slots[slot].met_in;
}

/* kymo_slot_session: the name of the session that a slot serves; null where it serves none. */
const char *kymo_slot_session(uint32_t slot)
{
	return slots[slot].busy && !slots[slot].retired ? slots[slot].session : NULL;
}

/* Whether other rings for a slot need one store only: nothing but their place differs. */
static bool is_of_equal_size(uint32_t slot, const struct kymo_msg_attach *attach)
{
	const struct kymo_memory *memory = &kymo_memories[slot];

	return attach->ring_bytes == memory->ring_bytes &&
	       attach->lane_count == memory->lane_count &&
	       attach->data_offset == memory->control_bytes;
}

/*
 * kymo_slot_inherit: rings on a new connection for a session whose rings this process has already:
 * its parent's in a forked child, or those of a connection that was lost. Returns as kymo_slot_change.
 */
int kymo_slot_inherit(uint32_t from, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		      int *to)
{
	if (kymo_kind == KYMO_KIND_PORTABLE || !is_of_equal_size(from, attach))
		return kymo_slot_change(from, attach, fd, to);
	*to = (int)from;
	return slot_replace(from, attach, fd);
}
