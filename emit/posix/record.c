/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * record.c: posix_trace_event(). Unit: user events. Async-signal-safe, without locks; one test when
 * nobody listens, else one record for each stream [posix.md 3]. No system call but for a stream's
 * first event in a process.
 */
#define _GNU_SOURCE
#include "internal.h"

#if KYMO_ARCH_X86_64 && KYMO_POSIX_HOSTED
#define WITH_SEQUENCE 1
#include "sequence.h"
#else
#define WITH_SEQUENCE 0
#endif

/* Where tests let something come between: emit/posix/tests/several/. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

#if KYMO_POSIX_USER_EVENTS

/* Restarts of one sequence before the record goes to a locked lane, as in ring.md 5.4. */
#define RESTARTS_MAX 64

#if WITH_SEQUENCE
/* What the sequence takes for an event: the id is where the slot's id_offset, 0, says. */
static const struct kymo_event *wanted(const struct kymop_shared *shared, uint32_t id)
{
	return (const struct kymo_event *)(const void *)&shared->wants[id];
}

/* One attempt to write to the lane of this CPU. words: thread, address, bytes and flags. */
static inline int attempt(uint32_t slot, uint32_t id, const uint64_t *words, const void *data,
			  uint32_t data_bytes)
{
	return kymop_sequence(&kymop_slots.slot[slot], wanted(kymop_shared(slot), id), kymop_step(data_bytes),
			      words, data, data_bytes);
}

/* The same for 4 bytes of data, which are most: from registers. */
static inline __attribute__((always_inline)) int attempt_four(uint32_t slot, uint32_t id,
							      uint32_t four, uint64_t address)
{
	return kymo__sequence_words(&kymop_slots.slot[slot], wanted(kymop_shared(slot), id),
				    kymop_step(sizeof(four)), 3,
				    (uint64_t)(uintptr_t)kymo__thread_pointer(), address,
				    sizeof(four) | (uint64_t)four << 32, 0);
}

/*
 * Why the lane of this CPU was not written to. True: another attempt may succeed. False: the stream
 * is stopped, or this CPU has no lane.
 */
static bool settle(const struct kymop_view *view, intptr_t rseq_offset, uint32_t data_bytes,
		   bool *is_lane_usable)
{
	uint32_t cpu = kymo__sequence_cpu(rseq_offset);

	*is_lane_usable = cpu < view->cpu_count;
	if (!*is_lane_usable)
		return false;
	if (!kymop_lane_is_full(&view->rings[cpu], kymop_step(data_bytes), view->ring_bytes))
		return true;
	return kymop_make_room(view, cpu, kymop_step(data_bytes));
}
#endif

/* Whether a stream that is full would have recorded the event: then it has lost one. */
static void count_loss(struct kymop_shared *shared, uint32_t id)
{
	uint64_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);

	if (kymop_state_of(state) == KYMOP_AUTO_STOPPED && !kymop_filters(shared, id))
		__atomic_store_n(&shared->overrun, 1, __ATOMIC_RELAXED);
}

#if WITH_SEQUENCE
/*
 * The lane of this CPU again. True: the event is recorded, or the stream does not take it. What is
 * written may belong to the stream that came into the slot since: it wants the event, too.
 */
static bool write_sequence(uint32_t slot, const struct kymop_view *view,
			   const struct kymop_event *event)
{
	uint64_t words[4] = { event->thread, event->address,
			      event->data_bytes | (uint64_t)event->flags << 16, 0 };
	/* Once: a slot that goes has 0, and there the thread has something else. */
	intptr_t rseq_offset = __atomic_load_n(&kymop_slots.slot[slot].rseq_offset, __ATOMIC_RELAXED);
	bool is_lane_usable = rseq_offset != 0;

	for (unsigned restarts = 0; is_lane_usable && restarts < RESTARTS_MAX; restarts++) {
		if (!__atomic_load_n(&view->shared->wants[event->id], __ATOMIC_RELAXED))
			return false;
		if (attempt(slot, event->id, words, event->data, event->data_bytes))
			return true;
		kymo__sequence_clear(rseq_offset);
		if (!settle(view, rseq_offset, event->data_bytes, &is_lane_usable) && is_lane_usable)
			return true;
	}
	return false;
}
#endif

