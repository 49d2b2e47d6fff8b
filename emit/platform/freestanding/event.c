/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* event.c: posix_trace_event() where there is no operating system. Unit: user events. */
#include "../../posix/internal.h"

#if KYMO_POSIX_USER_EVENTS

static void write_one(struct kymop_shared *shared, trace_event_id_t id, const void *data,
		      size_t bytes, uintptr_t address)
{
	struct kymop_event event = { .id = (uint16_t)id, .address = (uint32_t)address, .data = data };

	if (id - KYMOP_USER_FIRST >= KYMOP_EVENTS - KYMOP_USER_FIRST || kymop_filters(shared, id))
		return;
	event.data_bytes = (uint32_t)bytes;
	if (bytes > shared->data_max) {
		event.data_bytes = shared->data_max;
		event.flags = KYMOP_TRUNCATED;
	}
	if (kymop_load(&shared->state) == KYMOP_RUNNING) {
		kymop_lane_write(shared, &event);
	} else { /* stopped by itself: full */
		kymop_add(&shared->lost, 1);
		shared->overrun = 1;
	}
}

void posix_trace_event(trace_event_id_t event, const void *restrict data, size_t bytes)
{
	uintptr_t address = (uintptr_t)__builtin_return_address(0);

	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++)
		if (kymop_load(&kymop_shared(slot)->state) >= KYMOP_RUNNING)
			write_one(kymop_shared(slot), event, data, bytes, address);
}

int posix_trace_eventid_open(const char *restrict name, trace_event_id_t *restrict event)
{
	int error;

	if (!name || !event)
		return EINVAL;
	kymop_lock();
	error = kymop_name_open(kymop_own_names(), name, event);
	kymop_unlock();
	return error;
}
#endif
