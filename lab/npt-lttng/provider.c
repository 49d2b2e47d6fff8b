/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* provider.c: makes the probes of provider.h. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"
