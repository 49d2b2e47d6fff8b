/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c: streams and names in static memory, what a program may define, and time. There is one
 * process, whose number is KYMOP_PID.
 */
#include "../../posix/internal.h"

#define WEAK __attribute__((weak))

struct kymop_shared kymop_headers[KYMO_POSIX_STREAMS];
static struct kymop_names names;

WEAK uint32_t kymo_target_thread(void)
{
	return 0;
}

WEAK void kymo_target_pause(void)
{
}

WEAK void kymo_target_lock(void)
{
}

WEAK void kymo_target_unlock(void)
{
}

struct kymop_names *kymop_own_names(void)
{
	/* Not an initial value: all of it would stand in the image. */
	if (!names.count)
		names.count = 1;
	return &names;
}

/* Quotient and rest by steps of a bit: no library has to bring a division of 64 bits. */
static uint64_t divide(uint64_t value, uint32_t by, uint32_t *rest)
{
	uint64_t left = 0;

	for (unsigned i = 0; i < 64; i++) {
		left = left << 1 | value >> 63;
		value <<= 1;
		if (left >= by) {
			left -= by;
			value |= 1;
		}
	}
	*rest = (uint32_t)left;
	return value;
}

void kymop_time_of(uint64_t stamp, struct timespec *time)
{
	uint32_t cycles, unused;

	time->tv_sec = (time_t)divide(stamp, kymo_target_hz, &cycles);
	time->tv_nsec = (long)divide((uint64_t)cycles * 1000000000u, kymo_target_hz, &unused);
}

#if KYMOP_ACTIVE
int kymop_memory_make(struct kymop_stream *stream, pid_t pid)
{
	struct kymop_shared *shared;

	if (pid && pid != KYMOP_PID)
		return ESRCH;
	for (stream->slot = 0; stream->slot < KYMO_POSIX_STREAMS; stream->slot++) {
		shared = kymop_shared(stream->slot);
		/* Where a writer was interrupted inside, the lane is not free yet. */
		if (shared->state == KYMOP_DEAD && !kymop_load(&shared->inside)) {
			memset(shared, 0, offsetof(struct kymop_shared, lane));
			shared->policy = stream->attr.kymo__stream_policy;
			shared->data_max = (uint32_t)stream->attr.kymo__data_bytes;
			shared->state = KYMOP_SUSPENDED;
			stream->names = kymop_own_names();
			return 0;
		}
	}
	return EAGAIN;
}

void kymop_stream_made(struct kymop_stream *stream)
{
	kymop_time_of(kymo_target_clock(), &stream->attr.kymo__created);
	stream->attr.kymo__stream_bytes = KYMOP_LANE_BYTES;
}
#endif

#if KYMO_POSIX_ONLINE
/* until_ns is a time of the target's clock: there is no other. */
int kymop_wait(uint32_t *pause_us, uint64_t until_ns, const uint64_t *mask_space)
{
	struct timespec now;

	(void)pause_us;
	(void)mask_space;
	if (until_ns != UINT64_MAX) {
		kymop_time_of(kymo_target_clock(), &now);
		if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= until_ns)
			return ETIMEDOUT;
	}
	kymo_target_pause();
	return 0;
}
#endif
