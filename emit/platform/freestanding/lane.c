/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lane.c: writes records into a stream's lane [target.md 2]. Whoever writes may be interrupted by
 * another who writes, tasks included: each reserves room and fills it, and the last to leave
 * publishes all of it. Nobody waits, and interrupts are never held off. Of one core.
 */
#include "../../posix/internal.h"

#if KYMOP_ACTIVE

/* In words: a record begins and ends with one. */
static uint32_t *at(struct kymop_shared *shared, uint32_t position)
{
	return &shared->lane[position % KYMOP_LANE_BYTES / 4];
}

void kymop_lane_out(const struct kymop_shared *shared, uint32_t from, void *to, uint32_t bytes)
{
	const uint8_t *lane = (const uint8_t *)shared->lane;
	uint8_t *byte = to;

	while (bytes--)
		*byte++ = lane[from++ % KYMOP_LANE_BYTES];
}

/* The oldest record goes. False: there is none, only some that are being written. */
static bool overwrite(struct kymop_shared *shared)
{
	uint32_t tail = kymop_load(&shared->tail);
	struct kymop_record record;

	if (tail == kymop_load(&shared->head))
		return false;
	kymop_lane_out(shared, tail, &record, sizeof(record));
	kymop_fence();
	/* Else somebody has made room meanwhile. */
	if (kymop_cas(&shared->tail, tail, tail + kymop_record_step(record.data_bytes))) {
		kymop_add(&shared->lost, 1);
		if (KYMO_POSIX_EVENT_OVERFLOW &&
		    kymop_cas(&shared->overflow, KYMOP_NO_OVERFLOW, KYMOP_OVERFLOW_BEGUN)) {
			shared->overflow_word = record.word;
			kymop_fence();
			shared->overflow = KYMOP_OVERFLOW_KNOWN;
		}
		shared->full = shared->overrun = 1;
	}
	return true;
}

/* For a record that did not fit. False: the stream keeps what it has, and stops by itself. */
static bool make_room(struct kymop_shared *shared)
{
	if (shared->policy == KYMOP_LOOP)
		return overwrite(shared);
	if (kymop_cas(&shared->state, KYMOP_RUNNING, KYMOP_AUTO_STOPPED))
		shared->full = 1;
	return false;
}

/* Room for a record, with the time that it has then. Stamps do not go back along the lane. */
static bool reserve(struct kymop_shared *shared, uint32_t step, uint32_t *position, uint64_t *stamp)
{
	for (;;) {
		*position = kymop_load(&shared->reserve);
		*stamp = kymo_target_clock();
		kymop_fence();
		if (*position + step - kymop_load(&shared->tail) > KYMOP_LANE_BYTES) {
			if (kymop_load(&shared->reserve) == *position && !make_room(shared))
				return false;
		} else if (kymop_cas(&shared->reserve, *position, *position + step)) {
			return true;
		}
	}
}

static void fill(struct kymop_shared *shared, uint32_t position, uint64_t stamp,
		 const struct kymop_event *event)
{
	uint8_t *lane = (uint8_t *)shared->lane;
	const uint8_t *data = event->data;

	*at(shared, position) = (uint32_t)stamp << 16 | event->id;
	*at(shared, position + 4) = (uint32_t)(stamp >> 16);
	*at(shared, position + 8) = kymo_target_thread();
	*at(shared, position + 12) = event->address;
	*at(shared, position + 16) = event->data_bytes << 16 | event->flags;
	position += KYMOP_RECORD_BYTES;
	for (uint32_t i = 0; i < event->data_bytes; i++)
		lane[(position + i) % KYMOP_LANE_BYTES] = data[i];
}

/*
 * Who leaves last publishes. What was reserved before reserve was loaded is whole when nobody is
 * inside then; who came in behind that and found us inside left it to us: once more.
 */
static void leave(struct kymop_shared *shared)
{
	uint32_t end, head;

	for (;;) {
		end = kymop_load(&shared->reserve);
		kymop_fence();
		if (kymop_add(&shared->inside, (uint32_t)-1))
			return;
		do
			head = kymop_load(&shared->head);
		while ((int32_t)(end - head) > 0 && !kymop_cas(&shared->head, head, end));
		if (kymop_load(&shared->reserve) == end)
			return;
		kymop_add(&shared->inside, 1);
	}
}

/* kymop_lane_write: a record, or one more that is lost. Context: any, interrupts included. */
void kymop_lane_write(struct kymop_shared *shared, const struct kymop_event *event)
{
	uint32_t position;
	uint64_t stamp;

	kymop_add(&shared->inside, 1);
	kymop_fence();
	if (reserve(shared, (uint32_t)kymop_record_step(event->data_bytes), &position, &stamp)) {
		fill(shared, position, stamp, event);
	} else {
		kymop_add(&shared->lost, 1);
		shared->overrun = 1;
	}
	kymop_fence();
	leave(shared);
}
#endif

#if defined(__ARM_ARCH) && __ARM_ARCH_ISA_THUMB == 1
/* ARMv6-M has no exclusive access: two instructions with interrupts held off, and no other way. */
static uint32_t hold_off(void)
{
	uint32_t mask;

	__asm__ __volatile__("mrs %0, primask\n\tcpsid i" : "=r"(mask) : : "memory");
	return mask;
}

static void let_in(uint32_t mask)
{
	__asm__ __volatile__("msr primask, %0" : : "r"(mask) : "memory");
}

bool kymop_cas(uint32_t *word, uint32_t before, uint32_t after)
{
	uint32_t mask = hold_off();
	bool is_done = *word == before;

	if (is_done)
		*word = after;
	let_in(mask);
	return is_done;
}

uint32_t kymop_add(uint32_t *word, uint32_t count)
{
	uint32_t mask = hold_off(), sum = *word += count;

	let_in(mask);
	return sum;
}
#endif
