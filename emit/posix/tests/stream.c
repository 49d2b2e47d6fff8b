/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* stream.c: making, starting, stopping, clearing and shutting down streams without a log. */
#define _GNU_SOURCE
#include "test.h"

#include <signal.h>

#if KYMO_POSIX_ONLINE

TEST("create", create_state, "a new stream is suspended, not full, and without overrun")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct posix_trace_status_info status = status_of(trid);

	EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
	EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
	EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
#if KYMO_POSIX_LOG
	EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
	EQUAL(status.posix_stream_flush_error, 0);
	EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
	EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
#endif
}

TEST("create", create_without_attr, "a null pointer for the attributes means the defaults")
{
	trace_id_t trid;

	EQUAL(posix_trace_create(0, NULL, &trid), 0);
	EQUAL(posix_trace_shutdown(trid), 0);
}

TEST("create", create_no_process, "ESRCH: there is no such process")
{
	trace_id_t trid;

	EQUAL(posix_trace_create(0x3ffffff0, NULL, &trid), ESRCH);
}

TEST("create", create_no_permission, "EPERM: the process belongs to somebody else")
{
	trace_id_t trid;
	pid_t child;

	if (geteuid()) {
		EQUAL(posix_trace_create(1, NULL, &trid), EPERM);
		return;
	}
	child = fork();
	if (!child) {
		EQUAL(setresuid(65534, 65534, 65534), 0);
		EQUAL(raise(SIGSTOP), 0);
		_exit(0);
	}
	EQUAL(waitpid(child, NULL, WUNTRACED), child);
	EQUAL(posix_trace_create(child, NULL, &trid), EPERM);
	kill(child, SIGKILL);
	EQUAL(waitpid(child, NULL, 0), child);
}

TEST("create", create_bad_attr, "EINVAL: the attributes object is not one")
{
	trace_attr_t attr;
	trace_id_t trid;

	memset(&attr, 0, sizeof(attr));
	EQUAL(posix_trace_create(0, &attr, &trid), EINVAL);
}

#if KYMO_POSIX_LOG
TEST("create", create_flush_without_log, "EINVAL: the policy FLUSH needs a log")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_FLUSH, 0, 0);
	trace_id_t trid;

	EQUAL(posix_trace_create(0, &attr, &trid), EINVAL);
}
#endif

TEST("create", create_too_many, "EAGAIN: there are TRACE_SYS_MAX streams")
{
	trace_id_t trids[TRACE_SYS_MAX], other;

	for (int i = 0; i < TRACE_SYS_MAX; i++)
		trids[i] = stream_with(0, 4096, 0);
	EQUAL(posix_trace_create(0, NULL, &other), EAGAIN);
	EQUAL(posix_trace_shutdown(trids[TRACE_SYS_MAX / 2]), 0);
	EQUAL(posix_trace_create(0, NULL, &other), 0);
}

#if KYMO_POSIX_EVENT_START_STOP
TEST("start", start_records,
	"starting a suspended stream records START with the filter, and it runs")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_START);
#if KYMO_POSIX_FILTER
	EQUAL(got.bytes, sizeof(trace_event_set_t));
#else
	EQUAL(got.bytes, 0);
#endif
	EXPECT(!take(trid, &got));
}

TEST("start", start_twice, "starting a running stream records nothing and succeeds")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	EXPECT(take(trid, &got));
	EXPECT(!take(trid, &got));
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
}

TEST("stop", stop_records,
	"stopping a running stream records STOP with auto 0; of a suspended one, nothing")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_stop(trid), 0);
	EXPECT(!take(trid, &got));
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_stop(trid), 0);
	EQUAL(posix_trace_stop(trid), 0);
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_SUSPENDED);
	EXPECT(take(trid, &got));
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_STOP);
	EQUAL(got.bytes, sizeof(int));
	EQUAL(number_of(&got), 0);
	EXPECT(!take(trid, &got));
}
#endif

#if KYMO_POSIX_USER_EVENTS
TEST("stop", stop_is_at_once,
	"no event of the calling thread is recorded behind stop, before start, or between")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	emit_number(event, 1);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 2);
	EQUAL(posix_trace_stop(trid), 0);
	emit_number(event, 3);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 4);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 2);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 4);
	EXPECT(!take_user(trid, &got));
}

