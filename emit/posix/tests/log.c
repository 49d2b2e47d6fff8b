/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* log.c: streams with a log, and logs that are read: states, policies, files and pipes. */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/stat.h>

#include <trace.h>

#if KYMO_POSIX_LOG && KYMO_POSIX_RETRIEVAL && KYMO_POSIX_USER_EVENTS

#include "log.h"

TEST("create_withlog", withlog_state,
	"a new stream with a log is suspended, not flushing, without errors")
{
	struct posix_trace_status_info status;
	trace_id_t trid;

	EQUAL(posix_trace_create_withlog(0, NULL, file_named("log"), &trid), 0);
	status = status_of(trid);
	EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
	EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
	EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
	EQUAL(status.posix_stream_flush_error, 0);
	EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
	EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
}

TEST("create_withlog", withlog_default_policy,
	"without another wish a stream with a log has the policy FLUSH")
{
	trace_attr_t attr;
	trace_id_t trid;
	int policy;

	EQUAL(posix_trace_create_withlog(0, NULL, file_named("log"), &trid), 0);
	EQUAL(posix_trace_get_attr(trid, &attr), 0);
	EQUAL(posix_trace_attr_getstreamfullpolicy(&attr, &policy), 0);
	EQUAL(policy, POSIX_TRACE_FLUSH);
}

TEST("create_withlog", withlog_bad_file, "EBADF: the descriptor is none, or not open for writing")
{
	int fd = file_named("log");
	trace_id_t trid;

	EQUAL(posix_trace_create_withlog(0, NULL, 9999, &trid), EBADF);
	close(fd);
	fd = open("log", O_RDONLY);
	EQUAL(posix_trace_create_withlog(0, NULL, fd, &trid), EBADF);
}

TEST("create_withlog", withlog_bad_policy,
	"EINVAL: LOOP and UNTIL_FULL need a file in which they can write at places")
{
	trace_attr_t attr = log_attr(0, POSIX_TRACE_LOOP, 0);
	trace_id_t trid;
	int ends[2];

	EQUAL(pipe(ends), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), EINVAL);
	attr = log_attr(0, POSIX_TRACE_UNTIL_FULL, 0);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), EINVAL);
	attr = log_attr(0, POSIX_TRACE_APPEND, 0);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), 0);
}

TEST("open", log_round_trip,
	"what was recorded is in the log, in order, with names, and can be read again after "
	"rewind")
{
	trace_event_id_t event = event_named("in the log");
	int fd = file_named("log"), count;
	char name[TRACE_EVENT_NAME_MAX + 1];
	trace_id_t trid;
	struct got got;

	write_log(fd, NULL, 1000);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (int round = 0; round < 2; round++) {
		EXPECT(read_log(trid, &got));
		EQUAL(got.info.posix_event_id, POSIX_TRACE_START);
		for (count = 0; read_user(trid, &got); count++) {
			EQUAL(got.info.posix_event_id, event);
			EQUAL(got.info.posix_pid, getpid());
			EQUAL(number_of(&got), count);
		}
		EQUAL(count, 1000);
		EXPECT(!read_log(trid, &got));
		EQUAL(posix_trace_rewind(trid), 0);
	}
	EQUAL(posix_trace_eventid_get_name(trid, event, name), 0);
	EXPECT(!strcmp(name, "in the log"));
	EQUAL(posix_trace_close(trid), 0);
	EQUAL(posix_trace_close(trid), EINVAL);
	EQUAL(close(fd), 0);
}

TEST("open", open_in_other_process, "another process, and several at a time, may open a log")
{
	int fd = file_named("log");
	trace_id_t a, b;
	struct got got;
	pid_t child = fork();

	if (!child) {
		write_log(fd, NULL, 10);
		exit(0);
	}
	join(child);
	EQUAL(posix_trace_open(fd, &a), 0);
	EQUAL(posix_trace_open(fd, &b), 0);
	EXPECT(read_user(a, &got));
	EQUAL(got.info.posix_pid, child);
	EXPECT(read_user(a, &got));
	EQUAL(number_of(&got), 1);
	EXPECT(read_user(b, &got));
	EQUAL(number_of(&got), 0);
}

