/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lttng_tp.h: the peer's tracepoints, as its manual says to write them. kb:off is never enabled.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kb

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_tp.h"

#if !defined(BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_TP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	kb, one,
	LTTNG_UST_TP_ARGS(int, value),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, value, value))
)

LTTNG_UST_TRACEPOINT_EVENT(
	kb, five,
	LTTNG_UST_TP_ARGS(uint32_t, axis, int64_t, step, double, position, uint64_t, value, const char *, note),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, axis, axis)
		lttng_ust_field_integer(int64_t, step, step)
		lttng_ust_field_float(double, position, position)
		lttng_ust_field_integer(uint64_t, value, value)
		lttng_ust_field_string(note, note)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	kb, off,
	LTTNG_UST_TP_ARGS(int, value),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, value, value))
)

#endif

#include <lttng/tracepoint-event.h>