TEST("clear", clear_empties, "clear takes away what was recorded; names and state stay")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);
	char name[TRACE_EVENT_NAME_MAX + 1];
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 100; i++)
		emit_number(event, i);
	EQUAL(posix_trace_clear(trid), 0);
	EXPECT(!take(trid, &got));
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
	EQUAL(posix_trace_eventid_get_name(trid, event, name), 0);
	EXPECT(!strcmp(name, "e"));
	emit_number(event, 500);
	EXPECT(take(trid, &got));
	EQUAL(number_of(&got), 500);
	EXPECT(!take(trid, &got));
}

TEST("clear", clear_full, "clear leaves a full stream not full, and without overrun")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_UNTIL_FULL, 4096, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 10000; i++)
		emit_number(event, i);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_FULL);
	emit_number(event, 0);
	EQUAL(posix_trace_clear(trid), 0);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_NOT_FULL);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	emit_number(event, 7);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 7);
}

TEST("shutdown", shutdown_with_events,
	"shutdown frees a stream although events are unread, and its id is gone")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);

	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 1);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_shutdown(trid), EINVAL);
	emit_number(event, 2);
}
#endif

TEST("shutdown", stale_id, "EINVAL: every function refuses the id of a stream that is gone")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct posix_trace_status_info status;
	char name[TRACE_EVENT_NAME_MAX + 1];
	struct timespec until = { 0, 0 };
	trace_event_id_t event;
	trace_attr_t attr;
	struct got got;
	int flag;

	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_start(trid), EINVAL);
	EQUAL(posix_trace_stop(trid), EINVAL);
	EQUAL(posix_trace_clear(trid), EINVAL);
	EQUAL(posix_trace_get_attr(trid, &attr), EINVAL);
	EQUAL(posix_trace_get_status(trid, &status), EINVAL);
	EQUAL(posix_trace_eventid_get_name(trid, POSIX_TRACE_START, name), EINVAL);
	EQUAL(posix_trace_eventtypelist_getnext_id(trid, &event, &flag), EINVAL);
	EQUAL(posix_trace_eventtypelist_rewind(trid), EINVAL);
	EQUAL(posix_trace_getnext_event(trid, &got.info, got.data, 4, &got.bytes, &flag), EINVAL);
	EQUAL(posix_trace_trygetnext_event(trid, &got.info, got.data, 4, &got.bytes, &flag), EINVAL);
	EQUAL(posix_trace_timedgetnext_event(trid, &got.info, got.data, 4, &got.bytes, &flag, &until),
	      EINVAL);
#if KYMO_POSIX_LOG
	EQUAL(posix_trace_flush(trid), EINVAL);
#endif
#if KYMO_POSIX_FILTER
	{
		trace_event_set_t set;

		EQUAL(posix_trace_get_filter(trid, &set), EINVAL);
		EQUAL(posix_trace_eventset_empty(&set), 0);
		EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), EINVAL);
		EQUAL(posix_trace_trid_eventid_open(trid, "x", &event), EINVAL);
	}
#endif
#if KYMO_POSIX_RETRIEVAL
	EQUAL(posix_trace_close(trid), EINVAL);
	EQUAL(posix_trace_rewind(trid), EINVAL);
#endif
}

TEST("shutdown", ids_are_new, "the id of a stream that is gone is not given to the next")
{
	trace_id_t first = stream_with(0, 0, 0), second;

	EQUAL(posix_trace_shutdown(first), 0);
	second = stream_with(0, 0, 0);
	EXPECT(first != second);
	EQUAL(posix_trace_start(first), EINVAL);
}

#if KYMO_POSIX_RETRIEVAL
TEST("close", close_active, "EINVAL: close and rewind are for logs")
{
	trace_id_t trid = stream_with(0, 0, 0);

	EQUAL(posix_trace_close(trid), EINVAL);
	EQUAL(posix_trace_rewind(trid), EINVAL);
}
#endif
#if KYMO_POSIX_LOG
TEST("flush", flush_without_log, "EINVAL: there is no log to flush to")
{
	EQUAL(posix_trace_flush(stream_with(0, 0, 0)), EINVAL);
}
#endif
#endif
