/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * compact.h: reads compact records as a collector and its readers do [ring.md 11]: cuts, and records
 * behind them. For tests.
 */
#ifndef KYMO_TEST_COMPACT_H
#define KYMO_TEST_COMPACT_H

#include "local.h"

/* Thread and time, 48 bits, in front of a record. */
struct cut {
	uint32_t thread;
	uint64_t time;
};

/* The record in front of at, as it was decoded. */
struct decoded {
	uint32_t id, bytes; /* bytes: of headers, a thread record included */
	const uint8_t *payload;
};

static inline uint64_t cut_load(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

/* The record at at; thread and time move on to it. */
static inline struct decoded cut_next(struct cut *cut, const uint8_t *at, uint32_t left)
{
	struct decoded found = { .bytes = 0 };
	bool with_thread = false;

	for (;;) {
		uint32_t word;
		uint64_t full;

		CHECK(left >= found.bytes + 4, "%u bytes", left);
		word = (uint32_t)cut_load(at + found.bytes, 4);
		if ((word & 31) != KYMO_EXTENDED_ID) {
			CHECK(!with_thread && (word & 31) >= 1 && (word & 31) <= KYMO_COMPACT_ID_MAX, "word %x", word);
			found.id = word & 31;
			found.bytes += KYMO_COMPACT_BYTES;
			cut->time += ((word >> 5) - (uint32_t)cut->time) & ((1u << KYMO_COMPACT_TIME_BITS) - 1);
			break;
		}
		CHECK(left >= found.bytes + 9, "%u bytes", left);
		full = cut_load(at + found.bytes + 1, 8);
		found.id = (uint16_t)full;
		cut->time = full >> 16;
		found.bytes += KYMO_EXTENDED_BYTES;
		if (found.id != KYMO_THREAD_ID)
			break;
		CHECK(!with_thread && left >= found.bytes + 4, "a thread record");
		cut->thread = (uint32_t)cut_load(at + found.bytes, 4);
		found.bytes += 4;
		with_thread = true;
	}
	found.payload = at + found.bytes;
	return found;
}

/*
 * Head with thread and time there. Returns false where the writer was too fast, or a portable record is in
 * progress.
 */
static inline bool cut_look(const struct local *local, uint32_t lane, uint64_t *head, struct cut *cut)
{
	const struct kymo_ring *ring = local_ring(local, lane);
	bool portable = kymo_kind == KYMO_KIND_PORTABLE;

	for (int look = 0; look < 64; look++) {
		uint64_t reserve;

		*head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		reserve = __atomic_load_n(&ring->reserve, __ATOMIC_ACQUIRE);
		cut->thread = (uint32_t)(__atomic_load_n(&ring->state, __ATOMIC_ACQUIRE) >> 32);
		cut->time = __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE) >> 16;
		if (portable && (reserve != *head || __atomic_load_n(&ring->reserve, __ATOMIC_ACQUIRE) != reserve))
			continue;
		if (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == *head)
			return true;
	}
	return false;
}

#endif
