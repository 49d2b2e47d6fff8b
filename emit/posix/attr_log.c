/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attr_log.c: attributes of logs. Unit: trace to log. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMO_POSIX_LOG
KYMOP_EXPORT int posix_trace_attr_getlogfullpolicy(const trace_attr_t *restrict attr,
						   int *restrict policy)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*policy = attr->kymo__log_policy;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setlogfullpolicy(trace_attr_t *attr, int policy)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	if (policy != KYMOP_LOOP && policy != KYMOP_UNTIL_FULL && policy != KYMOP_APPEND)
		return EINVAL;
	attr->kymo__log_policy = policy;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getlogsize(const trace_attr_t *restrict attr,
					     size_t *restrict bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*bytes = (size_t)attr->kymo__log_bytes;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setlogsize(trace_attr_t *attr, size_t bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	attr->kymo__log_bytes = bytes;
	return 0;
}
#else
typedef int kymop_no_log; /* a file must not be empty */
#endif
