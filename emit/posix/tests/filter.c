/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* filter.c: sets of event types, and filters of streams. */
#define _GNU_SOURCE
#include "test.h"

#if KYMO_POSIX_FILTER
static bool has(const trace_event_set_t *set, trace_event_id_t event)
{
	int is_member = -1;

	EQUAL(posix_trace_eventset_ismember(event, set, &is_member), 0);
	return is_member;
}

TEST("eventset_add", set_operations, "add and del succeed whether the event was in the set or not")
{
	trace_event_set_t set;

	EQUAL(posix_trace_eventset_empty(&set), 0);
	EXPECT(!has(&set, POSIX_TRACE_START));
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_START, &set), 0);
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_START, &set), 0);
	EXPECT(has(&set, POSIX_TRACE_START) && !has(&set, POSIX_TRACE_STOP));
	EQUAL(posix_trace_eventset_del(POSIX_TRACE_START, &set), 0);
	EQUAL(posix_trace_eventset_del(POSIX_TRACE_START, &set), 0);
	EXPECT(!has(&set, POSIX_TRACE_START));
}

TEST("eventset_fill", set_fill,
	"SYSTEM has the system's types and no user's, ALL has all; sets can be assigned")
{
	trace_event_set_t set, copy;

	EQUAL(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS), 0);
	EXPECT(has(&set, POSIX_TRACE_ERROR) && has(&set, POSIX_TRACE_FILTER) &&
	       has(&set, POSIX_TRACE_RESUME) && !has(&set, POSIX_TRACE_UNNAMED_USEREVENT));
	EQUAL(posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS), 0);
	copy = set;
	EXPECT(has(&copy, POSIX_TRACE_START) && has(&copy, POSIX_TRACE_UNNAMED_USEREVENT) &&
	       has(&copy, POSIX_TRACE_UNNAMED_USEREVENT + 5));
	EQUAL(posix_trace_eventset_fill(&set, POSIX_TRACE_WOPID_EVENTS), 0);
	EXPECT(!has(&set, POSIX_TRACE_START));
}

#if KYMO_POSIX_ONLINE
TEST("create", filter_is_empty, "the filter of a new stream is empty: everything is recorded")
{
	trace_id_t trid = stream_with(0, 0, 0);
	trace_event_set_t set;

	EQUAL(posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS), 0);
	EQUAL(posix_trace_get_filter(trid, &set), 0);
	for (trace_event_id_t event = 1; event < 16 + TRACE_USER_EVENT_MAX; event++)
		EXPECT(!has(&set, event));
}

TEST("set_filter", filter_how,
	"SET replaces, ADD unites, SUB takes away; get_filter tells exactly that")
{
	trace_id_t trid = stream_with(0, 0, 0);
	trace_event_set_t a, b, now;

	EQUAL(posix_trace_eventset_empty(&a), 0);
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_START, &a), 0);
	EQUAL(posix_trace_eventset_empty(&b), 0);
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_STOP, &b), 0);
	EQUAL(posix_trace_set_filter(trid, &a, POSIX_TRACE_SET_EVENTSET), 0);
	EQUAL(posix_trace_set_filter(trid, &b, POSIX_TRACE_ADD_EVENTSET), 0);
	EQUAL(posix_trace_get_filter(trid, &now), 0);
	EXPECT(has(&now, POSIX_TRACE_START) && has(&now, POSIX_TRACE_STOP));
	EQUAL(posix_trace_set_filter(trid, &a, POSIX_TRACE_SUB_EVENTSET), 0);
	EQUAL(posix_trace_get_filter(trid, &now), 0);
	EXPECT(!has(&now, POSIX_TRACE_START) && has(&now, POSIX_TRACE_STOP));
	EQUAL(posix_trace_set_filter(trid, &a, POSIX_TRACE_SET_EVENTSET), 0);
	EQUAL(posix_trace_get_filter(trid, &now), 0);
	EXPECT(has(&now, POSIX_TRACE_START) && !has(&now, POSIX_TRACE_STOP));
	EQUAL(posix_trace_set_filter(trid, &a, 99), EINVAL);
}

#if KYMO_POSIX_EVENT_FILTER && KYMO_POSIX_EVENT_START_STOP
TEST("set_filter", filter_recorded,
	"a running stream records FILTER with the old and the new set; a suspended one, "
	"nothing")
{
	trace_id_t trid = stream_with(0, 0, 0);
	trace_event_set_t a, both[2];
	struct got got;

	EQUAL(posix_trace_eventset_empty(&a), 0);
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_UNNAMED_USEREVENT, &a), 0);
	EQUAL(posix_trace_set_filter(trid, &a, POSIX_TRACE_SET_EVENTSET), 0);
	EXPECT(!take(trid, &got));
	EQUAL(posix_trace_start(trid), 0);
	EXPECT(take(trid, &got));
	EXPECT(!memcmp(got.data, &a, sizeof(a)));
	EQUAL(posix_trace_set_filter(trid, &a, POSIX_TRACE_SUB_EVENTSET), 0);
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_FILTER);
	EQUAL(got.bytes, sizeof(both));
	memcpy(both, got.data, sizeof(both));
	EXPECT(has(&both[0], POSIX_TRACE_UNNAMED_USEREVENT));
	EXPECT(!has(&both[1], POSIX_TRACE_UNNAMED_USEREVENT));
}

TEST("set_filter", filter_system, "system events can be filtered, too")
{
	trace_id_t trid = stream_with(0, 0, 0);
	trace_event_set_t set;
	struct got got;

	EQUAL(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS), 0);
	EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_stop(trid), 0);
	EXPECT(!take(trid, &got));
}
#endif

#if KYMO_POSIX_USER_EVENTS
TEST("set_filter", filter_ignores,
	"what is in the filter is not recorded; another stream's filter does not matter")
{
	trace_event_id_t a = event_named("a"), b = event_named("b");
	trace_id_t trid = stream_with(0, 0, 0), other = stream_with(0, 0, 0);
	trace_event_set_t set;
	struct got got;

	EQUAL(posix_trace_eventset_empty(&set), 0);
	EQUAL(posix_trace_eventset_add(a, &set), 0);
	EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_start(other), 0);
	emit_number(a, 1);
	emit_number(b, 2);
	EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SUB_EVENTSET), 0);
	emit_number(a, 3);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 2);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 3);
	for (int i = 1; i <= 3; i++) {
		EXPECT(take_user(other, &got));
		EQUAL(number_of(&got), i);
	}
}

TEST("trid_eventid_open", trid_open,
	"the controller gets the ids that the process itself gets, whoever asks first")
{
	trace_id_t trid = stream_with(0, 0, 0), other = stream_with(0, 0, 0);
	char name[TRACE_EVENT_NAME_MAX + 2];
	trace_event_id_t event, again;

	EQUAL(posix_trace_trid_eventid_open(trid, "first", &event), 0);
	EQUAL(event_named("first"), event);
	EQUAL(posix_trace_trid_eventid_open(other, "first", &again), 0);
	EQUAL(again, event);
	event = event_named("second");
	EQUAL(posix_trace_trid_eventid_open(trid, "second", &again), 0);
	EQUAL(again, event);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	EQUAL(posix_trace_trid_eventid_open(trid, name, &event), ENAMETOOLONG);
}
#endif
#endif
#endif
