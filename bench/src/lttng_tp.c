/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lttng_tp.c: instantiates the peer's probes.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_tp.h"
