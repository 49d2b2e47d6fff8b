/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A stream with a log: log FILE writes it, log -r FILE reads it, in any process, at any time later. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

static int write_log(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	trace_event_id_t step;
	trace_attr_t attr;
	trace_id_t stream;

	posix_trace_attr_init(&attr);
	posix_trace_attr_setname(&attr, "example");
	posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND);
	if (file < 0 || posix_trace_create_withlog(0, &attr, file, &stream))
		return 1;
	posix_trace_eventid_open("step", &step);
	posix_trace_start(stream);
	for (int i = 1; i <= 3; i++)
		posix_trace_event(step, &i, sizeof(i));
	/* Writes what is not in the log yet, and finishes it. */
	return posix_trace_shutdown(stream) || close(file);
}

static int read_log(const char *path)
{
	int file = open(path, O_RDONLY), data, unavailable;
	struct posix_trace_event_info info;
	trace_id_t stream;
	size_t bytes;

	if (file < 0 || posix_trace_open(file, &stream))
		return 1;
	while (!posix_trace_getnext_event(stream, &info, &data, sizeof(data), &bytes, &unavailable) &&
	       !unavailable) {
		char name[TRACE_EVENT_NAME_MAX + 1];

		posix_trace_eventid_get_name(stream, info.posix_event_id, name);
		printf("%s\n", name);
	}
	return posix_trace_close(stream) || close(file);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-r"))
		return read_log(argv[2]);
	return argc == 2 ? write_log(argv[1]) : 2;
}
