/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * put.h: payloads into a ring to the byte, for the portable ring: what is right behind a record may be a
 * handler's record, finished and not yet published [ring.md 6].
 */
#ifndef KYMO_PUT_H
#define KYMO_PUT_H

#include <stdint.h>
#include <string.h>

/* A record's header and its thread. Returns where the payload begins. */
static inline uint8_t *put_header(uint8_t *to, uint64_t word, uint32_t tid)
{
	memcpy(to, &word, sizeof(word));
	memcpy(to + sizeof(word), &tid, sizeof(tid));
	return to + sizeof(word) + sizeof(tid);
}

/* The last bytes of a record, less than 8. */
static inline uint8_t *put_rest(uint8_t *to, uint64_t rest, uint64_t bytes)
{
	if (bytes & 4) {
		memcpy(to, &rest, 4);
		rest >>= 32;
		to += 4;
	}
	if (bytes & 2) {
		memcpy(to, &rest, 2);
		rest >>= 16;
		to += 2;
	}
	if (bytes & 1)
		*to++ = (uint8_t)rest;
	return to;
}

/* Whole words as they were stored, then the rest. */
static inline uint8_t *put_words(uint8_t *to, const uint64_t *words, uint64_t bytes)
{
	for (; bytes >= 8; bytes -= 8, to += 8)
		memcpy(to, words++, 8);
	return bytes ? put_rest(to, *words, bytes) : to;
}

static inline uint8_t *put_piece(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t first, last;

	if (bytes - 8 > 8) {
		memcpy(to, from, bytes);
		return to + bytes;
	}
	memcpy(&first, from, 8);
	memcpy(&last, from + bytes - 8, 8);
	memcpy(to, &first, 8);
	memcpy(to + bytes - 8, &last, 8);
	return to + bytes;
}

#endif
