/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * online.c: streams without a log, and reading them while they are recorded. Unit: on-line trace;
 * posix_trace_getnext_event() reads logs, too. Nobody holds kymop_lock while it waits.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMO_POSIX_ONLINE
KYMOP_EXPORT int posix_trace_create(pid_t pid, const trace_attr_t *restrict attr,
				    trace_id_t *restrict trid)
{
	struct kymop_stream *stream;
	int error;

	if (!trid)
		return EINVAL;
	kymop_lock();
	error = kymop_create(pid, attr, false, &stream);
	if (!error)
		*trid = stream->trid;
	kymop_unlock();
	return error;
}
#endif

#if KYMO_POSIX_ONLINE || KYMO_POSIX_RETRIEVAL
/* Where a reader wants a record to go. */
struct wish {
	struct posix_trace_event_info *event;
	void *data;
	size_t bytes;
	size_t *data_bytes;
	int *unavailable;
};

static enum kymop_got next(struct kymop_stream *stream, struct kymop_read *read, void *data,
			   uint32_t bytes)
{
#if KYMO_POSIX_RETRIEVAL
	if (stream->kind == KYMOP_OPENED)
		return kymop_opened_next(stream, read, data, bytes);
#endif
#if KYMO_POSIX_ONLINE
	return kymop_reader_next(stream, read, data, bytes);
#else
	return KYMOP_NOTHING;
#endif
}

/* One look, of a stream of one of the kinds (a bit each). Returns: 0 or EINVAL; *has_event. */
static int look(trace_id_t trid, uint32_t kinds, const struct wish *wish, bool *has_event,
		bool *is_final)
{
	struct kymop_stream *stream;
	struct kymop_read read;
	uint32_t bytes = wish->bytes < UINT32_MAX ? (uint32_t)wish->bytes : UINT32_MAX;
	uint32_t stored;

	kymop_lock();
	stream = kymop_find(trid);
	if (!stream || !(kinds >> stream->kind & 1)) {
		kymop_unlock();
		return EINVAL;
	}
	*is_final = stream->kind == KYMOP_OPENED;
	*has_event = next(stream, &read, wish->data, bytes) == KYMOP_GOT;
	if (*has_event) {
		stored = read.record.data_bytes < bytes ? read.record.data_bytes : bytes;
		kymop_report(stream, &read, wish->bytes, wish->event);
		*wish->data_bytes = stored;
	}
	*wish->unavailable = !*has_event;
	kymop_unlock();
	return 0;
}

static bool is_complete(const struct wish *wish)
{
	return wish->event && wish->data_bytes && wish->unavailable &&
	       (wish->data || !wish->bytes);
}

#if KYMO_POSIX_ONLINE
/* Until there is an event, or a log is at its end. until_ns: CLOCK_REALTIME; UINT64_MAX: no end. */
static int wait_for(trace_id_t trid, uint32_t kinds, const struct wish *wish, uint64_t until_ns,
		    bool *has_event)
{
	uint64_t mask_space[KYMOP_MASK_SPACE / 8];
	uint32_t pause_us = 0;
	bool is_final;
	int error;

	kymop_wait_begin(mask_space);
	do {
		error = look(trid, kinds, wish, has_event, &is_final);
		if (error || *has_event || is_final)
			break;
		error = kymop_wait(&pause_us, until_ns, mask_space);
	} while (!error);
	kymop_wait_end(mask_space);
	return error;
}
#endif

KYMOP_EXPORT int posix_trace_getnext_event(trace_id_t trid,
					   struct posix_trace_event_info *restrict event,
					   void *restrict data, size_t bytes,
					   size_t *restrict data_bytes, int *restrict unavailable)
{
	struct wish wish = { event, data, bytes, data_bytes, unavailable };
	uint32_t kinds = 1u << KYMOP_ONLINE | 1u << KYMOP_OPENED;
	bool has_event, is_final;
	int error;

	if (!is_complete(&wish))
		return EINVAL;
	error = look(trid, kinds, &wish, &has_event, &is_final);
#if KYMO_POSIX_ONLINE
	if (!error && !has_event && !is_final)
		error = wait_for(trid, kinds, &wish, UINT64_MAX, &has_event);
#endif
	return error;
}
#endif

#if KYMO_POSIX_ONLINE
/* Of seconds: what fits into 64 bits of nanoseconds, 544 years. */
#define UNTIL_SEC_BITS 34

KYMOP_EXPORT int posix_trace_timedgetnext_event(trace_id_t trid,
						struct posix_trace_event_info *restrict event,
						void *restrict data, size_t bytes,
						size_t *restrict data_bytes,
						int *restrict unavailable,
						const struct timespec *restrict until)
{
	struct wish wish = { event, data, bytes, data_bytes, unavailable };
	bool has_event, is_final;
	uint64_t until_ns = 0;
	int error, beyond;

	if (!is_complete(&wish))
		return EINVAL;
	error = look(trid, 1u << KYMOP_ONLINE, &wish, &has_event, &is_final);
	if (error || has_event)
		return error;
	/* Looked at only where there is nothing to be had. */
	if (!until || until->tv_nsec < 0 || until->tv_nsec > 999999999)
		return EINVAL;
	beyond = (int)((int64_t)until->tv_sec >> UNTIL_SEC_BITS);
	if (beyond > 0)
		until_ns = UINT64_MAX; /* centuries from now */
	else if (!beyond)
		until_ns = (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec;
	return wait_for(trid, 1u << KYMOP_ONLINE, &wish, until_ns, &has_event);
}

KYMOP_EXPORT int posix_trace_trygetnext_event(trace_id_t trid,
					      struct posix_trace_event_info *restrict event,
					      void *restrict data, size_t bytes,
					      size_t *restrict data_bytes,
					      int *restrict unavailable)
{
	struct wish wish = { event, data, bytes, data_bytes, unavailable };
	bool has_event, is_final;

	if (!is_complete(&wish))
		return EINVAL;
	return look(trid, 1u << KYMOP_ONLINE, &wish, &has_event, &is_final);
}
#endif
