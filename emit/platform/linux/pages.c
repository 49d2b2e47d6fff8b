/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pages.c: the bytes of the kernel's rings: where fields are, by the texts of tracefs, and the events
 * of a page [kernel.md 4]. Trusts nothing in a page: what does not fit ends it.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "tracefs.h"

#if KYMOP_KERNEL

#define MISSED (1u << 31)
#define MISSED_STORED (1u << 30)

enum type_len { LONG = 0, PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31 };
#define DELTA_BITS 27
#define STAMP_BITS 59

/* A line is "field:TYPE NAME;\toffset:N;\tsize:N;...", the name perhaps with brackets behind it. */
struct kymop_field kymop_field_of(const char *format, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = format; (at = strstr(at, name)); at += length) {
		const char *end = strchr(at, ';'), *offset, *size;

		if (at == format || (at[-1] != ' ' && at[-1] != '*') || (at[length] != ';' && at[length] != '[') ||
		    !end)
			continue;
		offset = strstr(end, "offset:");
		size = offset ? strstr(offset, "size:") : NULL;
		if (size)
			return (struct kymop_field){ (uint16_t)strtoul(offset + 7, NULL, 10),
						     (uint16_t)strtoul(size + 5, NULL, 10) };
	}
	return (struct kymop_field){ 0, 0 };
}

/* As an integer without a sign; 0 where the event ends before. */
uint64_t kymop_field_get(struct kymop_field field, const uint8_t *data, uint32_t bytes)
{
	uint64_t value = 0;
	uint32_t size = field.bytes < 8 ? field.bytes : 8;

	if (field.offset + size > bytes)
		return 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(&value, data + field.offset, size);
#else
	memcpy((uint8_t *)&value + 8 - size, data + field.offset, size);
#endif
	return value;
}

void kymop_page_begin(struct kymop_pages *pages, const struct kymop_page_layout *layout,
		      const uint8_t *page, size_t bytes, bool *has_missed)
{
	uint64_t commit, used;

	memset(pages, 0, sizeof(*pages));
	*has_missed = false;
	if (bytes < layout->data.offset)
		return;
	memcpy(&pages->time, page, sizeof(pages->time));
	commit = kymop_field_get(layout->commit, page, (uint32_t)bytes);
	used = (uint32_t)commit & ~(MISSED | MISSED_STORED);
	*has_missed = (commit & MISSED) != 0;
	if (used > bytes - layout->data.offset)
		used = bytes - layout->data.offset;
	pages->at = page + layout->data.offset;
	pages->end = pages->at + used;
}

/* type_len is in the low bits of the head of little endian machines, in the high ones of the others. */
static void split(uint32_t head, uint32_t *type_len, uint32_t *delta)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	*type_len = head & 31;
	*delta = head >> 5;
#else
	*type_len = head >> DELTA_BITS;
	*delta = head & ((1u << DELTA_BITS) - 1);
#endif
}

static bool end_page(struct kymop_pages *pages)
{
	pages->at = pages->end;
	pages->data = NULL;
	return false;
}

/* kymop_page_next: the next event of the page, in data, bytes and time. */
bool kymop_page_next(struct kymop_pages *pages)
{
	while (pages->end - pages->at >= 4) {
		uint32_t head, type_len, delta, word = 0, bytes;
		size_t left = (size_t)(pages->end - pages->at) - 4;

		memcpy(&head, pages->at, 4);
		split(head, &type_len, &delta);
		pages->at += 4;
		if (type_len != LONG && type_len < PADDING) {
			bytes = 4 * type_len;
			if (bytes > left)
				return end_page(pages);
			pages->time += delta;
			pages->data = pages->at;
			pages->bytes = bytes;
			pages->at += bytes;
			return true;
		}
		if (left < 4 || (type_len == PADDING && !delta))
			return end_page(pages);
		memcpy(&word, pages->at, 4);
		if (type_len == TIME_EXTEND || type_len == TIME_STAMP) {
			uint64_t ticks = delta + ((uint64_t)word << DELTA_BITS);
			uint64_t upper = pages->time >> STAMP_BITS << STAMP_BITS;

			pages->time = type_len == TIME_STAMP ? upper | ticks : pages->time + ticks;
			pages->at += 4;
			continue;
		}
		/* The word counts itself. */
		if (word < 4 || word > left)
			return end_page(pages);
		pages->time += delta;
		pages->data = pages->at + 4;
		pages->bytes = word - 4;
		pages->at += word;
		if (type_len == LONG)
			return true;
	}
	return end_page(pages);
}
#else
typedef int kymop_no_pages; /* a file must not be empty */
#endif
