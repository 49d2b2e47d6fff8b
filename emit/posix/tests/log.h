/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* log.h: what tests of logs share: writing one, and reading what is in it. */
#ifndef KYMO_POSIX_TEST_LOG_H
#define KYMO_POSIX_TEST_LOG_H

#include "test.h"

static int file_named(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	EXPECT(fd >= 0);
	return fd;
}

static trace_attr_t log_attr(int stream_policy, int log_policy, size_t log_bytes)
{
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	if (stream_policy)
		EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, stream_policy), 0);
	if (log_policy)
		EQUAL(posix_trace_attr_setlogfullpolicy(&attr, log_policy), 0);
	if (log_bytes)
		EQUAL(posix_trace_attr_setlogsize(&attr, log_bytes), 0);
	return attr;
}

static bool read_log(trace_id_t trid, struct got *got)
{
	EQUAL(posix_trace_getnext_event(trid, &got->info, got->data, sizeof(got->data), &got->bytes,
					&got->unavailable), 0);
	return !got->unavailable;
}

static bool read_user(trace_id_t trid, struct got *got)
{
	while (read_log(trid, got))
		if (got->info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT)
			return true;
	return false;
}

/* A log with count events behind a first one, shut down. */
static void write_log(int fd, const trace_attr_t *attr, int count)
{
	trace_event_id_t event = event_named("in the log");
	trace_id_t trid;

	EQUAL(posix_trace_create_withlog(0, attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < count; i++)
		emit_number(event, i);
	EQUAL(posix_trace_shutdown(trid), 0);
}

#endif
