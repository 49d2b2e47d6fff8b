/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * eh_bytes.h: numbers and addresses of .eh_frame, from bytes that nobody vouches for. A part of eh_frame.c.
 */
#ifndef KYMO_EH_BYTES_H
#define KYMO_EH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	ENCODING_FORMAT = 0x0f,
	ENCODING_BASE = 0x70,
	ENCODING_RELATIVE = 0x10, /* to the place of the value */
	ENCODING_INDIRECT = 0x80,
};

/* Bytes that are read in order. Behind the end there are zeros, and is_bad. */
struct cursor {
	const uint8_t *at, *end, *begin;
	uintptr_t address; /* of begin, in the process */
	bool is_bad;
};

static inline uint64_t take(struct cursor *from, size_t bytes)
{
	uint64_t value = 0;

	if ((size_t)(from->end - from->at) < bytes) {
		from->is_bad = true;
		from->at = from->end;
		return 0;
	}
	memcpy(&value, from->at, bytes);
	from->at += bytes;
	return value;
}

static inline uint64_t take_uleb(struct cursor *from)
{
	uint64_t value = 0;

	for (unsigned shift = 0; !from->is_bad; shift += 7) {
		uint64_t byte = take(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

static inline int64_t take_sleb(struct cursor *from)
{
	uint64_t value = 0;

	for (unsigned shift = 0; !from->is_bad;) {
		uint64_t byte = take(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && shift < 64)
			value |= ~0ull << shift;
		break;
	}
	return (int64_t)value;
}

/* The next bytes as a cursor of their own. */
static inline struct cursor take_block(struct cursor *from)
{
	uint64_t bytes = take_uleb(from);
	struct cursor block = *from;

	if (bytes > (uint64_t)(from->end - from->at)) {
		from->is_bad = true;
		bytes = 0;
	}
	block.end = from->at + bytes;
	block.is_bad = from->is_bad;
	from->at = block.end;
	return block;
}

/* A number in one of the formats of an address. */
static inline uint64_t take_format(struct cursor *from, uint8_t encoding)
{
	switch (encoding & ENCODING_FORMAT) {
	case 0x00:
	case 0x04:
	case 0x0c:
		return take(from, 8);
	case 0x02:
		return take(from, 2);
	case 0x03:
		return take(from, 4);
	case 0x0a:
		return (uint64_t)(int64_t)(int16_t)take(from, 2);
	case 0x0b:
		return (uint64_t)(int64_t)(int32_t)take(from, 4);
	default:
		from->is_bad = true;
		return 0;
	}
}

static inline uint64_t take_address(struct cursor *from, uint8_t encoding)
{
	uint64_t place = from->address + (uint64_t)(from->at - from->begin);
	uint64_t value = take_format(from, encoding);

	if (encoding & ENCODING_INDIRECT || (encoding & ENCODING_BASE & ~ENCODING_RELATIVE))
		from->is_bad = true;
	return encoding & ENCODING_RELATIVE ? value + place : value;
}

#endif
