/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attr.c: the attributes object. */
#define _GNU_SOURCE
#include "test.h"

TEST("attr_init", attr_defaults, "every attribute has its default after init")
{
	char text[TRACE_NAME_MAX + 1];
	trace_attr_t attr;
	size_t bytes;
	int value;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_getname(&attr, text), 0);
	EQUAL(text[0], 0);
	EQUAL(posix_trace_attr_getstreamfullpolicy(&attr, &value), 0);
	EQUAL(value, POSIX_TRACE_LOOP);
	EQUAL(posix_trace_attr_getstreamsize(&attr, &bytes), 0);
	EXPECT(bytes > 0);
	EQUAL(posix_trace_attr_getmaxdatasize(&attr, &bytes), 0);
	EXPECT(bytes > 0);
#if KYMO_POSIX_LOG
	EQUAL(posix_trace_attr_getlogfullpolicy(&attr, &value), 0);
	EQUAL(value, POSIX_TRACE_LOOP);
	EQUAL(posix_trace_attr_getlogsize(&attr, &bytes), 0);
#endif
#if KYMO_POSIX_INHERIT
	EQUAL(posix_trace_attr_getinherited(&attr, &value), 0);
	EQUAL(value, POSIX_TRACE_CLOSE_FOR_CHILD);
#endif
}

TEST("attr_destroy", attr_reuse,
	"a destroyed object can be initialized again, and is not usable before")
{
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_destroy(&attr), 0);
	EQUAL(posix_trace_attr_setname(&attr, "x"), EINVAL);
	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setname(&attr, "x"), 0);
}

TEST("attr_getclockres", attr_clockres, "clock resolution and generation version are there at once")
{
	char version[TRACE_NAME_MAX + 1];
	struct timespec resolution = { -1, -1 };
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_getclockres(&attr, &resolution), 0);
	EXPECT(resolution.tv_sec == 0 && resolution.tv_nsec > 0);
	EQUAL(posix_trace_attr_getgenversion(&attr, version), 0);
	EXPECT(strlen(version) > 0 && strlen(version) < TRACE_NAME_MAX);
}

TEST("attr_setname", attr_name,
	"a name comes back; one that is too long is cut to TRACE_NAME_MAX - 1")
{
	char text[TRACE_NAME_MAX + 1], longer[4 * TRACE_NAME_MAX];
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setname(&attr, "abc"), 0);
	EQUAL(posix_trace_attr_getname(&attr, text), 0);
	EXPECT(!strcmp(text, "abc"));
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	EQUAL(posix_trace_attr_setname(&attr, longer), 0);
	EQUAL(posix_trace_attr_getname(&attr, text), 0);
	EQUAL(strlen(text), TRACE_NAME_MAX - 1);
}

TEST("attr_setstreamfullpolicy", attr_policy, "policies come back, and others are refused")
{
	trace_attr_t attr;
	int value;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL), 0);
	EQUAL(posix_trace_attr_getstreamfullpolicy(&attr, &value), 0);
	EQUAL(value, POSIX_TRACE_UNTIL_FULL);
	EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, 77), EINVAL);
	EQUAL(posix_trace_attr_getstreamfullpolicy(&attr, &value), 0);
	EQUAL(value, POSIX_TRACE_UNTIL_FULL);
}

TEST("attr_setstreamsize", attr_sizes, "sizes come back as they were set")
{
	trace_attr_t attr;
	size_t bytes;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setstreamsize(&attr, 12345), 0);
	EQUAL(posix_trace_attr_getstreamsize(&attr, &bytes), 0);
	EQUAL(bytes, 12345);
	EQUAL(posix_trace_attr_setmaxdatasize(&attr, 33), 0);
	EQUAL(posix_trace_attr_getmaxdatasize(&attr, &bytes), 0);
	EQUAL(bytes, 33);
#if KYMO_POSIX_LOG
	EQUAL(posix_trace_attr_setlogsize(&attr, 54321), 0);
	EQUAL(posix_trace_attr_getlogsize(&attr, &bytes), 0);
	EQUAL(bytes, 54321);
	EQUAL(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND), 0);
	EQUAL(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_FLUSH), EINVAL);
#endif
#if KYMO_POSIX_INHERIT
	EQUAL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), 0);
	EQUAL(posix_trace_attr_setinherited(&attr, 9), EINVAL);
#endif
}

TEST("attr_getmaxusereventsize", attr_event_sizes,
	"the size of an event grows with its data up to max-data-size, and covers the "
	"system's events")
{
	size_t small, large, more, system;
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setmaxdatasize(&attr, 100), 0);
	EQUAL(posix_trace_attr_getmaxusereventsize(&attr, 4, &small), 0);
	EQUAL(posix_trace_attr_getmaxusereventsize(&attr, 100, &large), 0);
	EQUAL(posix_trace_attr_getmaxusereventsize(&attr, 5000, &more), 0);
	EXPECT(small >= 4 && large > small);
	EQUAL(more, large);
	EQUAL(posix_trace_attr_getmaxsystemeventsize(&attr, &system), 0);
#if KYMO_POSIX_FILTER
	EXPECT(system >= 2 * sizeof(trace_event_set_t));
#else
	EXPECT(system >= sizeof(int));
#endif
}

#if KYMO_POSIX_ONLINE
TEST("get_attr", attr_of_stream,
	"a stream tells the attributes it was made with, and its creation time")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_UNTIL_FULL, 20000, 50), told;
	struct timespec before, created, after;
	char name[TRACE_NAME_MAX + 1];
	trace_id_t trid;
	size_t bytes;
	int policy;

	EQUAL(posix_trace_attr_setname(&attr, "mine"), 0);
	clock_gettime(CLOCK_REALTIME, &before);
	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	clock_gettime(CLOCK_REALTIME, &after);
	EQUAL(posix_trace_get_attr(trid, &told), 0);
	EQUAL(posix_trace_attr_getname(&told, name), 0);
	EXPECT(!strcmp(name, "mine"));
	EQUAL(posix_trace_attr_getstreamfullpolicy(&told, &policy), 0);
	EQUAL(policy, POSIX_TRACE_UNTIL_FULL);
	EQUAL(posix_trace_attr_getstreamsize(&told, &bytes), 0);
	EXPECT(bytes >= 20000);
	EQUAL(posix_trace_attr_getmaxdatasize(&told, &bytes), 0);
	EQUAL(bytes, 50);
	EQUAL(posix_trace_attr_getcreatetime(&told, &created), 0);
	EXPECT(created.tv_sec >= before.tv_sec && created.tv_sec <= after.tv_sec);
}

TEST("create", attr_is_copied,
	"changing or destroying an attributes object leaves its streams as they are")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_UNTIL_FULL, 0, 0), told;
	trace_id_t trid;
	int policy;

	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_LOOP), 0);
	EQUAL(posix_trace_attr_destroy(&attr), 0);
	EQUAL(posix_trace_get_attr(trid, &told), 0);
	EQUAL(posix_trace_attr_getstreamfullpolicy(&told, &policy), 0);
	EQUAL(policy, POSIX_TRACE_UNTIL_FULL);
}
#endif
