/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * config.h: which units of POSIX Trace there are, and how large [posix.md 9]. This is the complete
 * build; a reduced one is made by `make -C emit posix CONFIG=...`, which puts a header of the same
 * name, written from the configuration, in front of this one.
 */
#ifndef KYMO_POSIX_CONFIG_H
#define KYMO_POSIX_CONFIG_H

/* Units. Trace core is there when on-line trace or trace to log is. */
#define KYMO_POSIX_ONLINE 1	/* streams that are read while they are recorded */
#define KYMO_POSIX_LOG 1	/* streams that are written to a log */
#define KYMO_POSIX_USER_EVENTS 1
#define KYMO_POSIX_FILTER 1
#define KYMO_POSIX_INHERIT 1
#define KYMO_POSIX_RETRIEVAL 1	/* logs are read */

/* System events. */
#define KYMO_POSIX_EVENT_START_STOP 1
#define KYMO_POSIX_EVENT_FILTER 1
#define KYMO_POSIX_EVENT_OVERFLOW 1	/* and resume */
#define KYMO_POSIX_EVENT_FLUSH 1	/* start and stop */

/* System events of the kernel: for streams whose attributes ask for them. */
#define KYMO_POSIX_EVENT_CONTEXT_SWITCH 1
#define KYMO_POSIX_EVENT_SYSTEM_CALL 1	/* entry and exit */
#define KYMO_POSIX_EVENT_LOCK 1		/* begin and end of waiting for a lock of the kernel */

/* Limits. */
#define KYMO_POSIX_STREAMS 16		 /* at one time; of a user */
#define KYMO_POSIX_USER_EVENT_COUNT 128	 /* of a process, the unnamed one among them */
#define KYMO_POSIX_EVENT_NAME_BYTES 63	 /* without the NUL */
#define KYMO_POSIX_TRACE_NAME_BYTES 31
#define KYMO_POSIX_STREAM_BYTES 61440	 /* of a stream whose attributes do not say */
#define KYMO_POSIX_STREAM_BYTES_MAX 536870912
#define KYMO_POSIX_DATA_BYTES 1024	 /* of an event, where the attributes do not say */
#define KYMO_POSIX_DATA_BYTES_MAX 16384
#define KYMO_POSIX_LOG_BYTES 1048576	 /* of a log whose attributes do not say */

/* 0: no libc, no files, no processes: emit/platform/freestanding. */
#define KYMO_POSIX_HOSTED 1

#endif
