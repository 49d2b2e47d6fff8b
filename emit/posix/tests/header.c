/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* header.c: <trace.h>: every prototype, member and constant, checked by the compiler. */
#define _GNU_SOURCE
#include "test.h"

#include <sys/types.h>
#include <time.h>

/* A function has exactly this type. */
#define IS(function, ...) (void)_Generic(&function, __VA_ARGS__: 1)
#define A trace_attr_t *
#define CA const trace_attr_t *
#define T trace_id_t
#define V trace_event_id_t
#define I struct posix_trace_event_info *

TEST("<trace.h>", prototypes,
	"every function of the units that there are has the standard's prototype")
{
	IS(posix_trace_attr_init, int (*)(A));
	IS(posix_trace_attr_destroy, int (*)(A));
	IS(posix_trace_attr_getclockres, int (*)(CA, struct timespec *));
	IS(posix_trace_attr_getcreatetime, int (*)(CA, struct timespec *));
	IS(posix_trace_attr_getgenversion, int (*)(CA, char *));
	IS(posix_trace_attr_getname, int (*)(CA, char *));
	IS(posix_trace_attr_setname, int (*)(A, const char *));
	IS(posix_trace_attr_getstreamfullpolicy, int (*)(CA, int *));
	IS(posix_trace_attr_setstreamfullpolicy, int (*)(A, int));
	IS(posix_trace_attr_getstreamsize, int (*)(CA, size_t *));
	IS(posix_trace_attr_setstreamsize, int (*)(A, size_t));
	IS(posix_trace_attr_getmaxdatasize, int (*)(CA, size_t *));
	IS(posix_trace_attr_setmaxdatasize, int (*)(A, size_t));
	IS(posix_trace_attr_getmaxsystemeventsize, int (*)(CA, size_t *));
	IS(posix_trace_attr_getmaxusereventsize, int (*)(CA, size_t, size_t *));
	IS(posix_trace_get_attr, int (*)(T, A));
	IS(posix_trace_get_status, int (*)(T, struct posix_trace_status_info *));
	IS(posix_trace_eventid_equal, int (*)(T, V, V));
	IS(posix_trace_eventid_get_name, int (*)(T, V, char *));
	IS(posix_trace_eventtypelist_getnext_id, int (*)(T, V *, int *));
	IS(posix_trace_eventtypelist_rewind, int (*)(T));
#if KYMO_POSIX_ONLINE || KYMO_POSIX_LOG
	IS(posix_trace_start, int (*)(T));
	IS(posix_trace_stop, int (*)(T));
	IS(posix_trace_clear, int (*)(T));
	IS(posix_trace_shutdown, int (*)(T));
#endif
#if KYMO_POSIX_ONLINE
	IS(posix_trace_create, int (*)(pid_t, CA, T *));
	IS(posix_trace_getnext_event, int (*)(T, I, void *, size_t, size_t *, int *));
	IS(posix_trace_trygetnext_event, int (*)(T, I, void *, size_t, size_t *, int *));
	IS(posix_trace_timedgetnext_event,
	   int (*)(T, I, void *, size_t, size_t *, int *, const struct timespec *));
#endif
#if KYMO_POSIX_LOG
	IS(posix_trace_attr_getlogfullpolicy, int (*)(CA, int *));
	IS(posix_trace_attr_setlogfullpolicy, int (*)(A, int));
	IS(posix_trace_attr_getlogsize, int (*)(CA, size_t *));
	IS(posix_trace_attr_setlogsize, int (*)(A, size_t));
	IS(posix_trace_create_withlog, int (*)(pid_t, CA, int, T *));
	IS(posix_trace_flush, int (*)(T));
#endif
#if KYMO_POSIX_USER_EVENTS
	IS(posix_trace_event, void (*)(V, const void *, size_t));
	IS(posix_trace_eventid_open, int (*)(const char *, V *));
#endif
#if KYMO_POSIX_FILTER
	IS(posix_trace_eventset_add, int (*)(V, trace_event_set_t *));
	IS(posix_trace_eventset_del, int (*)(V, trace_event_set_t *));
	IS(posix_trace_eventset_empty, int (*)(trace_event_set_t *));
	IS(posix_trace_eventset_fill, int (*)(trace_event_set_t *, int));
	IS(posix_trace_eventset_ismember, int (*)(V, const trace_event_set_t *, int *));
	IS(posix_trace_get_filter, int (*)(T, trace_event_set_t *));
	IS(posix_trace_set_filter, int (*)(T, const trace_event_set_t *, int));
	IS(posix_trace_trid_eventid_open, int (*)(T, const char *, V *));
#endif
#if KYMO_POSIX_INHERIT
	IS(posix_trace_attr_getinherited, int (*)(CA, int *));
	IS(posix_trace_attr_setinherited, int (*)(A, int));
#endif
#if KYMO_POSIX_RETRIEVAL
	IS(posix_trace_open, int (*)(int, T *));
	IS(posix_trace_rewind, int (*)(T));
	IS(posix_trace_close, int (*)(T));
#endif
}