TEST("open", open_attributes,
	"attributes and status of an open log are those of its stream; reading the status "
	"changes nothing")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_UNTIL_FULL, 50000);
	struct posix_trace_status_info status;
	char name[TRACE_NAME_MAX + 1];
	int fd = file_named("log"), policy;
	struct timespec created;
	trace_id_t trid;
	size_t bytes;

	EQUAL(posix_trace_attr_setname(&attr, "logged"), 0);
	write_log(fd, &attr, 100000);
	EQUAL(posix_trace_open(fd, &trid), 0);
	EQUAL(posix_trace_get_attr(trid, &attr), 0);
	EQUAL(posix_trace_attr_getname(&attr, name), 0);
	EXPECT(!strcmp(name, "logged"));
	EQUAL(posix_trace_attr_getlogfullpolicy(&attr, &policy), 0);
	EQUAL(policy, POSIX_TRACE_UNTIL_FULL);
	EQUAL(posix_trace_attr_getlogsize(&attr, &bytes), 0);
	EQUAL(bytes, 50000);
	EQUAL(posix_trace_attr_getcreatetime(&attr, &created), 0);
	EXPECT(created.tv_sec > 1000000000);
	for (int i = 0; i < 2; i++) {
		status = status_of(trid);
		EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
		EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
		EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
	}
}

TEST("open", open_what_it_is_for, "EINVAL: what controls an active stream, of a log that is open")
{
	struct timespec until = { 0, 0 };
	trace_event_id_t event;
	int fd = file_named("log");
	trace_id_t trid;
	struct got got;

	write_log(fd, NULL, 3);
	EQUAL(posix_trace_open(fd, &trid), 0);
	EQUAL(posix_trace_start(trid), EINVAL);
	EQUAL(posix_trace_stop(trid), EINVAL);
	EQUAL(posix_trace_clear(trid), EINVAL);
	EQUAL(posix_trace_flush(trid), EINVAL);
	EQUAL(posix_trace_shutdown(trid), EINVAL);
#if KYMO_POSIX_ONLINE
	EQUAL(posix_trace_trygetnext_event(trid, &got.info, got.data, 4, &got.bytes, &got.unavailable),
	      EINVAL);
	EQUAL(posix_trace_timedgetnext_event(trid, &got.info, got.data, 4, &got.bytes, &got.unavailable,
					     &until), EINVAL);
#endif
#if KYMO_POSIX_FILTER
	{
		trace_event_set_t set;

		EQUAL(posix_trace_get_filter(trid, &set), EINVAL);
		EQUAL(posix_trace_trid_eventid_open(trid, "x", &event), EINVAL);
	}
#endif
	(void)event;
	(void)until;
	(void)got;
}

TEST("open", open_no_log,
	"EINVAL: the file is no log; a descriptor that cannot be read is refused, too")
{
	int fd = file_named("none");
	trace_id_t trid;

	EQUAL(posix_trace_open(fd, &trid), EINVAL);
	EQUAL(write(fd, "This is not a log, whatever it may be called.", 45), 45);
	EQUAL(posix_trace_open(fd, &trid), EINVAL);
	EXPECT(posix_trace_open(9999, &trid) == EBADF);
}

TEST("getnext_event", getnext_with_log, "EINVAL: a stream with a log is not read on-line")
{
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_create_withlog(0, NULL, file_named("log"), &trid), 0);
	EQUAL(posix_trace_getnext_event(trid, &got.info, got.data, 4, &got.bytes, &got.unavailable),
	      EINVAL);
#if KYMO_POSIX_ONLINE
	EQUAL(posix_trace_trygetnext_event(trid, &got.info, got.data, 4, &got.bytes, &got.unavailable),
	      EINVAL);
#endif
}

TEST("flush", flush_frees,
	"flush writes what is in the stream to the log, and the room is free again")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	int fd = file_named("log"), count;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_attr_setstreamsize(&attr, 8192), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 5000; i++) {
		emit_number(event, i);
		if (i % 100 == 99)
			EQUAL(posix_trace_flush(trid), 0);
	}
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	EQUAL(status_of(trid).posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 5000);
}

#if KYMO_POSIX_EVENT_FLUSH
TEST("2.11.2 flush events", flush_events, "FLUSH_START and FLUSH_STOP mark a flush in the log")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, 0, 0);
	int fd = file_named("log"), starts = 0, stops = 0;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_flush(trid), 0);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	while (read_log(trid, &got)) {
		starts += got.info.posix_event_id == POSIX_TRACE_FLUSH_START;
		stops += got.info.posix_event_id == POSIX_TRACE_FLUSH_STOP;
	}
	EXPECT(starts >= 1 && stops >= 1);
}
#endif

