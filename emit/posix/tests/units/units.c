/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * units.c: what a subset of the units can do: a stream that is read, one with a log, a log of the
 * complete build. Argument: that log; it is written where log and retrieval are there.
 */
#include <trace.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "units.c:%d: not so: %s\n", __LINE__, #cond);              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#if KYMO_POSIX_ONLINE || KYMO_POSIX_LOG
/* Records count events, where there are such. */
static void record(trace_id_t trid, int count)
{
	CHECK(!posix_trace_start(trid));
#if KYMO_POSIX_USER_EVENTS
	trace_event_id_t event;

	CHECK(!posix_trace_eventid_open("of a subset", &event));
	for (int i = 0; i < count; i++)
		posix_trace_event(event, &i, sizeof(i));
#endif
	(void)count;
	CHECK(!posix_trace_stop(trid));
}
#endif

#if KYMO_POSIX_ONLINE || KYMO_POSIX_RETRIEVAL
/* Events of users that are left. */
static int read_all(trace_id_t trid)
{
	struct posix_trace_event_info info;
	int count = 0, unavailable = 0;
	char data[2048];
	size_t bytes;

	for (;;) {
#if KYMO_POSIX_ONLINE
		if (posix_trace_trygetnext_event(trid, &info, data, sizeof(data), &bytes, &unavailable))
#endif
#if KYMO_POSIX_RETRIEVAL
			CHECK(!posix_trace_getnext_event(trid, &info, data, sizeof(data), &bytes,
							 &unavailable));
#else
			CHECK(0);
#endif
		if (unavailable)
			return count;
		count += info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT;
	}
}
#endif

int main(int argc, char **argv)
{
	trace_id_t trid = 0;
	int file = -1;

	CHECK(argc == 2 && argv[1]);
#if KYMO_POSIX_ONLINE
	CHECK(!posix_trace_create(0, NULL, &trid));
	record(trid, 10);
	CHECK(read_all(trid) == (KYMO_POSIX_USER_EVENTS ? 10 : 0));
#if KYMO_POSIX_FILTER
	trace_event_set_t set;

	CHECK(!posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS));
	CHECK(!posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
	record(trid, 10);
	CHECK(read_all(trid) == 0);
#endif
	CHECK(!posix_trace_shutdown(trid));
#endif
#if KYMO_POSIX_LOG
	bool is_whole = KYMO_POSIX_RETRIEVAL && KYMO_POSIX_USER_EVENTS && KYMO_POSIX_ONLINE &&
			KYMO_POSIX_FILTER && KYMO_POSIX_INHERIT;

	file = open(is_whole ? argv[1] : "log", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(!posix_trace_create_withlog(0, NULL, file, &trid));
	record(trid, 10);
	CHECK(!posix_trace_shutdown(trid));
#endif
#if KYMO_POSIX_RETRIEVAL
	for (int own = 0; own < 2; own++) {
		if (!own)
			file = open(argv[1], O_RDONLY);
		else if (KYMO_POSIX_LOG)
			file = open("log", O_RDONLY);
		if (own && (!KYMO_POSIX_LOG || file < 0))
			break; /* the complete build writes the one for all */
		CHECK(!posix_trace_open(file, &trid));
		CHECK(read_all(trid) == (!own || KYMO_POSIX_USER_EVENTS ? 10 : 0));
		CHECK(!posix_trace_close(trid));
	}
#endif
	(void)file;
	(void)trid;
	return 0;
}
