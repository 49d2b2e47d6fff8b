/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime.c: what is done once, before the first record: the choice of ring and clock, and all that the
 * record path needs.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "internal.h"
#include "settings.h"
#include "tsc.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The inline path runs only where clock and sequence are what it has built in. */
static void choose_kind(void)
{
#if KYMO_ARCH_SEQUENCE
	if (kymo_counter_is_clock(kymo_settings.clock))
		kymo_clock_kind = KYMO_CLOCK_COUNTER;
	if (kymo_clock_kind == KYMO_CLOCK_COUNTER && kymo_rseq_init(kymo_settings.ring, &kymo_rseq_offset))
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
	kymo_process->generation = kymo_last_generation;
	kymo_record_init();
	kymo_lanes_init();
	kymo_block_init();
	kymo__module.rt = &kymo_runtime; /* for ffi.c */
}