/* The stream is attached. Whatever the first attempt did not do. */
static void write_held(uint32_t slot, const struct kymop_view *view, const struct kymop_event *event)
{
#if WITH_SEQUENCE
	if (write_sequence(slot, view, event))
		return;
#endif
	(void)slot;
	if (!__atomic_load_n(&view->shared->wants[event->id], __ATOMIC_RELAXED))
		count_loss(view->shared, event->id);
	else if (!kymop_locked_write(view, event, event->pid))
		__atomic_store_n(&view->shared->overrun, 1, __ATOMIC_RELAXED);
}

/* What the first attempt did not write: full, interrupted, not attached yet, stopped, filtered. */
static __attribute__((noinline)) void write_slowly(uint32_t slot, uint32_t id, const void *data,
						   size_t bytes, uint64_t address)
{
	struct kymop_event event = { .id = (uint16_t)id, .address = address, .data = data };
	struct kymop_view view;

	if (!kymop_attach(slot, &view))
		return;
	event.pid = kymop_self_pid();
	event.thread = kymop_self_thread();
	event.data_bytes = (uint32_t)bytes;
	if (bytes > view.data_max) {
		event.data_bytes = view.data_max;
		event.flags = KYMOP_TRUNCATED;
	}
	write_held(slot, &view, &event);
	kymop_release(&view);
}

/*
 * Whether a stream whose attempt failed does not want the event anyway: it is suspended, or filters
 * it. One that stopped itself wants to know, and one that is gone is to be forgotten.
 */
static inline bool is_unwanted(uint32_t slot, uint32_t id)
{
	const struct kymop_shared *shared = kymop_shared(slot);
	uint64_t state;

	if (__atomic_load_n(&shared->wants[id], __ATOMIC_RELAXED))
		return false;
	state = kymop_state_of(__atomic_load_n(&shared->state, __ATOMIC_RELAXED));
	return state == KYMOP_SUSPENDED || state == KYMOP_RUNNING;
}

/* An attempt has failed. */
static __attribute__((noinline)) void write_again(uint32_t slot, uint32_t id, const void *data,
						  size_t bytes, uint64_t address)
{
#if WITH_SEQUENCE
	intptr_t rseq_offset = __atomic_load_n(&kymop_slots.slot[slot].rseq_offset, __ATOMIC_RELAXED);

	if (rseq_offset) {
		kymo__sequence_clear(rseq_offset);
		if (is_unwanted(slot, id))
			return;
	}
#endif
	write_slowly(slot, id, data, bytes, address);
}

/* Data of any length. */
static __attribute__((noinline)) void write_any(uint32_t slot, uint32_t id, const void *data,
						size_t bytes, uint64_t address)
{
#if WITH_SEQUENCE
	uint32_t data_max = __atomic_load_n(&kymop_shared(slot)->data_max, __ATOMIC_RELAXED);
	uint64_t recorded = bytes <= data_max ? bytes : data_max | (uint64_t)KYMOP_TRUNCATED << 16;
	uint64_t words[4] = { (uint64_t)(uintptr_t)kymo__thread_pointer(), address, recorded, 0 };

	if (KYMO__LIKELY(attempt(slot, id, words, data, (uint16_t)recorded)))
		return;
#endif
	write_again(slot, id, data, bytes, address);
}

static inline __attribute__((always_inline)) void write_one(uint32_t slot, uint32_t id,
							    const void *data, size_t bytes,
							    uint64_t address)
{
#if WITH_SEQUENCE
	if (KYMO__LIKELY(bytes == 4) && KYMO__LIKELY(kymop_shared(slot)->data_max >= 4)) {
		uint32_t four;

		memcpy(&four, data, sizeof(four));
		if (KYMO__UNLIKELY(!attempt_four(slot, id, four, address)))
			write_again(slot, id, data, 4, address);
		return;
	}
#endif
	write_any(slot, id, data, bytes, address);
}

