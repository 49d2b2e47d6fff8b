/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* compact.h: compact records out of line [ring.md 11]. Who writes them by a sequence: arch/.../compact.h. */
#ifndef KYMO_COMPACT_H
#define KYMO_COMPACT_H

#include "internal.h"

#if KYMO_ARCH_AARCH64
#include "kymo/arch/aarch64/compact.h"
#elif KYMO_ARCH_X86_64
#include "kymo/arch/x86_64/compact.h"
#endif

#pragma GCC visibility push(hidden)

/* Bytes in front of a payload, of the longest form; and by how many they exceed those of the plain layout. */
#define KYMO_COMPACT_LONGEST (KYMO_THREAD_BYTES + KYMO_EXTENDED_BYTES)
#define KYMO_COMPACT_EXCESS (KYMO_COMPACT_LONGEST - KYMO__BEFORE_PAYLOAD)

/* A record for which there is room. */
struct kymo_compact {
	uint64_t position; /* where it begins, as head counts */
	uint64_t word;	   /* id | time * 2^16 */
	uint32_t header_bytes;
};

/* Thread and time in front of the record that begins at head. */
struct kymo_place {
	uint64_t head, time;
	uint32_t thread;
};
struct kymo_place_words {
	uint64_t thread, high, low;
};

/* Of a slot that is held. Not as the slot says, which a fork by a handler wipes. */
static inline bool kymo_is_compact(uint32_t slot)
{
	return kymo_memories[slot].contexts.bits & KYMO_CONTEXT_COMPACT;
}

uint8_t *kymo_compact_header(uint8_t *at, const struct kymo_compact *record, uint32_t tid);
void kymo_compact_spill(struct kymo_ring *ring, uint8_t *at, uint32_t tid, uint16_t id, uint64_t step,
			const struct kymo_seg *segs, const struct kymo_seg *segs_end);
bool kymo_compact_reserve(const struct kymo_slot *to, uint32_t slot, struct kymo_ring *ring, uint32_t tid,
			  uint64_t id, uint64_t step, struct kymo_compact *record);

/* places.c */
bool kymo_places_look(const struct kymo_ring *ring, const uint64_t *end, struct kymo_place *place);
void kymo_places_see(const struct kymo_places *places, uint32_t mark, struct kymo_place_words *seen);
bool kymo_places_note(struct kymo_places *places, uint32_t mark, const struct kymo_place_words *seen,
		       const struct kymo_place *place);

/* One attempt out of line, of a record for one session only. step is that of the plain layout. */
static inline bool kymo_compact_direct(const struct kymo_slot *slot, const struct kymo_event *event, uint64_t step,
				       const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
#if KYMO_ARCH_SEQUENCE
	step += KYMO_COMPACT_EXCESS;
	return step - KYMO_ONE_RECORD <= KYMO_RECORD_MAX &&
	       kymo__sequence_compact_alone(slot, event, step, segs, segs_end);
#else
	(void)slot, (void)event, (void)step, (void)segs, (void)segs_end;
	return false;
#endif
}

#pragma GCC visibility pop
#endif
