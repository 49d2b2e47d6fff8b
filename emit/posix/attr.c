/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attr.c: the attributes object. Unit: trace core. Knows nothing of streams. */
#define _GNU_SOURCE
#include "internal.h"

/* The version of records and logs; a log tells by it who wrote it. */
#define VERSION "kymo-1"

bool kymop_attr_is_valid(const trace_attr_t *attr)
{
	return attr && attr->kymo__magic == KYMOP_ATTR_MAGIC;
}

/* The full policy that a stream has; 0 is "not set" [posix.md 8, row 5]. */
int kymop_attr_policy(const trace_attr_t *attr, bool with_log)
{
	if (attr->kymo__stream_policy)
		return attr->kymo__stream_policy;
	return with_log ? KYMOP_FLUSH : KYMOP_LOOP;
}

void kymop_attr_defaults(trace_attr_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->kymo__magic = KYMOP_ATTR_MAGIC;
	/* A line to a host has no begin to go back to. */
	attr->kymo__log_policy = KYMO_POSIX_HOSTED ? KYMOP_LOOP : KYMOP_APPEND;
	attr->kymo__inherited = 1;
	attr->kymo__stream_bytes = KYMO_POSIX_STREAM_BYTES;
	attr->kymo__data_bytes = KYMO_POSIX_DATA_BYTES < KYMO_POSIX_DATA_BYTES_MAX ?
					 KYMO_POSIX_DATA_BYTES : KYMO_POSIX_DATA_BYTES_MAX;
	attr->kymo__log_bytes = KYMO_POSIX_LOG_BYTES;
	attr->kymo__resolution.tv_nsec = 1;
	memcpy(attr->kymo__version, VERSION, sizeof(VERSION));
}

KYMOP_EXPORT int posix_trace_attr_init(trace_attr_t *attr)
{
	if (!attr)
		return EINVAL;
	kymop_attr_defaults(attr);
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_destroy(trace_attr_t *attr)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	attr->kymo__magic = 0;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getclockres(const trace_attr_t *attr, struct timespec *resolution)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*resolution = attr->kymo__resolution;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getcreatetime(const trace_attr_t *attr, struct timespec *created)
{
	/* Only what posix_trace_get_attr() gave has one. */
	if (!kymop_attr_is_valid(attr) || (!attr->kymo__created.tv_sec && !attr->kymo__created.tv_nsec))
		return EINVAL;
	*created = attr->kymo__created;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getgenversion(const trace_attr_t *attr, char *version)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	memcpy(version, attr->kymo__version, strlen(attr->kymo__version) + 1);
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getname(const trace_attr_t *attr, char *name)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	memcpy(name, attr->kymo__name, strlen(attr->kymo__name) + 1);
	return 0;
}

/* TRACE_NAME_MAX - 1 characters at most: a buffer of either reading of the page holds them. */
KYMOP_EXPORT int posix_trace_attr_setname(trace_attr_t *attr, const char *name)
{
	size_t length = 0;

	if (!kymop_attr_is_valid(attr) || !name)
		return EINVAL;
	while (length < TRACE_NAME_MAX - 1 && name[length])
		length++;
	memset(attr->kymo__name, 0, sizeof(attr->kymo__name));
	memcpy(attr->kymo__name, name, length);
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getstreamfullpolicy(const trace_attr_t *attr, int *policy)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*policy = kymop_attr_policy(attr, false);
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setstreamfullpolicy(trace_attr_t *attr, int policy)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	if (policy != KYMOP_LOOP && policy != KYMOP_UNTIL_FULL &&
	    !(KYMOP_WITH_LOG && policy == KYMOP_FLUSH))
		return EINVAL;
	attr->kymo__stream_policy = policy;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getstreamsize(const trace_attr_t *restrict attr,
						size_t *restrict bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*bytes = (size_t)attr->kymo__stream_bytes;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setstreamsize(trace_attr_t *attr, size_t bytes)
{
	if (!kymop_attr_is_valid(attr) || bytes > KYMO_POSIX_STREAM_BYTES_MAX)
		return EINVAL;
	attr->kymo__stream_bytes = bytes;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getmaxdatasize(const trace_attr_t *restrict attr,
						 size_t *restrict bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*bytes = (size_t)attr->kymo__data_bytes;
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_setmaxdatasize(trace_attr_t *attr, size_t bytes)
{
	if (!kymop_attr_is_valid(attr) || bytes > KYMO_POSIX_DATA_BYTES_MAX)
		return EINVAL;
	attr->kymo__data_bytes = bytes;
	return 0;
}

/* The filter event has the most: two sets. */
KYMOP_EXPORT int posix_trace_attr_getmaxsystemeventsize(const trace_attr_t *restrict attr,
							size_t *restrict bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	*bytes = kymop_record_step(KYMOP_SYSTEM_DATA_MAX);
	return 0;
}

KYMOP_EXPORT int posix_trace_attr_getmaxusereventsize(const trace_attr_t *restrict attr,
						      size_t data_bytes, size_t *restrict bytes)
{
	if (!kymop_attr_is_valid(attr))
		return EINVAL;
	if (data_bytes > attr->kymo__data_bytes)
		data_bytes = (size_t)attr->kymo__data_bytes;
	*bytes = kymop_record_step(data_bytes);
	return 0;
}
