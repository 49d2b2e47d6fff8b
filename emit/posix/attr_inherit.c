/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attr_inherit.c: whether children go on in their parent's stream. Unit: trace inheritance. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMO_POSIX_INHERIT
KYMOP_EXPORT int posix_trace_attr_getinherited(const trace_attr_t *restrict attr,
					       int *restrict inherited)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*inherited = attr->kymo__inherited;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setinherited(trace_attr_t *attr, int inherited)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	if (inherited != POSIX_TRACE_CLOSE_FOR_CHILD && inherited != POSIX_TRACE_INHERITED)
		return EINVAL;
	attr->kymo__inherited = inherited;
	return 0;
}
#else
typedef int kymop_no_inheritance; /* a file must not be empty */
#endif
