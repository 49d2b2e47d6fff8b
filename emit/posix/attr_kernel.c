/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attr_kernel.c: the attribute that asks for events of the kernel [posix.md 10]. An extension. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_KERNEL
KYMOP_EXPORT int posix_trace_attr_getkernelevents(const trace_attr_t *restrict attr,
						  int *restrict events)
{
	if (!kymop_attr_is_valid(attr) || !events)
		return EINVAL;
	*events = attr->kymo__kernel;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setkernelevents(trace_attr_t *attr, int events)
{
	if (!kymop_attr_is_valid(attr) || (events & ~KYMOP_KERNEL_KINDS))
		return EINVAL;
	attr->kymo__kernel = (int16_t)events;
	return 0;
}
#else
typedef int kymop_no_attr_kernel; /* a file must not be empty */
#endif
