/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * handles.c: the streams of this process by their trace ids. Unit: trace core. A trace id is good in the
 * process that made the stream, until it is shut down or closed.
 */
#define _GNU_SOURCE
#include "internal.h"

struct kymop_stream kymop_streams[KYMOP_HANDLES];
static uint32_t last_serial;

/* A free handle, or null. Its trace id is one that was not given before, for 2^24 streams. */
struct kymop_stream *kymop_stream_new(void)
{
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++) {
		struct kymop_stream *stream = &kymop_streams[i];

		if (stream->kind != KYMOP_FREE)
			continue;
		memset(stream, 0, sizeof(*stream));
		last_serial = (last_serial + 1) & 0xffffff;
		stream->trid = last_serial << 8 | (i + 1);
		return stream;
	}
	return NULL;
}

void kymop_stream_free(struct kymop_stream *stream)
{
	memset(stream, 0, sizeof(*stream));
}

/* kymop_streams_forget: in a new child, which controls none of its parent's streams. */
void kymop_streams_forget(void)
{
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++)
		kymop_stream_free(&kymop_streams[i]);
}

struct kymop_stream *kymop_find(trace_id_t trid)
{
	uint32_t index = (trid & 0xff) - 1;

	if (index >= KYMOP_HANDLES || kymop_streams[index].kind == KYMOP_FREE ||
	    kymop_streams[index].trid != trid)
		return NULL;
	return &kymop_streams[index];
}

struct kymop_stream *kymop_find_active(trace_id_t trid)
{
	struct kymop_stream *stream = kymop_find(trid);

	return stream && stream->kind != KYMOP_OPENED ? stream : NULL;
}
