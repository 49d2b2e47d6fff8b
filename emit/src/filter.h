/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter.h: filters of events, as they are run [filter.md 6]. What came over the wire is checked
 * and translated by filter_make.c, in the helper thread or at start; the record path runs it here
 * and in filter.c: no locks, no allocation, no loop but forward.
 *
 * A number is compared by its distance from the least value that the test takes: (value - low) &
 * mask <= span holds for each of == < <= > >= and every integer, signed or not. Floats go through
 * their bits to integers of the same order, so that no register or mode of the processor's floating
 * point is touched.
 *
 * Memory: a thread may be inside of a program at any time, also stopped there, and says so to
 * nobody: two locked operations would cost more than the filter. So programs are never freed or
 * changed; equal ones are shared, which is what sessions that begin again and again ask for, and
 * all together have KYMO_FILTERS_BYTES_MAX. Beyond that a filter is refused.
 */
#ifndef KYMO_FILTER_H
#define KYMO_FILTER_H

#include "internal.h"
#include "kymo/abi/filter.h"

#ifndef KYMO_FILTERS_BYTES_MAX
#define KYMO_FILTERS_BYTES_MAX (8u << 20)
#endif

/* What a type says besides the type. */
#define KYMO_FILTER_FLAGS (KYMO_FILTER_MASKED | KYMO_FILTER_BEHIND)

/* How a step reads. */
enum kymo_filter_path {
	KYMO_PATH_STAGED, /* two staged words */
	KYMO_PATH_FETCH,  /* anywhere */
	KYMO_PATH_BEHIND, /* anywhere, from base */
	KYMO_PATH_TEXT,
	KYMO_PATH_TEXT_BEHIND,
	KYMO_PATH_WALK,
};

/* What is done with the value. For texts, form is the operation. */
enum kymo_filter_form {
	KYMO_FORM_PLAIN,	 /* (value - low) & mask */
	KYMO_FORM_MASKED,	 /* (value & mask) - low */
	KYMO_FORM_SIGNED_MASKED, /* the same, behind extension by the sign */
	KYMO_FORM_FLOAT,	 /* kymo_float_key(value) - low */
};

struct kymo_filter_step {
	uint8_t path, form;
	uint8_t yes, no; /* next step, or an end */
	uint8_t width;	 /* bytes of the value */
	uint8_t above;	 /* bits of a word above it */
	union {
		struct {
			uint8_t word, shift; /* staged: first word, and its bits in front of the value */
		};
		uint16_t offset; /* elsewhere: bytes; walk: entries */
	};
	uint64_t mask;
	uint64_t low;  /* text, walk: place in the pool */
	uint64_t span; /* text: bytes */
};
KYMO_CHECK_SIZE(struct kymo_filter_step, 32);

/* A program. Never freed, never changed. */
struct kymo_filter {
	struct kymo_filter *next; /* of all programs, for filter_make.c */
	uint64_t hash;
	uint32_t bytes; /* of all of it */
	uint16_t pool_offset_steps; /* the pool stands behind so many steps */
	uint16_t chain;		    /* so many steps in front are staged, plain, and reject or go on */
	struct kymo_filter_step steps[];
};

/* The filters of an event: by slot, null where all its records are wanted. Never freed while the event is there. */
struct kymo_filters {
	const struct kymo_filter *of[KYMO_SLOTS];
	/*
	 * Of the only slot that is on, if it begins with a chain: that is asked before anything else. In
	 * the low bits the slot, and KYMO_ONLY_DECIDES: one load gives a filter and whose it is.
	 */
	uintptr_t only;
	uint32_t min_bytes;    /* of every payload, by the event's description */
	uint32_t staged_bytes; /* of them, those in front of the first piece of a payload */
	struct kymo_filters *next; /* while it is free */
};

#define KYMO_ONLY_SLOT 15u
#define KYMO_ONLY_DECIDES 16u /* the chain is all of the filter */
#define KYMO_ONLY_BITS 63u    /* programs stand at multiples of 64 */

static inline const struct kymo_filter *kymo_filter_only(uintptr_t only)
{
	return (const struct kymo_filter *)(only & ~(uintptr_t)KYMO_ONLY_BITS);
}

/* Scalars only, and the length of a text behind them: 32 fields. */
#define KYMO_STAGED_BYTES_MAX (32u * 8)

/* A payload in its pieces. words: its first staged_bytes, in whole words, and a word more. */
struct kymo_payload {
	const uint64_t *words;
	const struct kymo_seg *segs, *segs_end;
	uint64_t bytes;
};

/* filter_make.c: under kymo_lock */
struct kymo_filters *kymo_filters_new(const struct kymo_desc *desc);
void kymo_filters_free(struct kymo_filters *filters);
int kymo_filter_make(const struct kymo_filters *filters, const uint8_t *insns, uint32_t insn_count,
		     const uint8_t *pool, uint32_t pool_bytes, uint32_t payload_min_bytes,
		     const struct kymo_filter **made);

/* filter_range.c: pure */
uint32_t kymo_filter_width(uint8_t type);
bool kymo_filter_select(uint8_t op, uint64_t below, uint64_t above, uint64_t *least, uint64_t *most);
bool kymo_filter_range(const struct kymo_filter_insn *insn, uint64_t *least, uint64_t *most);

/* filter.c */
uint32_t kymo_filters_pass(const struct kymo_filters *filters, uint32_t wanted,
				const struct kymo_seg *segs, const struct kymo_seg *segs_end,
				uint64_t bytes);
bool kymo_filter_run(const struct kymo_filter *filter, const struct kymo_payload *payload);

/*
 * kymo_float_key: a float's bits, at the upper end of a word, as an integer of the same order: -0
 * is just below 0, NaNs lie below the least and above the largest number.
 */
static inline uint64_t kymo_float_key(uint64_t bits)
{
	return bits ^ ((uint64_t)((int64_t)bits >> 63) | 1ull << 63);
}

/* kymo_float_unkey: the inverse of kymo_float_key. */
static inline uint64_t kymo_float_unkey(uint64_t key)
{
	return key ^ (key >> 63 ? 1ull << 63 : UINT64_MAX);
}

/*
 * kymo_filter_value: a staged value, and in the bits above it what is behind. Word by word, as it
 * was stored: a load across two stores would wait.
 */
static inline uint64_t kymo_filter_value(const struct kymo_filter_step *step, const uint64_t *words)
{
	const uint64_t *word = words + step->word;
#if KYMO_ARCH_X86_64
	uint64_t value = word[0];

	__asm__("shrdq %%cl, %1, %0" : "+r"(value) : "r"(word[1]), "c"(step->shift) : "cc");
	return value;
#else
	return word[0] >> step->shift | word[1] << 1 << (~step->shift & 63);
#endif
}

/*
 * kymo_filter_rejects: whether the chain in front of a filter, which has one, rejects the record.
 * If not, that says nothing. Context: any. At most KYMO_FILTER_INSNS_MAX steps.
 */
static inline bool kymo_filter_rejects(const struct kymo_filter *filter, const uint64_t *words)
{
	const struct kymo_filter_step *step = filter->steps;

	for (uint32_t left = filter->chain;; step++) {
		uint64_t value = kymo_filter_value(step, words);

		if (((value - step->low) & step->mask) > step->span)
			return true;
		if (!--left)
			return false;
	}
}

#endif
