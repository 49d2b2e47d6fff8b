/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * thread.c: brings a thread up to date before its first record, and the only one of a new child: thread ids
 * that are right after any kind of fork.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/*
 * In a new child, whose slots the kernel has wiped: with the rseq ring it goes on into its parent's
 * rings, which the CPUs keep apart; portable lanes are not mapped here.
 */
static void child_begins(void)
{
	if (!++kymo_last_generation)
		kymo_last_generation = 1;
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_kind == KYMO_KIND_RSEQ)
			kymo_process->slots[slot] = kymo_slot_copies[slot];
		else
			kymo_lanes_orphan(slot, kymo_slot_copies[slot].cpu_count != 0);
	kymo_lanes_child(kymo_self());
	kymo_counters_forget();
	kymo_holders_after_fork(kymo_self());
	kymo_process->generation = kymo_last_generation;
}

/*
 * kymo_refresh: brings the calling thread up to date: a new one, or the only one of a new child.
 * Context: any; may change errno. System calls only when the generation has moved.
 */
void kymo_refresh(struct kymo_self *self)
{
	if (KYMO__UNLIKELY(!kymo_process->generation))
		child_begins();
	if (KYMO__LIKELY(self->generation == kymo_process->generation))
		return;
	if (self->is_clockless)
		return; /* nor may it make a system call, perhaps */
	kymo_clockless_look(self);
	self->tid = (uint32_t)syscall(SYS_gettid);
	self->pid = (uint32_t)getpid();
#if KYMO_ARCH_SEQUENCE
	kymo_rseq_thread();
#endif
	kymo_lanes_refresh(self);
	memset(self->claim, 0, sizeof(self->claim));
	memset(self->contexts, 0, sizeof(self->contexts));
	memset(self->fixed, 0, sizeof(self->fixed));
	if (kymo_kind == KYMO_KIND_RSEQ)
		self->inline_part.inline_tid = self->tid;
	self->generation = kymo_process->generation;
}
