/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * overwrite.c: makes room in a ring of a flight recorder: moves tail and leaves a mark, once in a
 * chunk [ring.md 10]. Called by the record path out of line, when a record does not fit.
 */
#include "compact.h"

/* Where tests let others run: emit/tests/interrupted.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

/*
 * Marks the place of head, for its own chunk and for those in front that a long record skipped:
 * what stands there is of an earlier lap. A mark of the same chunk stays: it is the older one, and
 * the first of all is the ring's beginning.
 *
 * A writer that was stopped here for laps must not put its old place over newer ones. So a mark is
 * looked at first, then whether tail is still where this writer saw it, and then it is exchanged for
 * what was looked at. Returns false where tail has moved: somebody else has made room, and left marks.
 */
static bool leave_marks(const struct kymo_memory *memory, uint32_t lane, uint64_t tail,
			const struct kymo_place *place)
{
	uint32_t chunk_bytes = memory->ring_bytes / KYMO_CHUNKS;
	const struct kymo_ring *ring = &memory->rings[lane];
	struct kymo_marks *marks = &memory->marks[lane];
	struct kymo_places *places = memory->places ? &memory->places[lane] : NULL;
	uint64_t head = place->head;
	uint32_t chunks = UINT32_MAX / chunk_bytes; /* a power of two, less 1 */
	uint32_t chunk = (uint32_t)head / chunk_bytes;

	for (uint32_t back = 0; back < KYMO_MARKS; back++) {
		uint32_t number = (chunk - back) % KYMO_MARKS;
		uint64_t *mark = &marks->at[number];
		uint64_t seen = __atomic_load_n(mark, __ATOMIC_ACQUIRE);
		struct kymo_place_words words;

		if ((uint32_t)seen / chunk_bytes == ((chunk - back) & chunks))
			break;
		if (places)
			kymo_places_see(places, number, &words);
		if (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != tail)
			return false;
		KYMO_TEST_STOP(MARK);
		if (places && !kymo_places_note(places, number, &words, place))
			return false;
		__atomic_compare_exchange_n(mark, &seen, head, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
	}
	return true;
}

static __attribute__((noinline)) bool make_room(const struct kymo_memory *memory, uint32_t lane, uint64_t *end,
						uint64_t bytes);

/*
 * kymo_overwrite: gives up the oldest bytes of a lane so that a record of bytes fits behind end (a
 * word of the lane: head, or reserve of a portable one), and a chunk more.
 * Returns: true when another attempt may succeed; false in discard mode, for a record longer than the
 * ring, and where only what is not published yet could be given up.
 * Context: any; no system call. Callers hold the memory.
 */
bool kymo_overwrite(const struct kymo_memory *memory, uint32_t lane, uint64_t *end, uint64_t bytes)
{
	if (!memory->marks || bytes > memory->ring_bytes - KYMO_STORE_PAST)
		return false;
	return make_room(memory, lane, end, bytes);
}

static bool make_room(const struct kymo_memory *memory, uint32_t lane, uint64_t *end, uint64_t bytes)
{
	struct kymo_ring *ring = &memory->rings[lane];
	uint32_t room = memory->ring_bytes - KYMO_STORE_PAST;
	uint32_t chunk_bytes = memory->ring_bytes / KYMO_CHUNKS;
	uint32_t least, wished, published;
	struct kymo_place place = { 0 };
	uint64_t tail, now;
	bool is_seen = true;

	tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (memory->places)
		is_seen = kymo_places_look(ring, end, &place);
	else
		place.head = __atomic_load_n(end, __ATOMIC_RELAXED);
	now = place.head;
	least = (uint32_t)(now + bytes) - room;
	if ((int32_t)(least - (uint32_t)tail) <= 0)
		return true;
	/*
	 * Not beyond head: a signal handler must not write over a record that it interrupted, which is
	 * reserved and not written yet [ring.md 10].
	 */
	published = (uint32_t)__atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	if ((int32_t)(least - published) > 0)
		return false;
	wished = least + chunk_bytes;
	if ((int32_t)(wished - published) > 0)
		wished = published;
	KYMO_TEST_STOP(LOOKED);
	/* Without a look at thread and time this chunk has no mark. */
	if (!is_seen || leave_marks(memory, lane, tail, &place)) {
		KYMO_TEST_STOP(MARKED);
		__atomic_compare_exchange_n(&ring->tail, &tail, (uint64_t)wished, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
#if !KYMO_ARCH_X86_64
		/* Elsewhere what is stored later may be seen before an exchange's store [ring.md 7]. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	}
	return true;
}

/*
 * kymo_unmark: a portable lane whose owner ended inside of records: marks above head are of places
 * that were handed out and never published. The next record begins at head.
 * Context: the lane's new owner.
 */
void kymo_unmark(const struct kymo_memory *memory, uint32_t lane)
{
	uint64_t head = memory->rings[lane].head;

	if (!memory->marks)
		return;
	for (uint32_t i = 0; i < KYMO_MARKS; i++) {
		uint64_t *mark = &memory->marks[lane].at[i];

		if ((int32_t)((uint32_t)__atomic_load_n(mark, __ATOMIC_RELAXED) - (uint32_t)head) > 0)
			__atomic_store_n(mark, head, __ATOMIC_RELEASE);
	}
}
