/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * desc.h: descriptions of events and enumerations. They stand in the ELF section "kymo_events",
 * contain no pointer, and travel over the socket as they are. spec/event.md section 3 is the text
 * to this layout.
 */
#ifndef KYMO_ABI_DESC_H
#define KYMO_ABI_DESC_H

#include "check.h"
#include "types.h"

#define KYMO_DESC_MAGIC 0x4f4d594bu /* "KYMO", little endian */
#define KYMO_DESC_ALIGN 8u
#define KYMO_DESC_BYTES_MAX 16384u

/* In place of an event's index: enumerations, and events that are not registered. */
#define KYMO_NO_INDEX 0xffffffffu

enum kymo_desc_kind {
	KYMO_DESC_EVENT = 1,
	KYMO_DESC_ENUM = 2,
};

/*
 * Head of a description; followed by count entries of 8 bytes, an entry of zeros, and text_bytes
 * bytes of text.
 */
struct kymo_desc {
	uint32_t magic;
	uint32_t bytes;	     /* whole description, head and text included */
	uint16_t kind;	     /* enum kymo_desc_kind */
	uint16_t count;	     /* fields of an event, labels of an enumeration */
	uint32_t line;	     /* of the source file, 0 where unknown */
	uint16_t text_bytes; /* NUL-terminated strings in the order of event.md 3.2 */
	uint8_t type;	     /* enumeration: its integer type; event: 0 */
	uint8_t unused[5];
};
KYMO_CHECK_SIZE(struct kymo_desc, 24);
KYMO_CHECK_OFFSET(struct kymo_desc, kind, 8);
KYMO_CHECK_OFFSET(struct kymo_desc, line, 12);
KYMO_CHECK_OFFSET(struct kymo_desc, text_bytes, 16);
KYMO_CHECK_OFFSET(struct kymo_desc, type, 18);

/* One field of an event. An enumeration has int64_t values in this place. */
struct kymo_field {
	uint8_t type;	 /* enum kymo_type */
	uint8_t element; /* array and sequence: type of an element, a scalar; else 0 */
	uint8_t is_enum; /* 1: the values are labelled by the enumeration that the text names */
	uint8_t unused;
	uint32_t count;	 /* array: elements; else 0 */
};
KYMO_CHECK_SIZE(struct kymo_field, 8);
KYMO_CHECK_OFFSET(struct kymo_field, count, 4);

#endif
