/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter.h: a filter as a small program over the packed payload of a record, which a collector
 * compiles and a traced program runs before it writes. spec/filter.md section 6 is the text to this
 * layout, and says what is refused.
 */
#ifndef KYMO_ABI_FILTER_H
#define KYMO_ABI_FILTER_H

#include "check.h"

#define KYMO_FILTER_INSNS_MAX 250u
#define KYMO_FILTER_POOL_MAX 4096u /* bytes of constants */
#define KYMO_FILTER_WALK_MAX 32u   /* variable fields that a walk may pass */

/* In place of the position of an instruction: the end. */
#define KYMO_FILTER_REJECT 254u
#define KYMO_FILTER_ACCEPT 255u

enum kymo_filter_op {
	KYMO_FILTER_ALWAYS = 1,
	KYMO_FILTER_EQ = 2,
	KYMO_FILTER_LT = 3,
	KYMO_FILTER_LE = 4,
	KYMO_FILTER_GT = 5,
	KYMO_FILTER_GE = 6,
	KYMO_FILTER_STR_EQ = 7,
	KYMO_FILTER_STR_PREFIX = 8,
	KYMO_FILTER_STR_SUFFIX = 9,
	KYMO_FILTER_WALK = 10,
};

/* What is read: the low six bits of an instruction's type. */
enum kymo_filter_type {
	KYMO_FILTER_NONE = 0,
	KYMO_FILTER_U8 = 1,
	KYMO_FILTER_U16 = 2,
	KYMO_FILTER_U32 = 3,
	KYMO_FILTER_U64 = 4,
	KYMO_FILTER_I8 = 5,
	KYMO_FILTER_I16 = 6,
	KYMO_FILTER_I32 = 7,
	KYMO_FILTER_I64 = 8,
	KYMO_FILTER_F32 = 9,
	KYMO_FILTER_F64 = 10,
	KYMO_FILTER_BOOL = 11,
	KYMO_FILTER_LEN = 12,
	KYMO_FILTER_STR = 13,
};

#define KYMO_FILTER_MASKED 0x40u /* the value & the uint64_t of the pool at aux */
#define KYMO_FILTER_BEHIND 0x80u /* offset counts from where the walk in front ended */

struct kymo_filter_insn {
	uint8_t op;	    /* enum kymo_filter_op */
	uint8_t type;	    /* enum kymo_filter_type and flags */
	uint8_t jump_true;  /* the next instruction where the test holds */
	uint8_t jump_false; /* and where it does not; both lie ahead, or are an end */
	uint16_t offset;    /* bytes from the start of the payload; walk: number of entries */
	uint16_t aux;	    /* bytes from the start of the pool */
	uint64_t imm;	    /* what is compared with; texts: their bytes */
};
KYMO_CHECK_SIZE(struct kymo_filter_insn, 16);
KYMO_CHECK_OFFSET(struct kymo_filter_insn, jump_true, 2);
KYMO_CHECK_OFFSET(struct kymo_filter_insn, offset, 4);
KYMO_CHECK_OFFSET(struct kymo_filter_insn, aux, 6);
KYMO_CHECK_OFFSET(struct kymo_filter_insn, imm, 8);

/* One step of a walk, in the pool, at any address. */
struct kymo_filter_entry {
	uint16_t gap;		/* bytes in front of the length of the variable field */
	uint16_t element_bytes; /* 1, 2, 4 or 8 */
};
KYMO_CHECK_SIZE(struct kymo_filter_entry, 4);
KYMO_CHECK_OFFSET(struct kymo_filter_entry, element_bytes, 2);

#endif
