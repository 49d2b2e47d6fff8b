/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * process.c: what the whole record path stands on: the kind of ring and clock, the slots and who holds
 * them, the mapped memories, and what each thread knows. runtime.c fills it, slots.c changes it, thread.c
 * brings threads up to date.
 */
#define _GNU_SOURCE
#include <time.h>

#include "internal.h"

__thread struct kymo_self kymo_self_tls __attribute__((tls_model("initial-exec")));
static struct kymo_process process_without_wiping __attribute__((aligned(64)));
struct kymo_slot kymo_slot_copies[KYMO_SLOTS];
uint32_t kymo_last_generation = 1;
intptr_t kymo_rseq_offset;

struct kymo_process *kymo_process = &process_without_wiping;
uint32_t kymo_kind = KYMO_KIND_PORTABLE;
uint32_t kymo_clock_kind = KYMO_CLOCK_MONOTONIC;
struct kymo_memory kymo_memories[KYMO_SLOTS];
uint32_t kymo_holders[KYMO_SLOTS];

uint64_t kymo_clock_monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * kymo_slot_publish: makes the memory that value describes the slot's own; null switches the slot
 * off. One store decides: cpu_count for an empty slot, rings where nothing else differs.
 * Context: under kymo_lock.
 */
void kymo_slot_publish(uint32_t slot, const struct kymo_slot *value)
{
	struct kymo_slot *to = &kymo_process->slots[slot];
	struct kymo_slot *copy = &kymo_slot_copies[slot];

	if (!value) {
		__atomic_store_n(&to->cpu_count, 0, __ATOMIC_SEQ_CST);
		copy->cpu_count = 0;
		return;
	}
	to->id_offset = (uint32_t)(offsetof(struct kymo_event, id) + slot * sizeof(uint16_t));
	to->room = value->room;
	to->mask = value->mask;
	to->rseq_offset = kymo_kind == KYMO_KIND_RSEQ ? kymo_rseq_offset : 0;
#if KYMO_ARCH_SEQUENCE
	to->thread_offset = (char *)&kymo_self_tls.inline_part - kymo__thread_pointer();
#endif
	to->stride = value->stride;
	to->data_offset = value->data_offset;
	to->serial = value->serial;
	to->counts_full = value->counts_full;
	to->is_compact = value->is_compact;
	__atomic_store_n(&to->rings, value->rings, __ATOMIC_RELEASE);
	__atomic_store_n(&to->cpu_count, value->cpu_count, __ATOMIC_RELEASE);
	*copy = *to;
}

/*
 * Whether a slot serves sessions whose records have contexts. Said before its first session, and
 * never changed: a thread that stops between tracepoint and ring, while one session ends and the
 * next one takes the slot, must not write records of another layout.
 */
bool kymo_with_contexts[KYMO_SLOTS];

/*
 * Where the session of a slot that is off goes on: slot + 1; 0: nowhere. Written before the slot is
 * switched off, so that who finds it off finds this [ring.md 5.6].
 */
uint32_t kymo_moved_to[KYMO_SLOTS];

/* kymo_slot_idle: nobody holds the slot. After the fence of ring.md 5.3 only. */
bool kymo_slot_idle(uint32_t slot)
{
	return __atomic_load_n(&kymo_holders[slot], __ATOMIC_SEQ_CST) == 0;
}

/* kymo_holders_after_fork: in a new child, whose only thread is this one. */
void kymo_holders_after_fork(const struct kymo_self *self)
{
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		kymo_holders[slot] = self->held[slot];
}
