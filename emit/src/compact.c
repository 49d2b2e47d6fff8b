/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.c: records of 4 bytes and a payload, where no sequence writes them: the spill lane and the
 * portable ring [ring.md 11]. record.c and portable.c ask here; the sequences are in arch/.../compact.h.
 * No locks, no system calls.
 */
#include <string.h>

#include "compact.h"

/* Where tests let a signal handler run: emit/tests/compact.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

/* What state is where a record of this thread ends at a place. */
static inline uint64_t state_of(uint32_t tid, uint64_t place)
{
	return (uint64_t)tid << 32 | (uint32_t)place;
}

/* The header that a record has behind one whose words these are, in front of place. */
static inline uint32_t header_bytes(uint64_t state, uint64_t last, uint32_t tid, uint64_t place, uint64_t word)
{
	if (state != state_of(tid, place))
		return KYMO_THREAD_BYTES + KYMO_EXTENDED_BYTES;
	/* The ids must not count: with all bits of ours the difference has the cycles in its upper 48. */
	if ((uint16_t)word > KYMO_COMPACT_ID_MAX ||
	    ((word | 0xffff) - last) >> (16 + KYMO_COMPACT_TIME_BITS))
		return KYMO_EXTENDED_BYTES;
	return KYMO_COMPACT_BYTES;
}

/* kymo_compact_header: writes what header_bytes chose. Returns where the payload begins. */
uint8_t *kymo_compact_header(uint8_t *at, const struct kymo_compact *record, uint32_t tid)
{
	uint64_t thread = record->word | KYMO_THREAD_ID;
	uint32_t id = (uint16_t)record->word;
	uint32_t compact = (uint32_t)(record->word >> 16) << 5 | id;

	if (record->header_bytes == KYMO_COMPACT_BYTES) {
		memcpy(at, &compact, sizeof(compact));
		return at + KYMO_COMPACT_BYTES;
	}
	if (record->header_bytes != KYMO_EXTENDED_BYTES) {
		*at = KYMO_EXTENDED_ID;
		memcpy(at + 1, &thread, sizeof(thread));
		memcpy(at + KYMO_EXTENDED_BYTES, &tid, sizeof(tid));
		at += KYMO_THREAD_BYTES;
	}
	*at = KYMO_EXTENDED_ID;
	memcpy(at + 1, &record->word, sizeof(record->word));
	return at + KYMO_EXTENDED_BYTES;
}

/*
 * kymo_compact_spill: a record on the spill lane, whose lock the caller holds and which has room for the
 * longest form. step is that of the longest form. Never a short header: the lane is a slow one.
 */
void kymo_compact_spill(struct kymo_ring *ring, uint8_t *at, uint32_t tid, uint16_t id, uint64_t step,
			const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	uint64_t head = ring->head;
	struct kymo_compact record = { .position = head, .word = kymo_clock_read() << 16 | id };

	record.header_bytes = KYMO_EXTENDED_BYTES;
	if (ring->state != state_of(tid, head))
		record.header_bytes += KYMO_THREAD_BYTES;
	kymo_copy_segs(kymo_compact_header(at, &record, tid), segs, segs_end);
	head += step - KYMO_COMPACT_LONGEST + record.header_bytes;
	__atomic_store_n(&ring->state, state_of(tid, head), __ATOMIC_RELEASE);
	__atomic_store_n(&ring->last, record.word, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
}

/*
 * kymo_compact_reserve: as reserve in portable.c. state names the end of no record until the exchange has
 * succeeded: a handler's record of the same size could end there, with a last that is not its. The words are
 * stored with release: who sees them also sees what was handed out before, so that the collector can tell
 * whether a record is in progress.
 */
bool kymo_compact_reserve(const struct kymo_slot *to, uint32_t slot, struct kymo_ring *ring, uint32_t tid,
			  uint64_t id, uint64_t step, struct kymo_compact *record)
{
	const struct kymo_memory *memory = &kymo_memories[slot];
	bool is_dated = false;

	for (;;) {
		uint64_t position = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
		uint64_t tail, state, last, end;

		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (KYMO__UNLIKELY((uint32_t)(position + step) - (uint32_t)tail > to->room)) {
			if (is_dated) {
				/* The time is of no record: nothing must count from it. */
				__atomic_store_n(&ring->state, state_of(tid, position + 1), __ATOMIC_RELEASE);
				__atomic_signal_fence(__ATOMIC_SEQ_CST);
				__atomic_store_n(&ring->last, kymo_clock_read() << 16 | id, __ATOMIC_RELEASE);
			}
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) == position &&
			    !kymo_overwrite(memory, (uint32_t)(ring - memory->rings), &ring->reserve,
					    step - KYMO_ONE_RECORD))
				return false;
			continue;
		}
		state = __atomic_load_n(&ring->state, __ATOMIC_RELAXED);
		last = __atomic_load_n(&ring->last, __ATOMIC_RELAXED);
		KYMO_TEST_STOP(COMPARED);
		record->position = position;
		record->word = kymo_clock_read() << 16 | id;
		record->header_bytes = header_bytes(state, last, tid, position, record->word);
		end = position + step - KYMO_COMPACT_LONGEST + record->header_bytes;
		__atomic_store_n(&ring->state, state_of(tid, position + 1), __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		KYMO_TEST_STOP(STATED);
		__atomic_store_n(&ring->last, record->word, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (KYMO__LIKELY(kymo__cas_local(&ring->reserve, position, end))) {
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			KYMO_TEST_STOP(EXCHANGED);
			__atomic_store_n(&ring->state, state_of(tid, end), __ATOMIC_RELEASE);
			return true;
		}
		is_dated = true;
	}
}
