/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter.c: runs the filters of an event, also over values that lie behind pieces of a payload or
 * behind variable fields, and over texts [filter.md 6.2]. On the record path: bounded, no locks, no
 * system calls. Reads of a piece are held against its length, whatever a program says.
 */
#include <string.h>

#include "filter.h"

static uint64_t seg_bytes(const struct kymo_seg *seg)
{
	return seg->bytes & ~KYMO_SEG_STAGED;
}

/* Copies count bytes of the payload from at on. Returns false where it does not have them. */
static bool fetch(const struct kymo_payload *payload, uint64_t at, void *to, uint64_t count)
{
	uint8_t *out = to;

	if (at + count > payload->bytes)
		return false;
	for (const struct kymo_seg *seg = payload->segs; count && seg < payload->segs_end; seg++) {
		uint64_t now = seg_bytes(seg);

		if (at >= now) {
			at -= now;
			continue;
		}
		now = now - at < count ? now - at : count;
		memcpy(out, (const uint8_t *)seg->at + at, now);
		out += now;
		count -= now;
		at = 0;
	}
	return !count;
}

/* Whether the payload has these bytes at at; callers know that it is long enough. */
static bool has_bytes(const struct kymo_payload *payload, uint64_t at, const uint8_t *bytes,
		      uint64_t count)
{
	for (const struct kymo_seg *seg = payload->segs; count && seg < payload->segs_end; seg++) {
		uint64_t now = seg_bytes(seg);

		if (at >= now) {
			at -= now;
			continue;
		}
		now = now - at < count ? now - at : count;
		if (memcmp((const uint8_t *)seg->at + at, bytes, now))
			return false;
		bytes += now;
		count -= now;
		at = 0;
	}
	return !count;
}

static const uint8_t *pool_of(const struct kymo_filter *filter)
{
	return (const uint8_t *)&filter->steps[filter->pool_offset_steps];
}

/* Where the last of the variable fields ends. Returns false where the payload is too short. */
static bool walk(const struct kymo_filter *filter, const struct kymo_filter_step *step,
		 const struct kymo_payload *payload, uint32_t *base)
{
	const uint8_t *at = pool_of(filter) + step->low;
	uint32_t end = 0;

	for (uint32_t i = 0; i < step->offset; i++, at += sizeof(struct kymo_filter_entry)) {
		struct kymo_filter_entry entry;
		uint16_t count;

		memcpy(&entry, at, sizeof(entry));
		end += entry.gap;
		if (!fetch(payload, end, &count, sizeof(count)))
			return false;
		end += (uint32_t)sizeof(count) + (uint32_t)count * entry.element_bytes;
	}
	*base = end;
	return true;
}

static bool text(const struct kymo_filter *filter, const struct kymo_filter_step *step,
		 const struct kymo_payload *payload, uint64_t at, bool *holds)
{
	const uint8_t *wanted = pool_of(filter) + step->low;
	uint64_t bytes = step->span;
	uint16_t count;

	if (!fetch(payload, at, &count, sizeof(count)) || at + sizeof(count) + count > payload->bytes)
		return false;
	at += sizeof(count);
	if (step->form == KYMO_FILTER_STR_SUFFIX)
		at += count - bytes;
	*holds = (step->form == KYMO_FILTER_STR_EQ ? count == bytes : count >= bytes) &&
		 has_bytes(payload, at, wanted, bytes);
	return true;
}

static bool number_holds(const struct kymo_filter_step *step, uint64_t value)
{
	switch (step->form) {
	case KYMO_FORM_PLAIN:
		return ((value - step->low) & step->mask) <= step->span;
	case KYMO_FORM_FLOAT:
		return kymo_float_key(value << step->above) - step->low <= step->span;
	case KYMO_FORM_SIGNED_MASKED:
		value = (uint64_t)((int64_t)(value << step->above) >> step->above);
	}
	return (value & step->mask) - step->low <= step->span;
}

/*
 * One step. Returns false where the payload is too short to decide; base is where the last walk
 * ended.
 */
static bool decide(const struct kymo_filter *filter, const struct kymo_filter_step *step,
		   const struct kymo_payload *payload, uint32_t *base, bool *holds)
{
	uint64_t at = step->offset, value = 0;

	switch (step->path) {
	case KYMO_PATH_STAGED:
		*holds = number_holds(step, kymo_filter_value(step, payload->words));
		return true;
	case KYMO_PATH_WALK:
		*holds = true;
		return walk(filter, step, payload, base);
	case KYMO_PATH_TEXT_BEHIND:
		at += *base;
		/* fallthrough */
	case KYMO_PATH_TEXT:
		return text(filter, step, payload, at, holds);
	case KYMO_PATH_BEHIND:
		at += *base;
		break;
	}
	if (!fetch(payload, at, &value, step->width))
		return false;
	*holds = number_holds(step, value);
	return true;
}

/*
 * kymo_filter_run: whether the filter selects the record. What cannot be decided is selected.
 * Context: any. At most KYMO_FILTER_INSNS_MAX steps.
 */
bool kymo_filter_run(const struct kymo_filter *filter, const struct kymo_payload *payload)
{
	const struct kymo_filter_step *step = filter->steps;
	uint32_t base = 0;

	for (;;) {
		uint8_t next;
		bool holds;

		if (!decide(filter, step, payload, &base, &holds))
			return true;
		next = holds ? step->yes : step->no;
		if (next >= KYMO_FILTER_REJECT)
			return next == KYMO_FILTER_ACCEPT;
		step = &filter->steps[next];
	}
}

/*
 * kymo_filters_pass: of the slots in wanted, those whose filter, if they have one, selects the
 * record, a payload of bytes in pieces. The staged words are used where they lie; other payloads
 * have them copied together first.
 */
uint32_t kymo_filters_pass(const struct kymo_filters *filters, uint32_t wanted,
			   const struct kymo_seg *segs, const struct kymo_seg *segs_end,
			   uint64_t bytes)
{
	struct kymo_payload payload = { segs->at, segs, segs_end, bytes };
	uint64_t words[KYMO_STAGED_BYTES_MAX / 8 + 2];

	if (bytes < filters->min_bytes)
		return wanted; /* it is not what its description says */
	if (!(segs->bytes & KYMO_SEG_STAGED) || seg_bytes(segs) < filters->staged_bytes) {
		memset(words, 0, filters->staged_bytes / 8 * 8 + 16);
		if (!fetch(&payload, 0, words, filters->staged_bytes))
			return wanted;
		payload.words = words;
	}
	for (uint32_t left = wanted; left; left &= left - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(left);
		const struct kymo_filter *filter =
			__atomic_load_n(&filters->of[slot], __ATOMIC_ACQUIRE);

		if (filter && !kymo_filter_run(filter, &payload))
			wanted &= ~(1u << slot);
	}
	return wanted;
}