#if WITH_SEQUENCE
/*
 * The same for several streams: one clock read for all, where nothing comes between. A stream that a handler's
 * record came in front of reads the clock again.
 */
static __attribute__((noinline)) void write_each_four(uint32_t members, uint32_t id,
						      const void *data, uint64_t address)
{
	uint64_t words[3] = { (uint64_t)(uintptr_t)kymo__thread_pointer(), address, sizeof(uint32_t) };
	const uint64_t step = kymop_step(sizeof(uint32_t));
	struct kymo_shared shared;
	bool is_written = false;
	intptr_t rseq_offset = 0;

	memcpy((char *)&words[2] + sizeof(uint32_t), data, sizeof(uint32_t));
	for (; members; members &= members - 1) {
		uint32_t slot = (uint32_t)__builtin_ctz(members);
		const struct kymo_slot *lanes = &kymop_slots.slot[slot];
		const struct kymo_event *event = wanted(kymop_shared(slot), id);
		bool fits = kymop_shared(slot)->data_max >= sizeof(uint32_t);

		KYMO_TEST_STOP(BETWEEN);
		is_written = is_written && fits && kymop_sequence_next(lanes, event, step, &shared, words);
		if (KYMO__LIKELY(is_written))
			continue;
		if (KYMO__LIKELY(fits)) {
			/* A slot that goes has 0, and there the thread has something else. */
			intptr_t own = __atomic_load_n(&lanes->rseq_offset, __ATOMIC_RELAXED);

			rseq_offset = own ? own : rseq_offset;
			is_written = kymop_sequence_first(lanes, event, step, &shared, words);
		}
		if (KYMO__UNLIKELY(!is_written))
			write_again(slot, id, data, sizeof(uint32_t), address);
	}
	if (rseq_offset)
		kymo__sequence_clear(rseq_offset);
}
#endif

/* For several streams, or one in whatever slot. */
static __attribute__((noinline)) void write_each(uint32_t members, uint32_t id, const void *data,
						 size_t bytes, uint64_t address)
{
	if (KYMO__UNLIKELY(id < KYMOP_USER_FIRST || id >= KYMOP_EVENTS))
		return;
#if WITH_SEQUENCE
	if (KYMO__LIKELY(bytes == 4)) {
		write_each_four(members, id, data, address);
		return;
	}
#endif
	for (; members; members &= members - 1)
		write_any((uint32_t)__builtin_ctz(members), id, data, bytes, address);
}

/*
 * For the stream in the first slot, which is the only one of most processes: all addresses are known
 * before the program runs, so that nothing waits for a load in front of the clock read.
 */
static __attribute__((noinline)) void write_first(uint32_t id, const void *data, size_t bytes,
						  uint64_t address)
{
	if (KYMO__UNLIKELY(id - KYMOP_USER_FIRST >= KYMOP_EVENTS - KYMOP_USER_FIRST))
		return;
	write_one(0, id, data, bytes, address);
}

KYMOP_EXPORT void posix_trace_event(trace_event_id_t event, const void *restrict data, size_t bytes)
{
	uint32_t idle = __atomic_load_n(&kymop_page.idle, __ATOMIC_RELAXED);
	uint64_t address = (uint64_t)(uintptr_t)__builtin_return_address(0);

	if (KYMO__LIKELY(idle == KYMOP_ALL_IDLE))
		return;
	if (KYMO__LIKELY(idle == (KYMOP_ALL_IDLE & ~1u)))
		write_first(event, data, bytes, address);
	else
		write_each(~idle & KYMOP_ALL_IDLE, event, data, bytes, address);
}

KYMOP_EXPORT int posix_trace_eventid_open(const char *restrict name,
					  trace_event_id_t *restrict event)
{
	int error;

	if (!name || !event)
		return EINVAL;
	kymop_lock();
	error = kymop_prepare();
	if (!error)
		error = kymop_name_open(kymop_own_names(), name, event);
	kymop_unlock();
	return error;
}
#else
typedef int kymop_no_user_events; /* a file must not be empty */
#endif
