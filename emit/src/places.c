/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * places.c: thread and time of the record that begins at a mark, of a flight recorder with compact records
 * [ring.md 11.4]. No locks, no system calls.
 */
#include "compact.h"

/* Where tests let a signal handler run: emit/tests/compact.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

/* Looks at words that a writer is at before they are given up. */
#define LOOKS_MAX 8

/*
 * kymo_places_look: thread and time in front of the record that begins at end, a word of the lane: head, or
 * reserve of a portable one. Returns: false where writers were too fast.
 */
bool kymo_places_look(const struct kymo_ring *ring, const uint64_t *end, struct kymo_place *place)
{
	for (int look = 0; look < LOOKS_MAX; look++) {
		place->head = __atomic_load_n(end, __ATOMIC_ACQUIRE);
		place->thread = (uint32_t)(__atomic_load_n(&ring->state, __ATOMIC_ACQUIRE) >> 32);
		place->time = __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE) >> 16;
		KYMO_TEST_STOP(SEEN);
		if (__atomic_load_n(end, __ATOMIC_RELAXED) == place->head)
			return true;
	}
	return false;
}

/* kymo_places_see: the words of a mark, before its writer looks at tail. */
void kymo_places_see(const struct kymo_places *places, uint32_t mark, struct kymo_place_words *seen)
{
	seen->thread = __atomic_load_n(&places->thread[mark], __ATOMIC_ACQUIRE);
	seen->high = __atomic_load_n(&places->high[mark], __ATOMIC_ACQUIRE);
	seen->low = __atomic_load_n(&places->low[mark], __ATOMIC_ACQUIRE);
}

static bool exchange(uint64_t *word, uint64_t seen, uint64_t value, uint64_t head)
{
	return __atomic_compare_exchange_n(word, &seen, value << 32 | (uint32_t)head, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

/* kymo_places_note: the words of a mark, where they are what was seen. Each of them names the mark. */
bool kymo_places_note(struct kymo_places *places, uint32_t mark, const struct kymo_place_words *seen,
		       const struct kymo_place *place)
{
	return exchange(&places->thread[mark], seen->thread, place->thread, place->head) &&
	       exchange(&places->high[mark], seen->high, place->time >> 24, place->head) &&
	       exchange(&places->low[mark], seen->low, place->time & 0xffffff, place->head);
}
