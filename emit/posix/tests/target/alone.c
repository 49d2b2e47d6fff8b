/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* alone.c: a program of a small target that is linked with nothing but the library. Not run. */
#include <kymo/target.h>
#include <trace.h>

const uint32_t kymo_target_hz = 1000000;

uint64_t kymo_target_clock(void)
{
	static uint64_t now;

	return now += 10;
}

size_t kymo_target_write(const void *bytes, size_t count)
{
	(void)bytes;
	return count;
}

void _start(void);
void _start(void)
{
	struct timespec until = { 1, 2 };
	struct posix_trace_event_info info;
	trace_event_id_t event;
	trace_id_t trid;
	size_t bytes;
	int unavailable;
	char data[64];

	posix_trace_create(0, 0, &trid);
	posix_trace_eventid_open("e", &event);
	posix_trace_start(trid);
	posix_trace_event(event, "abcd", 4);
	posix_trace_timedgetnext_event(trid, &info, data, sizeof(data), &bytes, &unavailable, &until);
	posix_trace_shutdown(trid);
	posix_trace_create_withlog(0, 0, 1, &trid);
	kymo_target_idle();
	posix_trace_shutdown(trid);
}
