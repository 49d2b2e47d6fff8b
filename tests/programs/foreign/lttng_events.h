/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lttng_events.h: a tracepoint of LTTng-UST for each kind of field, as its manual says to write them. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER foreign

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(FOREIGN_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define FOREIGN_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(
	foreign, state,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("IDLE", 0)
		lttng_ust_field_enum_range("BUSY", 1, 5)
		lttng_ust_field_enum_value("DONE", 100)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	foreign, numbers,
	LTTNG_UST_TP_ARGS(int64_t, n, double, x),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, n)
		lttng_ust_field_integer(uint16_t, u16, n)
		lttng_ust_field_integer(int32_t, i32, n)
		lttng_ust_field_integer(uint64_t, u64, n)
		lttng_ust_field_integer_hex(uint32_t, hex, n)
		lttng_ust_field_integer_network(uint32_t, big, n)
		lttng_ust_field_float(float, f32, (float)x)
		lttng_ust_field_float(double, f64, x)
		lttng_ust_field_enum(foreign, state, uint8_t, state, n % 6)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	foreign, texts,
	LTTNG_UST_TP_ARGS(const char *, text, const uint16_t *, row, unsigned, count),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(text, text)
		lttng_ust_field_array(uint16_t, three, row, 3)
		lttng_ust_field_sequence(uint16_t, some, row, unsigned, count)
		lttng_ust_field_sequence_text(char, cut, text, unsigned, count)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(foreign, nothing, LTTNG_UST_TP_ARGS(int, unused), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
