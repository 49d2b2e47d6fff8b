/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * names.c: event types: their names, and the list of them. Unit: trace core. Where names stand is
 * the platform's business; names only ever become more.
 */
#define _GNU_SOURCE
#include "internal.h"

#define UNNAMED KYMOP_NAME_PREFIX "unnamed_userevent"

/* One behind the other, without what all begin with: a table would be as long as they are. */
static const char system_names[] = "error\0start\0stop\0overflow\0resume\0filter\0flush_start\0flush_stop"
#if KYMOP_KERNEL
				   "\0context_switch\0system_call_entry\0system_call_exit"
				   "\0lock_wait_begin\0lock_wait_end"
#endif
	;

/* The name of a system event, behind KYMOP_NAME_PREFIX. id: 1 to KYMOP_SYSTEM_LAST. */
const char *kymop_system_name(uint32_t id)
{
	const char *at = system_names;

	while (--id)
		at += strlen(at) + 1;
	return at;
}

/* The types that this build knows of; those of absent units are not listed. */
bool kymop_system_exists(uint32_t id)
{
	if (!id || id > KYMOP_SYSTEM_LAST)
		return false;
#if KYMOP_KERNEL
	if (id > KYMOP_FLUSH_STOP)
		return id == KYMOP_CONTEXT_SWITCH    ? KYMO_POSIX_EVENT_CONTEXT_SWITCH :
		       id < KYMOP_LOCK_WAIT_BEGIN    ? KYMO_POSIX_EVENT_SYSTEM_CALL :
						       KYMO_POSIX_EVENT_LOCK;
#endif
	if (id == KYMOP_FILTER)
		return KYMO_POSIX_FILTER;
	return id < KYMOP_FILTER || KYMOP_WITH_LOG;
}

bool kymop_name_exists(const struct kymop_names *names, uint32_t id)
{
	return id >= KYMOP_USER_FIRST && id < KYMOP_EVENTS &&
	       id - KYMOP_USER_FIRST < __atomic_load_n(&names->count, __ATOMIC_ACQUIRE);
}

#if KYMO_POSIX_USER_EVENTS || KYMO_POSIX_FILTER
static uint32_t find(const struct kymop_names *names, const char *name, uint32_t from)
{
	uint32_t count = __atomic_load_n(&names->count, __ATOMIC_ACQUIRE);

	if (count > KYMO_POSIX_USER_EVENT_COUNT)
		count = KYMO_POSIX_USER_EVENT_COUNT;
	for (uint32_t i = from; i < count; i++)
		if (!strncmp(names->name[i], name, KYMO_POSIX_EVENT_NAME_BYTES + 1))
			return i;
	return 0;
}

/*
 * kymop_name_open: the id of a name, which is added when it is new. Without room it is the unnamed
 * event's, and that is no error. Returns: 0; ENAMETOOLONG;
 * EAGAIN, another process keeps the names.
 */
int kymop_name_open(struct kymop_names *names, const char *name, trace_event_id_t *event)
{
	size_t length = strnlen(name, KYMO_POSIX_EVENT_NAME_BYTES + 1);
	uint32_t index, count;

	if (length > KYMO_POSIX_EVENT_NAME_BYTES)
		return ENAMETOOLONG;
	if (!strcmp(name, UNNAMED)) {
		*event = POSIX_TRACE_UNNAMED_USEREVENT;
		return 0;
	}
	index = find(names, name, 1);
	if (!index) {
		if (!kymop_names_lock(names))
			return EAGAIN;
		count = names->count;
		index = find(names, name, 1);
		if (!index && count < KYMO_POSIX_USER_EVENT_COUNT) {
			memcpy(names->name[count], name, length + 1);
			__atomic_store_n(&names->count, count + 1, __ATOMIC_RELEASE);
			index = count;
		}
		kymop_names_unlock(names);
	}
	*event = KYMOP_USER_FIRST + index;
	return 0;
}
#endif

/* Of an event's name that which stands behind *prefix; null where there is none. */
static const char *name_of(const struct kymop_stream *stream, uint32_t id, const char **prefix)
{
	*prefix = "";
#if KYMO_POSIX_RETRIEVAL
	if (stream->kind == KYMOP_OPENED)
		return kymop_opened_name(stream, id);
#endif
	if (kymop_system_exists(id) || id == KYMOP_USER_FIRST) {
		*prefix = KYMOP_NAME_PREFIX;
		return id == KYMOP_USER_FIRST ? UNNAMED + strlen(KYMOP_NAME_PREFIX) : kymop_system_name(id);
	}
#if KYMOP_ACTIVE
	if (kymop_name_exists(stream->names, id))
		return stream->names->name[id - KYMOP_USER_FIRST];
#endif
	return NULL;
}

KYMOP_EXPORT int posix_trace_eventid_equal(trace_id_t trid, trace_event_id_t a, trace_event_id_t b)
{
	(void)trid;
	return a == b;
}

KYMOP_EXPORT int posix_trace_eventid_get_name(trace_id_t trid, trace_event_id_t event, char *name)
{
	struct kymop_stream *stream;
	const char *found = NULL, *prefix;

	if (!name)
		return EINVAL;
	kymop_lock();
	stream = kymop_find(trid);
	if (stream)
		found = name_of(stream, event, &prefix);
	if (found) {
		size_t before = strlen(prefix), length = strnlen(found, KYMO_POSIX_EVENT_NAME_BYTES);

		memcpy(name, prefix, before);
		memcpy(name + before, found, length);
		name[before + length] = 0;
	}
	kymop_unlock();
	return found ? 0 : EINVAL;
}

KYMOP_EXPORT int posix_trace_eventtypelist_getnext_id(trace_id_t trid,
						      trace_event_id_t *restrict event,
						      int *restrict unavailable)
{
	struct kymop_stream *stream;
	const char *prefix;

	if (!event || !unavailable)
		return EINVAL;
	kymop_lock();
	stream = kymop_find(trid);
	if (stream) {
		while (stream->type_next < KYMOP_EVENTS && !name_of(stream, stream->type_next, &prefix))
			stream->type_next++;
		*unavailable = stream->type_next >= KYMOP_EVENTS;
		if (!*unavailable)
			*event = stream->type_next++;
	}
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

KYMOP_EXPORT int posix_trace_eventtypelist_rewind(trace_id_t trid)
{
	struct kymop_stream *stream;

	kymop_lock();
	stream = kymop_find(trid);
	if (stream)
		stream->type_next = 0;
	kymop_unlock();
	return stream ? 0 : EINVAL;
}
