/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * provider.h: the tracepoints npt:start, npt:loop and npt:stop for LTTng-UST, with the fields
 * that kymo's have, as LTTng's manual says to write them.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER npt

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(NPT_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define NPT_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	npt, start,
	LTTNG_UST_TP_ARGS(uint32_t, cpu),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, cpu, cpu))
)

LTTNG_UST_TRACEPOINT_EVENT(
	npt, loop,
	LTTNG_UST_TP_ARGS(uint64_t, iteration, uint64_t, ticks, double, duration),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, iteration, iteration)
		lttng_ust_field_integer(uint64_t, ticks, ticks)
		lttng_ust_field_float(double, duration, duration)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	npt, stop,
	LTTNG_UST_TP_ARGS(uint32_t, cpu, uint64_t, loops),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, cpu, cpu)
		lttng_ust_field_integer(uint64_t, loops, loops)
	)
)

#endif

#include <lttng/tracepoint-event.h>
