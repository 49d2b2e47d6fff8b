/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter.c: sets of event types, and the set that a stream does not record. Unit: event filter. The
 * set is applied where a record would be written: what is in it costs no record.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMO_POSIX_FILTER

static bool is_event(trace_event_id_t event)
{
	return event > 0 && event < KYMOP_EVENTS;
}

KYMOP_EXPORT int posix_trace_eventset_add(trace_event_id_t event, trace_event_set_t *set)
{
	if (!set || !is_event(event))
		return EINVAL;
	set->kymo__words[event / 32] |= 1u << event % 32;
	return 0;
}

KYMOP_EXPORT int posix_trace_eventset_del(trace_event_id_t event, trace_event_set_t *set)
{
	if (!set || !is_event(event))
		return EINVAL;
	set->kymo__words[event / 32] &= ~(1u << event % 32);
	return 0;
}

KYMOP_EXPORT int posix_trace_eventset_empty(trace_event_set_t *set)
{
	if (!set)
		return EINVAL;
	memset(set, 0, sizeof(*set));
	return 0;
}

/* No system event here comes without a process: WOPID is empty. ALL has user events of later, too. */
KYMOP_EXPORT int posix_trace_eventset_fill(trace_event_set_t *set, int what)
{
	uint32_t end;

	if (!set)
		return EINVAL;
	switch (what) {
	case POSIX_TRACE_WOPID_EVENTS:
		end = 0;
		break;
	case POSIX_TRACE_SYSTEM_EVENTS:
		end = KYMOP_SYSTEM_LAST + 1;
		break;
	case POSIX_TRACE_ALL_EVENTS:
		end = KYMOP_EVENTS;
		break;
	default:
		return EINVAL;
	}
	memset(set, 0, sizeof(*set));
	for (uint32_t id = 1; id < end; id++)
		set->kymo__words[id / 32] |= 1u << id % 32;
	return 0;
}

KYMOP_EXPORT int posix_trace_eventset_ismember(trace_event_id_t event,
					       const trace_event_set_t *restrict set,
					       int *restrict is_member)
{
	if (!set || !is_member || !is_event(event))
		return EINVAL;
	*is_member = set->kymo__words[event / 32] >> event % 32 & 1;
	return 0;
}

KYMOP_EXPORT int posix_trace_get_filter(trace_id_t trid, trace_event_set_t *set)
{
	struct kymop_stream *stream;

	if (!set)
		return EINVAL;
	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream)
		memcpy(set, kymop_shared_of(stream)->filter, sizeof(*set));
	kymop_unlock();
	return stream ? 0 : EINVAL;
}

static bool combine(trace_event_set_t *filter, const trace_event_set_t *set, int how)
{
	for (size_t i = 0; i < sizeof(set->kymo__words) / sizeof(set->kymo__words[0]); i++) {
		uint32_t word = set->kymo__words[i];

		switch (how) {
		case POSIX_TRACE_SET_EVENTSET:
			filter->kymo__words[i] = word;
			break;
		case POSIX_TRACE_ADD_EVENTSET:
			filter->kymo__words[i] |= word;
			break;
		case POSIX_TRACE_SUB_EVENTSET:
			filter->kymo__words[i] &= ~word;
			break;
		default:
			return false;
		}
	}
	return true;
}

/* A running stream records the change, by the filter that was [posix.md 8, row 10]. */
static void record_change(struct kymop_stream *stream, const trace_event_set_t *before,
			  const trace_event_set_t *after)
{
	const struct kymop_shared *shared = kymop_shared_of(stream);
	trace_event_set_t both[2] = { *before, *after };

	if (KYMO_POSIX_EVENT_FILTER &&
	    kymop_state_of(__atomic_load_n(&shared->state, KYMOP_ACQUIRE)) == KYMOP_RUNNING)
		kymop_system_event(stream, KYMOP_FILTER, both, sizeof(both));
}

KYMOP_EXPORT int posix_trace_set_filter(trace_id_t trid, const trace_event_set_t *set, int how)
{
	struct kymop_stream *stream;
	int error = EINVAL;

	if (!set)
		return EINVAL;
	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream) {
		struct kymop_shared *shared = kymop_shared_of(stream);
		trace_event_set_t before, after;

		memcpy(&before, shared->filter, sizeof(before));
		after = before;
		if (combine(&after, set, how)) {
#if KYMOP_KERNEL
			error = stream->kernel ? kymop_kernel_filter(stream->kernel, after.kymo__words) : 0;
			if (error) {
				kymop_unlock();
				return error;
			}
#endif
			record_change(stream, &before, &after);
			for (size_t i = 0; i < sizeof(after) / 4; i++)
				__atomic_store_n(&shared->filter[i], after.kymo__words[i],
						 __ATOMIC_RELAXED);
			kymop_filter_changed(shared);
			error = 0;
		}
	}
	kymop_unlock();
	return error;
}

KYMOP_EXPORT int posix_trace_trid_eventid_open(trace_id_t trid, const char *restrict name,
					       trace_event_id_t *restrict event)
{
	struct kymop_stream *stream;
	int error = EINVAL;

	if (!name || !event)
		return EINVAL;
	kymop_lock();
	stream = kymop_find_active(trid);
	if (stream)
		error = kymop_name_open(stream->names, name, event);
	kymop_unlock();
	return error;
}
#else
typedef int kymop_no_filter; /* a file must not be empty */
#endif
