/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace.h: POSIX Trace as in IEEE 1003.1-2017 (the options Trace, Trace Event Filter, Trace Log and
 * Trace Inherit), over kymo's rings. spec/posix.md says how, and where the standard leaves a choice.
 * Functions of units that this build does not have are not declared.
 */
#ifndef _TRACE_H
#define _TRACE_H

#include <kymo/posix/config.h>
#include <kymo/posix/types.h>

#ifdef __cplusplus
extern "C" {
#define KYMO__RESTRICT
#else
#define KYMO__RESTRICT restrict
#endif

/* The options, in place of what the C library's <unistd.h> says of itself. */
#undef _POSIX_TRACE
#undef _POSIX_TRACE_EVENT_FILTER
#undef _POSIX_TRACE_LOG
#undef _POSIX_TRACE_INHERIT
/* An option is there when all that it asks for is: units, system events, and the minimums below. */
#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS && KYMO_POSIX_EVENT_START_STOP && KYMO_POSIX_EVENT_OVERFLOW && \
	KYMO_POSIX_STREAMS >= 8 && KYMO_POSIX_USER_EVENT_COUNT >= 32 && KYMO_POSIX_EVENT_NAME_BYTES >= 30 && \
	KYMO_POSIX_TRACE_NAME_BYTES >= 8
#define _POSIX_TRACE 200809L
#else
#define _POSIX_TRACE (-1)
#endif
#if _POSIX_TRACE > 0 && KYMO_POSIX_FILTER && KYMO_POSIX_EVENT_FILTER
#define _POSIX_TRACE_EVENT_FILTER 200809L
#else
#define _POSIX_TRACE_EVENT_FILTER (-1)
#endif
#if _POSIX_TRACE > 0 && KYMO_POSIX_LOG && KYMO_POSIX_RETRIEVAL && KYMO_POSIX_EVENT_FLUSH
#define _POSIX_TRACE_LOG 200809L
#else
#define _POSIX_TRACE_LOG (-1)
#endif
#if _POSIX_TRACE > 0 && KYMO_POSIX_INHERIT
#define _POSIX_TRACE_INHERIT 200809L
#else
#define _POSIX_TRACE_INHERIT (-1)
#endif

#ifndef _POSIX_TRACE_EVENT_NAME_MAX
#define _POSIX_TRACE_EVENT_NAME_MAX 30
#define _POSIX_TRACE_NAME_MAX 8
#define _POSIX_TRACE_SYS_MAX 8
#define _POSIX_TRACE_USER_EVENT_MAX 32
#endif
#define TRACE_EVENT_NAME_MAX KYMO_POSIX_EVENT_NAME_BYTES
#define TRACE_NAME_MAX KYMO_POSIX_TRACE_NAME_BYTES
#define TRACE_SYS_MAX KYMO_POSIX_STREAMS
#define TRACE_USER_EVENT_MAX KYMO_POSIX_USER_EVENT_COUNT

/* Names a stream. Of the process that made it; 0 is never one. */
typedef uint32_t trace_id_t;
/* Names an event type. Compare with posix_trace_eventid_equal(). */
typedef uint32_t trace_event_id_t;

#define KYMO__POSIX_EVENTS (16 + KYMO_POSIX_USER_EVENT_COUNT)

#if KYMO_POSIX_FILTER
/* A set of event types. May be assigned and passed by value. */
typedef struct {
	uint32_t kymo__words[(KYMO__POSIX_EVENTS + 31) / 32];
} trace_event_set_t;
#endif

/* Attributes of a stream. Only the functions look inside. */
typedef struct {
	uint32_t kymo__magic;
	int32_t kymo__stream_policy, kymo__log_policy;
	int16_t kymo__inherited, kymo__kernel;
	kymo__bytes_t kymo__stream_bytes, kymo__data_bytes, kymo__log_bytes;
	struct timespec kymo__created, kymo__resolution;
	char kymo__name[KYMO_POSIX_TRACE_NAME_BYTES + 1];
	char kymo__version[KYMO_POSIX_TRACE_NAME_BYTES + 1];
} trace_attr_t;

struct posix_trace_event_info {
	trace_event_id_t posix_event_id;
	pid_t posix_pid;
	void *posix_prog_address;
	pthread_t posix_thread_id;
	struct timespec posix_timestamp;
	int posix_truncation_status;
};

struct posix_trace_status_info {
	int posix_stream_status;
	int posix_stream_full_status;
	int posix_stream_overrun_status;
#if KYMO_POSIX_LOG || KYMO_POSIX_RETRIEVAL
	int posix_stream_flush_status;
	int posix_stream_flush_error;
	int posix_log_overrun_status;
	int posix_log_full_status;
#endif
};

/* Full policies. FLUSH is for streams, APPEND for logs. */
#define POSIX_TRACE_LOOP 1
#define POSIX_TRACE_UNTIL_FULL 2
#if KYMO_POSIX_LOG || KYMO_POSIX_RETRIEVAL
#define POSIX_TRACE_FLUSH 3
#define POSIX_TRACE_APPEND 4
#endif

/* Of struct posix_trace_status_info. */
#define POSIX_TRACE_RUNNING 1
#define POSIX_TRACE_SUSPENDED 2
#define POSIX_TRACE_FULL 1
#define POSIX_TRACE_NOT_FULL 0
#define POSIX_TRACE_OVERRUN 1
#define POSIX_TRACE_NO_OVERRUN 0
#if KYMO_POSIX_LOG || KYMO_POSIX_RETRIEVAL
#define POSIX_TRACE_FLUSHING 1
#define POSIX_TRACE_NOT_FLUSHING 0
#endif

/* Of struct posix_trace_event_info. */
#define POSIX_TRACE_NOT_TRUNCATED 0
#define POSIX_TRACE_TRUNCATED_RECORD 1
#define POSIX_TRACE_TRUNCATED_READ 2

#if KYMO_POSIX_INHERIT
#define POSIX_TRACE_CLOSE_FOR_CHILD 1
#define POSIX_TRACE_INHERITED 2
#endif

/* Predefined event types. Both names of the unnamed one are in the standard. */
#define POSIX_TRACE_ERROR ((trace_event_id_t)1)
#define POSIX_TRACE_START ((trace_event_id_t)2)
#define POSIX_TRACE_STOP ((trace_event_id_t)3)
#define POSIX_TRACE_OVERFLOW ((trace_event_id_t)4)
#define POSIX_TRACE_RESUME ((trace_event_id_t)5)
#if KYMO_POSIX_FILTER
#define POSIX_TRACE_FILTER ((trace_event_id_t)6)
#endif
#if KYMO_POSIX_LOG || KYMO_POSIX_RETRIEVAL
#define POSIX_TRACE_FLUSH_START ((trace_event_id_t)7)
#define POSIX_TRACE_FLUSH_STOP ((trace_event_id_t)8)
#endif
#if KYMO_POSIX_EVENT_CONTEXT_SWITCH
#define POSIX_TRACE_CONTEXT_SWITCH ((trace_event_id_t)9)
#endif
#if KYMO_POSIX_EVENT_SYSTEM_CALL
#define POSIX_TRACE_SYSTEM_CALL_ENTRY ((trace_event_id_t)10)
#define POSIX_TRACE_SYSTEM_CALL_EXIT ((trace_event_id_t)11)
#endif
#if KYMO_POSIX_EVENT_LOCK
#define POSIX_TRACE_LOCK_WAIT_BEGIN ((trace_event_id_t)12)
#define POSIX_TRACE_LOCK_WAIT_END ((trace_event_id_t)13)
#endif
#define POSIX_TRACE_UNNAMED_USEREVENT ((trace_event_id_t)16)
#define POSIX_TRACE_UNNAMED_USER_EVENT POSIX_TRACE_UNNAMED_USEREVENT

#if KYMO_POSIX_EVENT_CONTEXT_SWITCH || KYMO_POSIX_EVENT_SYSTEM_CALL || KYMO_POSIX_EVENT_LOCK
/*
 * Events of the kernel, an extension: which of them a stream has. Threads are numbered as by
 * gettid(), in posix_thread_id of these events, too; 0 is a CPU's idle thread.
 */
#if KYMO_POSIX_EVENT_CONTEXT_SWITCH
#define POSIX_TRACE_KERNEL_SWITCH 1
#endif
#if KYMO_POSIX_EVENT_SYSTEM_CALL
#define POSIX_TRACE_KERNEL_CALL 2
#endif
#if KYMO_POSIX_EVENT_LOCK
#define POSIX_TRACE_KERNEL_LOCK 4
#endif
int posix_trace_attr_getkernelevents(const trace_attr_t *KYMO__RESTRICT attr,
				     int *KYMO__RESTRICT events);
int posix_trace_attr_setkernelevents(trace_attr_t *attr, int events);

/* Data of POSIX_TRACE_CONTEXT_SWITCH. Priorities are the kernel's: 0 to 98 real-time, 120 is nice 0. */
struct posix_trace_context_switch {
	int32_t posix_cpu;
	int32_t posix_from, posix_to; /* threads */
	int32_t posix_from_priority, posix_to_priority;
	char posix_from_state[4]; /* as ps tells it, "R": it could go on, "R+": it was preempted */
};

/* Data of POSIX_TRACE_SYSTEM_CALL_ENTRY and _EXIT. Numbers are those of <sys/syscall.h>. */
struct posix_trace_system_call_entry {
	int32_t posix_cpu;
	int32_t posix_number;
	uint64_t posix_arguments[6];
};
struct posix_trace_system_call_exit {
	int32_t posix_cpu;
	int32_t posix_number;
	int64_t posix_result; /* an error is its number, negative */
};

/* Data of POSIX_TRACE_LOCK_WAIT_BEGIN and _END. */
struct posix_trace_lock_wait {
	uint64_t posix_lock;  /* its address in the kernel */
	int32_t posix_cpu;
	uint32_t posix_flags; /* begin: the kernel's LCB_F_SPIN 1, _READ 2, _WRITE 4, _RT 8, _PERCPU 16, _MUTEX 32 */
	int32_t posix_result; /* end: 0, or what ended the waiting: an error's number, negative */
	uint32_t posix_unused;
};
#endif

/* Unit: trace core. */
int posix_trace_attr_init(trace_attr_t *attr);
int posix_trace_attr_destroy(trace_attr_t *attr);
int posix_trace_attr_getclockres(const trace_attr_t *attr, struct timespec *resolution);
int posix_trace_attr_getcreatetime(const trace_attr_t *attr, struct timespec *created);
int posix_trace_attr_getgenversion(const trace_attr_t *attr, char *version);
int posix_trace_attr_getname(const trace_attr_t *attr, char *name);
int posix_trace_attr_setname(trace_attr_t *attr, const char *name);
int posix_trace_attr_getstreamfullpolicy(const trace_attr_t *attr, int *policy);
int posix_trace_attr_setstreamfullpolicy(trace_attr_t *attr, int policy);
int posix_trace_attr_getstreamsize(const trace_attr_t *KYMO__RESTRICT attr,
				   size_t *KYMO__RESTRICT bytes);
int posix_trace_attr_setstreamsize(trace_attr_t *attr, size_t bytes);
int posix_trace_attr_getmaxdatasize(const trace_attr_t *KYMO__RESTRICT attr,
				    size_t *KYMO__RESTRICT bytes);
int posix_trace_attr_setmaxdatasize(trace_attr_t *attr, size_t bytes);
int posix_trace_attr_getmaxsystemeventsize(const trace_attr_t *KYMO__RESTRICT attr,
					   size_t *KYMO__RESTRICT bytes);
int posix_trace_attr_getmaxusereventsize(const trace_attr_t *KYMO__RESTRICT attr,
					 size_t data_bytes, size_t *KYMO__RESTRICT bytes);
int posix_trace_get_attr(trace_id_t trid, trace_attr_t *attr);
int posix_trace_get_status(trace_id_t trid, struct posix_trace_status_info *status);
int posix_trace_eventid_equal(trace_id_t trid, trace_event_id_t a, trace_event_id_t b);
int posix_trace_eventid_get_name(trace_id_t trid, trace_event_id_t event, char *name);
int posix_trace_eventtypelist_getnext_id(trace_id_t trid, trace_event_id_t *KYMO__RESTRICT event,
					 int *KYMO__RESTRICT unavailable);
int posix_trace_eventtypelist_rewind(trace_id_t trid);
#if KYMO_POSIX_ONLINE || KYMO_POSIX_LOG
int posix_trace_start(trace_id_t trid);
int posix_trace_stop(trace_id_t trid);
int posix_trace_clear(trace_id_t trid);
int posix_trace_shutdown(trace_id_t trid);
#endif

#if KYMO_POSIX_ONLINE
/* Unit: on-line trace. */
int posix_trace_create(pid_t pid, const trace_attr_t *KYMO__RESTRICT attr,
		       trace_id_t *KYMO__RESTRICT trid);
int posix_trace_timedgetnext_event(trace_id_t trid,
				   struct posix_trace_event_info *KYMO__RESTRICT event,
				   void *KYMO__RESTRICT data, size_t bytes,
				   size_t *KYMO__RESTRICT data_bytes,
				   int *KYMO__RESTRICT unavailable,
				   const struct timespec *KYMO__RESTRICT until);
int posix_trace_trygetnext_event(trace_id_t trid,
				 struct posix_trace_event_info *KYMO__RESTRICT event,
				 void *KYMO__RESTRICT data, size_t bytes,
				 size_t *KYMO__RESTRICT data_bytes,
				 int *KYMO__RESTRICT unavailable);
#endif
#if KYMO_POSIX_ONLINE || KYMO_POSIX_RETRIEVAL
int posix_trace_getnext_event(trace_id_t trid, struct posix_trace_event_info *KYMO__RESTRICT event,
			      void *KYMO__RESTRICT data, size_t bytes,
			      size_t *KYMO__RESTRICT data_bytes, int *KYMO__RESTRICT unavailable);
#endif

#if KYMO_POSIX_LOG
/* Unit: trace to log. */
int posix_trace_attr_getlogfullpolicy(const trace_attr_t *KYMO__RESTRICT attr,
				      int *KYMO__RESTRICT policy);
int posix_trace_attr_setlogfullpolicy(trace_attr_t *attr, int policy);
int posix_trace_attr_getlogsize(const trace_attr_t *KYMO__RESTRICT attr,
				size_t *KYMO__RESTRICT bytes);
int posix_trace_attr_setlogsize(trace_attr_t *attr, size_t bytes);
int posix_trace_create_withlog(pid_t pid, const trace_attr_t *KYMO__RESTRICT attr, int log,
			       trace_id_t *KYMO__RESTRICT trid);
int posix_trace_flush(trace_id_t trid);
#endif

#if KYMO_POSIX_USER_EVENTS
/* Unit: user events. */
void posix_trace_event(trace_event_id_t event, const void *KYMO__RESTRICT data, size_t bytes);
int posix_trace_eventid_open(const char *KYMO__RESTRICT name,
			     trace_event_id_t *KYMO__RESTRICT event);
#endif

#if KYMO_POSIX_FILTER
/* Unit: event filter. The filter is the set of event types that are not recorded. */
#define POSIX_TRACE_WOPID_EVENTS 1
#define POSIX_TRACE_SYSTEM_EVENTS 2
#define POSIX_TRACE_ALL_EVENTS 3
#define POSIX_TRACE_SET_EVENTSET 1
#define POSIX_TRACE_ADD_EVENTSET 2
#define POSIX_TRACE_SUB_EVENTSET 3
int posix_trace_eventset_add(trace_event_id_t event, trace_event_set_t *set);
int posix_trace_eventset_del(trace_event_id_t event, trace_event_set_t *set);
int posix_trace_eventset_empty(trace_event_set_t *set);
int posix_trace_eventset_fill(trace_event_set_t *set, int what);
int posix_trace_eventset_ismember(trace_event_id_t event,
				  const trace_event_set_t *KYMO__RESTRICT set,
				  int *KYMO__RESTRICT is_member);
int posix_trace_get_filter(trace_id_t trid, trace_event_set_t *set);
int posix_trace_set_filter(trace_id_t trid, const trace_event_set_t *set, int how);
int posix_trace_trid_eventid_open(trace_id_t trid, const char *KYMO__RESTRICT name,
				  trace_event_id_t *KYMO__RESTRICT event);
#endif

#if KYMO_POSIX_INHERIT
/* Unit: trace inheritance. */
int posix_trace_attr_getinherited(const trace_attr_t *KYMO__RESTRICT attr,
				  int *KYMO__RESTRICT inherited);
int posix_trace_attr_setinherited(trace_attr_t *attr, int inherited);
#endif

#if KYMO_POSIX_RETRIEVAL
/* Unit: log retrieval. */
int posix_trace_open(int log, trace_id_t *trid);
int posix_trace_rewind(trace_id_t trid);
int posix_trace_close(trace_id_t trid);
#endif

#ifdef __cplusplus
}
#endif
#endif
