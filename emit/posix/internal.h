/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * internal.h: what the files of libkymo-posix share [posix.md]. attr*.c know only the attributes object;
 * record.c writes user events; ring.c keeps room in lanes; reader.c merges lanes; handles.c has the streams
 * by trace id, wants.c and state.c what a stream records now; create.c makes streams, stream.c starts,
 * stops and ends them; log*.c write a log, open.c reads one. What all of them work on is in stream.h, what
 * the system must do in platform.h.
 */
#ifndef KYMO_POSIX_INTERNAL_H
#define KYMO_POSIX_INTERNAL_H

#include "platform.h"
#include "stream.h"

/* Of this library alone: no table of addresses stands between its files. */
#pragma GCC visibility push(hidden)

/* handles.c */
#define KYMOP_HANDLES (KYMO_POSIX_STREAMS * (1 + KYMO_POSIX_RETRIEVAL))
extern struct kymop_stream kymop_streams[KYMOP_HANDLES];
struct kymop_stream *kymop_stream_new(void);
void kymop_stream_free(struct kymop_stream *stream);
struct kymop_stream *kymop_find(trace_id_t trid);
struct kymop_stream *kymop_find_active(trace_id_t trid);
void kymop_streams_forget(void);

/* wants.c */
bool kymop_filters(const struct kymop_shared *shared, uint32_t id);

/* state.c */
/* Of the word state of a stream's memory. */
static inline enum kymop_state kymop_state_of(uint64_t word)
{
	return (enum kymop_state)(word & ((1u << KYMOP_STATE_BITS) - 1));
}
#if KYMOP_ACTIVE
static inline enum kymop_state kymop_state_now(const struct kymop_stream *stream)
{
	return kymop_state_of(__atomic_load_n(&kymop_shared_of(stream)->state, KYMOP_ACQUIRE));
}
bool kymop_state_move(struct kymop_stream *stream, enum kymop_state from, enum kymop_state to);
void kymop_run(struct kymop_stream *stream, enum kymop_state from);
/*
 * kymop_is_full: in a state that was read once. Only a stream that overwrites is full while it runs:
 * of the others the state says it.
 */
static inline bool kymop_is_full(const struct kymop_stream *stream, enum kymop_state state)
{
	if (stream->attr.kymo__stream_policy != KYMOP_LOOP)
		return state == KYMOP_AUTO_STOPPED;
	return __atomic_load_n(&kymop_shared_of(stream)->full, __ATOMIC_RELAXED) != 0;
}
#endif
void kymop_system_event(struct kymop_stream *stream, uint16_t id, const void *data,
			uint32_t data_bytes);
void kymop_restart(struct kymop_stream *stream);

/* create.c */
int kymop_create(pid_t pid, const trace_attr_t *attr, bool with_log, struct kymop_stream **made);
void kymop_destroy(struct kymop_stream *stream);

/* attr.c */
#define KYMOP_ATTR_MAGIC 0x4b504154u
bool kymop_attr_is_valid(const trace_attr_t *attr);
int kymop_attr_policy(const trace_attr_t *attr, bool with_log);
void kymop_attr_defaults(trace_attr_t *attr);

/* names.c */
#define KYMOP_NAME_PREFIX "posix_trace_" /* of what the standard names */
const char *kymop_system_name(uint32_t id);
int kymop_name_open(struct kymop_names *names, const char *name, trace_event_id_t *event);
bool kymop_name_exists(const struct kymop_names *names, uint32_t id);
bool kymop_system_exists(uint32_t id);

#if KYMO_POSIX_HOSTED
void kymop_wants_update(struct kymop_shared *shared);
static inline void kymop_filter_changed(struct kymop_shared *shared)
{
	__atomic_add_fetch(&shared->filter_version, 1, __ATOMIC_SEQ_CST);
	kymop_wants_update(shared);
}

/* ring.c: writing. Context: any, signal handlers included. */
bool kymop_lane_is_full(const struct kymo_ring *ring, uint64_t step, uint32_t ring_bytes);
bool kymop_make_room(const struct kymop_view *view, uint32_t lane, uint64_t step);
void kymop_lane_write(const struct kymop_view *view, uint32_t lane, const struct kymop_event *event);
bool kymop_locked_write(const struct kymop_view *view, const struct kymop_event *event,
			uint32_t self);
void kymop_ring_out(const struct kymop_view *view, uint32_t lane, uint64_t from, void *to,
		    uint32_t bytes);
#endif

/* reader.c */
enum kymop_got { KYMOP_NOTHING, KYMOP_GOT };
#if KYMO_POSIX_HOSTED
void kymop_reader_begin(struct kymop_stream *stream);
#endif
enum kymop_got kymop_reader_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes);
void kymop_reader_clear(struct kymop_stream *stream);
void kymop_report(struct kymop_stream *stream, const struct kymop_read *read, size_t bytes,
		  struct posix_trace_event_info *event);

/* log.c, open.c */
#if KYMO_POSIX_LOG
int kymop_log_flush(struct kymop_stream *stream);
int kymop_log_end(struct kymop_stream *stream);
int kymop_log_clear(struct kymop_stream *stream);
bool kymop_log_is_due(struct kymop_stream *stream, uint64_t idle_stamps);
void kymop_log_status(struct kymop_stream *stream, struct posix_trace_status_info *status);
#endif
#if KYMO_POSIX_LOG && KYMO_POSIX_HOSTED
struct kymop_stream *kymop_claim(trace_id_t trid);
void kymop_unclaim(struct kymop_stream *stream);
#else
#define kymop_claim kymop_find_active
#define kymop_unclaim(stream) ((void)(stream))
#endif
#if KYMO_POSIX_RETRIEVAL
void kymop_opened_status(const struct kymop_stream *stream, struct posix_trace_status_info *status);
const char *kymop_opened_name(const struct kymop_stream *stream, uint32_t id);
enum kymop_got kymop_opened_next(struct kymop_stream *stream, struct kymop_read *read, void *data,
				 uint32_t bytes);
#endif

#pragma GCC visibility pop

#endif
