/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* wants.c: which events a stream records now: what writers look at. Unit: trace core. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE
bool kymop_filters(const struct kymop_shared *shared, uint32_t id)
{
	return __atomic_load_n(&shared->filter[id / 32], __ATOMIC_RELAXED) >> id % 32 & 1;
}

#if KYMO_POSIX_HOSTED
/*
 * kymop_wants_update: what writers look at, from state and filter. Whoever changes one of them calls
 * it behind that, any number at a time: who has written something old finds a change at the end.
 * Context: any, signal handlers included.
 */
void kymop_wants_update(struct kymop_shared *shared)
{
	uint64_t state;
	uint32_t version;

	do {
		state = __atomic_load_n(&shared->state, KYMOP_SEQ_CST);
		version = __atomic_load_n(&shared->filter_version, KYMOP_SEQ_CST);
		for (uint32_t id = 1; id < KYMOP_EVENTS; id++) {
			bool is_wanted = kymop_state_of(state) == KYMOP_RUNNING &&
					 !kymop_filters(shared, id);

			__atomic_store_n(&shared->wants[id], is_wanted ? (uint16_t)id : 0,
					 __ATOMIC_RELAXED);
		}
		__atomic_thread_fence(KYMOP_SEQ_CST);
	} while (__atomic_load_n(&shared->state, KYMOP_SEQ_CST) != state ||
		 __atomic_load_n(&shared->filter_version, KYMOP_SEQ_CST) != version);
}
#endif
#else
typedef int kymop_no_wants; /* a file must not be empty */
#endif
