/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime.c: the choice of ring and clock, the slots, and thread ids that are right after any kind
 * of fork.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "settings.h"
#include "tsc.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

__thread struct kymo_self kymo_self_tls __attribute__((tls_model("initial-exec")));
static struct kymo_process process_without_wiping __attribute__((aligned(64)));
static struct kymo_slot slot_copies[KYMO_SLOTS]; /* what a new child starts from */
static uint32_t last_generation = 1;
static intptr_t rseq_offset;

struct kymo_process *kymo_process = &process_without_wiping;
uint32_t kymo_kind = KYMO_KIND_PORTABLE;
uint32_t kymo_clock_kind = KYMO_CLOCK_MONOTONIC;

uint64_t kymo_clock_monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The inline path runs only where clock and sequence are what it has built in. */
static void choose_kind(void)
{
#if KYMO_ARCH_SEQUENCE
	if (kymo_counter_is_clock(kymo_settings.clock))
		kymo_clock_kind = KYMO_CLOCK_COUNTER;
	if (kymo_clock_kind == KYMO_CLOCK_COUNTER && kymo_rseq_init(kymo_settings.ring, &rseq_offset))
		kymo_kind = KYMO_KIND_RSEQ;
#endif
}

void kymo_runtime_init(void)
{
	void *page = mmap(NULL, sizeof(struct kymo_process), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	choose_kind();
	if (page != MAP_FAILED) {
		kymo_process = page;
		/* Where this is refused, pthread_atfork has to do. */
		madvise(page, sizeof(struct kymo_process), MADV_WIPEONFORK);
	}
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		kymo_slot_publish(slot, NULL);
	kymo_process->generation = last_generation;
	kymo_record_init();
	kymo_portable_init();
	kymo_block_init();
	kymo__module.rt = &kymo_runtime; /* for ffi.c */
}

/*
 * kymo_slot_publish: makes the memory that value describes the slot's own; null switches the slot
 * off. One store decides: cpu_count for an empty slot, rings where nothing else differs.
 * Context: under kymo_lock.
 */
void kymo_slot_publish(uint32_t slot, const struct kymo_slot *value)
{
	struct kymo_slot *to = &kymo_process->slots[slot];
	struct kymo_slot *copy = &slot_copies[slot];

	if (!value) {
		__atomic_store_n(&to->cpu_count, 0, __ATOMIC_SEQ_CST);
		copy->cpu_count = 0;
		return;
	}
	to->id_offset = (uint32_t)(offsetof(struct kymo_event, id) + slot * sizeof(uint16_t));
	to->room = value->room;
	to->mask = value->mask;
	to->rseq_offset = kymo_kind == KYMO_KIND_RSEQ ? rseq_offset : 0;
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
 * In a new child, whose slots the kernel has wiped: with the rseq ring it goes on into its parent's
 * rings, which the CPUs keep apart; portable lanes are not mapped here.
 */
static void child_begins(void)
{
	if (!++last_generation)
		last_generation = 1;
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		if (kymo_kind == KYMO_KIND_RSEQ)
			kymo_process->slots[slot] = slot_copies[slot];
		else
			kymo_portable_orphan(slot, slot_copies[slot].cpu_count != 0);
	kymo_portable_child(kymo_self());
	kymo_counters_forget();
	kymo_holders_after_fork(kymo_self());
	kymo_process->generation = last_generation;
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
	kymo_portable_refresh(self);
	memset(self->claim, 0, sizeof(self->claim));
	memset(self->contexts, 0, sizeof(self->contexts));
	memset(self->fixed, 0, sizeof(self->fixed));
	if (kymo_kind == KYMO_KIND_RSEQ)
		self->inline_part.inline_tid = self->tid;
	self->generation = kymo_process->generation;
}
