/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A controller for another process: watch PID prints what it records, for as long as it runs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trace.h>

int main(int argc, char **argv)
{
	pid_t pid = argc == 2 ? (pid_t)atoi(argv[1]) : 0;
	struct posix_trace_event_info info;
	trace_attr_t attr;
	trace_id_t stream;
	int error;

	posix_trace_attr_init(&attr);
	posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED);
	error = pid > 0 ? posix_trace_create(pid, &attr, &stream) : EINVAL;
	if (error) {
		fprintf(stderr, "watch: %s\nusage: watch PID\n", strerror(error));
		return 1;
	}
	posix_trace_start(stream);
	do {
		char name[TRACE_EVENT_NAME_MAX + 1], data[64];
		struct timespec until;
		int unavailable;
		size_t bytes;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		error = posix_trace_timedgetnext_event(stream, &info, data, sizeof(data), &bytes, &unavailable,
						       &until);
		if (error)
			continue;
		posix_trace_eventid_get_name(stream, info.posix_event_id, name);
		printf("%ld.%09ld %d %s, %zu bytes\n", (long)info.posix_timestamp.tv_sec,
		       info.posix_timestamp.tv_nsec, (int)info.posix_pid, name, bytes);
	} while (!error || (error == ETIMEDOUT && !kill(pid, 0)));
	return posix_trace_shutdown(stream);
}
