/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lanes.h: lanes of the portable ring, as portable.c writes to them. See lanes.c. */
#ifndef KYMO_LANES_H
#define KYMO_LANES_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/*
 * Where a thread says that it is inside of a slot's memory. Nobody else writes there, so that plain
 * stores do; the helper thread fences before it looks [ring.md 6]. A thread that finds none free counts
 * at its claims instead, by locked instructions.
 */
struct kymo_cell {
	uint32_t owner; /* thread id; 0: free */
	uint32_t inside[KYMO_SLOTS];
} __attribute__((aligned(64)));

extern struct kymo_claim kymo_claims[KYMO_SLOTS][KYMO_CLAIMS_MAX];
struct kymo_claim *kymo_claim_lane(struct kymo_self *self, uint32_t slot, enum kymo_verdict *verdict);

/* The lane that a thread has for a slot, as far as it knows; null: none. */
static inline struct kymo_claim *claim_of(const struct kymo_self *self, uint32_t slot)
{
	uint32_t place = self->claim[slot];

	return place ? (void *)((uint8_t *)kymo_claims + (place - 1)) : NULL;
}

/* Whether a lane is this thread's, in the memory that the slot has now. */
static inline bool is_ours(const struct kymo_claim *claim, const struct kymo_self *self, uint32_t slot)
{
	return claim->serial == kymo_process->slots[slot].serial &&
	       __atomic_load_n(&claim->owner, __ATOMIC_RELAXED) == self->tid;
}

static inline struct kymo_claim *lane_of(struct kymo_self *self, uint32_t slot, enum kymo_verdict *verdict)
{
	struct kymo_claim *claim = claim_of(self, slot);

	if (KYMO__LIKELY(claim != NULL)) {
		if (KYMO__LIKELY(is_ours(claim, self, slot)))
			return claim;
		self->claim[slot] = 0;
	}
	return kymo_claim_lane(self, slot, verdict);
}

#pragma GCC visibility pop
#endif