#define MEMBER(structure, member, type) \
	(void)_Generic(&((struct structure *)0)->member, type *: 1)

TEST("<trace.h>", members, "the two structures have the standard's members")
{
	MEMBER(posix_trace_event_info, posix_event_id, trace_event_id_t);
	MEMBER(posix_trace_event_info, posix_pid, pid_t);
	MEMBER(posix_trace_event_info, posix_prog_address, void *);
	MEMBER(posix_trace_event_info, posix_thread_id, pthread_t);
	MEMBER(posix_trace_event_info, posix_timestamp, struct timespec);
	MEMBER(posix_trace_event_info, posix_truncation_status, int);
	MEMBER(posix_trace_status_info, posix_stream_status, int);
	MEMBER(posix_trace_status_info, posix_stream_full_status, int);
	MEMBER(posix_trace_status_info, posix_stream_overrun_status, int);
#if KYMO_POSIX_LOG
	MEMBER(posix_trace_status_info, posix_stream_flush_status, int);
	MEMBER(posix_trace_status_info, posix_stream_flush_error, int);
	MEMBER(posix_trace_status_info, posix_log_overrun_status, int);
	MEMBER(posix_trace_status_info, posix_log_full_status, int);
#endif
}

TEST("<trace.h>", options,
	"an option's macro is 200809L only where everything is that the option asks for; else -1")
{
	/* Trace asks for the functions that read, for user events, system events, and minimums. */
	bool has_trace = KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS && KYMO_POSIX_EVENT_START_STOP &&
			 KYMO_POSIX_EVENT_OVERFLOW && TRACE_SYS_MAX >= _POSIX_TRACE_SYS_MAX &&
			 TRACE_USER_EVENT_MAX >= _POSIX_TRACE_USER_EVENT_MAX;

	EQUAL(_POSIX_TRACE, has_trace ? 200809L : -1);
	EQUAL(_POSIX_TRACE_EVENT_FILTER,
	      has_trace && KYMO_POSIX_FILTER && KYMO_POSIX_EVENT_FILTER ? 200809L : -1);
	EQUAL(_POSIX_TRACE_LOG, has_trace && KYMO_POSIX_LOG && KYMO_POSIX_RETRIEVAL &&
					KYMO_POSIX_EVENT_FLUSH ? 200809L : -1);
	EQUAL(_POSIX_TRACE_INHERIT, has_trace && KYMO_POSIX_INHERIT ? 200809L : -1);
}

TEST("<trace.h>", constants,
	"constants are there and differ; limits are at least the standard's minimums, where "
	"all units are")
{
	EXPECT(POSIX_TRACE_LOOP != POSIX_TRACE_UNTIL_FULL);
	EXPECT(POSIX_TRACE_RUNNING != POSIX_TRACE_SUSPENDED);
	EXPECT(POSIX_TRACE_FULL != POSIX_TRACE_NOT_FULL);
	EXPECT(POSIX_TRACE_OVERRUN != POSIX_TRACE_NO_OVERRUN && POSIX_TRACE_NO_OVERRUN == 0);
	EXPECT(POSIX_TRACE_NOT_TRUNCATED != POSIX_TRACE_TRUNCATED_READ &&
	       POSIX_TRACE_NOT_TRUNCATED != POSIX_TRACE_TRUNCATED_RECORD &&
	       POSIX_TRACE_TRUNCATED_RECORD != POSIX_TRACE_TRUNCATED_READ);
	EXPECT(POSIX_TRACE_UNNAMED_USEREVENT == POSIX_TRACE_UNNAMED_USER_EVENT);
	EXPECT(TRACE_NAME_MAX >= _POSIX_TRACE_NAME_MAX);
	EXPECT(TRACE_EVENT_NAME_MAX >= _POSIX_TRACE_EVENT_NAME_MAX);
	EXPECT(TRACE_USER_EVENT_MAX >= _POSIX_TRACE_USER_EVENT_MAX);
	if (KYMO_POSIX_LOG && KYMO_POSIX_FILTER && KYMO_POSIX_INHERIT)
		EXPECT(TRACE_SYS_MAX >= _POSIX_TRACE_SYS_MAX);
}