TEST("2.11.1 flush", flush_by_itself,
	"FLUSH: the stream is flushed before it is lost, without being asked")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_FLUSH, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	int fd = file_named("log"), before, now = 0, count, emitted = 0;
	struct stat info;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_attr_setstreamsize(&attr, 16384), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(fstat(fd, &info), 0);
	before = (int)info.st_size;
	/* Half a stream, then until it has been written. */
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 250; i++)
			emit_number(event, emitted++);
		for (int i = 0; i < 20000 && now <= before; i++) {
			usleep(500);
			EQUAL(fstat(fd, &info), 0);
			now = (int)info.st_size;
		}
		EXPECT(now > before);
		usleep(20000);
		EQUAL(fstat(fd, &info), 0);
		before = (int)info.st_size;
	}
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, emitted);
}

TEST("2.11.1 log loop", log_loop,
	"a LOOP log keeps the end of what was flushed, and no more than its size; it is FULL,"
	" and OVERRUN")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_LOOP, 40000);
	struct posix_trace_status_info status;
	trace_event_id_t event = event_named("e");
	int fd = file_named("log"), next = -1, count = 0;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 20000; i++) {
		emit_number(event, i);
		if (i % 500 == 499)
			EQUAL(posix_trace_flush(trid), 0);
	}
	status = status_of(trid);
	EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
	EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	while (read_user(trid, &got)) {
		if (next >= 0)
			EQUAL(number_of(&got), next);
		next = number_of(&got) + 1;
		count++;
	}
	EQUAL(next, 20000);
	EXPECT(count * 36 <= 40000 && count * 36 > 20000);
}

TEST("2.11.1 log until full", log_until_full,
	"an UNTIL_FULL log keeps the begin; its last event is an automatic STOP")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_UNTIL_FULL, 40000);
	struct posix_trace_status_info status;
	trace_event_id_t event = event_named("e"), last = 0;
	int fd = file_named("log"), count = 0, automatic = 0;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 20000; i++) {
		emit_number(event, i);
		if (i % 500 == 499)
			EQUAL(posix_trace_flush(trid), 0);
	}
	status = status_of(trid);
	EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
	EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	while (read_log(trid, &got)) {
		last = got.info.posix_event_id;
		automatic = number_of(&got);
		if (last == event) {
			EQUAL(number_of(&got), count);
			count++;
		}
	}
#if KYMO_POSIX_EVENT_START_STOP
	EQUAL(last, POSIX_TRACE_STOP);
	EXPECT(automatic != 0);
#endif
	EXPECT(count * 36 <= 40000 && count * 36 > 20000);
	(void)automatic;
}

TEST("clear", clear_log, "clear begins the log anew, too")
{
	trace_event_id_t event = event_named("e");
	int fd = file_named("log");
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_create_withlog(0, NULL, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 1);
	EQUAL(posix_trace_flush(trid), 0);
	EQUAL(posix_trace_clear(trid), 0);
	emit_number(event, 2);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	EXPECT(read_user(trid, &got));
	EQUAL(number_of(&got), 2);
	EXPECT(!read_user(trid, &got));
}

/* What comes out of a pipe or socket, once it is in a file, is a log. */
static void through(int writes, int reads)
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	int fd = file_named("log"), count;
	trace_id_t trid;
	struct got got;
	pid_t child = fork();

	if (!child) {
		char buffer[4096];
		ssize_t bytes;

		close(writes);
		while ((bytes = read(reads, buffer, sizeof(buffer))) > 0)
			EQUAL(write(fd, buffer, (size_t)bytes), bytes);
		exit(0);
	}
	close(reads);
	EQUAL(posix_trace_create_withlog(0, &attr, writes, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 3000; i++) {
		emit_number(event, i);
		if (i % 700 == 0)
			EQUAL(posix_trace_flush(trid), 0);
	}
	EQUAL(posix_trace_shutdown(trid), 0);
	close(writes);
	join(child);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 3000);
}

TEST("create_withlog", log_through_pipe, "a log with APPEND may be a pipe")
{
	int ends[2];

	EQUAL(pipe(ends), 0);
	through(ends[1], ends[0]);
}

TEST("create_withlog", log_through_socket, "a log with APPEND may be a socket")
{
	int ends[2];

	EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	through(ends[1], ends[0]);
}
#endif
