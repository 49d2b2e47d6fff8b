/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* create.c: makes streams, and takes them away. Unit: trace core. */
#define _GNU_SOURCE
#include "internal.h"

#if KYMOP_ACTIVE
/* kymop_create: a stream that is suspended. Errors: those of posix_trace_create(). */
int kymop_create(pid_t pid, const trace_attr_t *attr, bool with_log, struct kymop_stream **made)
{
	struct kymop_stream *stream;
	trace_attr_t defaults;
	int error = kymop_prepare();

	if (error)
		return error;
	kymop_attr_defaults(&defaults);
	if (!attr)
		attr = &defaults;
	if (!kymop_attr_is_valid(attr) ||
	    (!with_log && attr->kymo__stream_policy == KYMOP_FLUSH))
		return EINVAL;
	stream = kymop_stream_new();
	if (!stream)
		return EAGAIN;
	stream->attr = *attr;
	stream->attr.kymo__stream_policy = kymop_attr_policy(attr, with_log);
	error = kymop_memory_make(stream, pid);
	if (error) {
		kymop_stream_free(stream);
		return error;
	}
	stream->kind = with_log ? KYMOP_LOGGED : KYMOP_ONLINE;
	kymop_stream_made(stream);
	kymop_reader_begin(stream);
#if KYMOP_KERNEL
	error = stream->attr.kymo__kernel ? kymop_kernel_make(stream) : 0;
	if (error)
		kymop_destroy(stream);
#endif
	*made = stream;
	return error;
}

void kymop_destroy(struct kymop_stream *stream)
{
	struct kymop_shared *shared = kymop_shared_of(stream);

	__atomic_store_n(&shared->state, KYMOP_DEAD, KYMOP_SEQ_CST);
	kymop_wants_update(shared);
#if KYMOP_KERNEL
	if (stream->kernel)
		kymop_kernel_free(stream);
#endif
	kymop_memory_free(stream);
	kymop_stream_free(stream);
}
#else
typedef int kymop_no_create; /* a file must not be empty */
#endif
