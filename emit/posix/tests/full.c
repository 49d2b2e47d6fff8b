/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* full.c: what streams do when they are full. */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sched.h>

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS
TEST("2.11.1 loop", loop_keeps_the_end,
	"LOOP overwrites the oldest: what is left is the end, without holes; status RUNNING, "
	"FULL, OVERRUN")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_LOOP, 8192, 0);
	struct posix_trace_status_info status;
	int next = -1, count = 0;
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 10000; i++)
		emit_number(event, i);
	status = status_of(trid);
	EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
	EQUAL(status.posix_stream_full_status, POSIX_TRACE_FULL);
	EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	while (take_user(trid, &got)) {
		if (next >= 0)
			EQUAL(number_of(&got), next);
		next = number_of(&got) + 1;
		count++;
	}
	EQUAL(next, 10000);
	/* As many as the size says. */
	EXPECT(count >= 8192 / 36);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_NOT_FULL);
}

static trace_event_id_t shared_event;
static int turn;

/* Two threads on whatever CPUs take turns: so the newest are in two lanes. */
static void *emit_by_turns(void *number)
{
	int self = (int)(intptr_t)number;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((unsigned)self % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (;;) {
		int now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);

		if (now >= 6000)
			return NULL;
		/* Uneven: one records long runs, the other short ones. */
		if ((now / 100 % 10 == 0) != (self == 0)) {
			sched_yield();
			continue;
		}
		emit_number(shared_event, now);
		__atomic_store_n(&turn, now + 1, __ATOMIC_RELEASE);
	}
}

TEST("2.11.1 loop", loop_over_cpus, "the end is kept without holes over all CPUs that recorded")
{
	trace_id_t trid = stream_with(POSIX_TRACE_LOOP, 8192, 0);
	int next = -1, count = 0;
	pthread_t threads[2];
	struct got got;

	shared_event = event_named("e");
	EQUAL(posix_trace_start(trid), 0);
	for (intptr_t i = 0; i < 2; i++)
		EQUAL(pthread_create(&threads[i], NULL, emit_by_turns, (void *)i), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	while (take_user(trid, &got)) {
		if (next >= 0)
			EQUAL(number_of(&got), next);
		next = number_of(&got) + 1;
		count++;
	}
	EQUAL(next, 6000);
	EXPECT(count >= 8192 / 36);
}

TEST("2.11.1 until full", until_full_keeps_the_begin,
	"UNTIL_FULL stops when full: what is kept is the begin; SUSPENDED and FULL; events "
	"behind set OVERRUN")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_UNTIL_FULL, 8192, 0);
	struct posix_trace_status_info status;
	struct got got;
	int count = 0;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 10000; i++)
		emit_number(event, i);
	status = status_of(trid);
	EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
	EQUAL(status.posix_stream_full_status, POSIX_TRACE_FULL);
	EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	emit_number(event, -1);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
	while (take_user(trid, &got)) {
		EQUAL(number_of(&got), count);
		count++;
	}
	EXPECT(count >= 8192 / 36 && count < 10000);
	status = status_of(trid);
	EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
	EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
	emit_number(event, 77);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 77);
}

#if KYMO_POSIX_EVENT_START_STOP
TEST("2.11.1 until full", until_full_reports,
	"the automatic stop is reported behind the last event with auto not 0, and START in "
	"front of the next")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_UNTIL_FULL, 4096, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 1000; i++)
		emit_number(event, i);
	do
		EXPECT(take(trid, &got));
	while (got.info.posix_event_id == event || got.info.posix_event_id == POSIX_TRACE_START);
	EQUAL(got.info.posix_event_id, POSIX_TRACE_STOP);
	EXPECT(number_of(&got) != 0);
	emit_number(event, 5000);
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_START);
	EXPECT(take(trid, &got));
	EQUAL(number_of(&got), 5000);
}
#endif

TEST("2.11.1 until full", start_while_full,
	"start and stop of a stream that is full succeed and change nothing")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_UNTIL_FULL, 4096, 0);

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 1000; i++)
		emit_number(event, i);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_SUSPENDED);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_FULL);
	EQUAL(posix_trace_stop(trid), 0);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_FULL);
}

TEST("stop", stop_full_loop, "a LOOP stream that is full stops, and stays full until it is read")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_LOOP, 4096, 0);

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 1000; i++)
		emit_number(event, i);
	EQUAL(posix_trace_stop(trid), 0);
	EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_SUSPENDED);
	EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_FULL);
}

#if KYMO_POSIX_EVENT_OVERFLOW
TEST("2.11.2 overflow", overflow_resume,
	"where events were overwritten, OVERFLOW and RESUME stand in front of the next, with "
	"borrowed times")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_LOOP, 4096, 0);
	struct timespec overflow, resume;
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 1000; i++)
		emit_number(event, i);
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_OVERFLOW);
	overflow = got.info.posix_timestamp;
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_RESUME);
	resume = got.info.posix_timestamp;
	EXPECT(take(trid, &got));
	EQUAL(got.info.posix_event_id, event);
	EXPECT(number_of(&got) > 0);
	EQUAL(got.info.posix_timestamp.tv_sec, resume.tv_sec);
	EQUAL(got.info.posix_timestamp.tv_nsec, resume.tv_nsec);
	EXPECT(overflow.tv_sec < resume.tv_sec ||
	       (overflow.tv_sec == resume.tv_sec && overflow.tv_nsec < resume.tv_nsec));
	while (take(trid, &got))
		EQUAL(got.info.posix_event_id, event);
}
#endif

/* Reads while another thread overwrites: each event whole, in order, none twice. */
static volatile bool is_over;

static void *emit_for_ever(void *nothing)
{
	for (int i = 0; !is_over; i++) {
		int data[3] = { i, ~i, i * 3 };

		posix_trace_event(shared_event, data, sizeof(data));
	}
	return nothing;
}

TEST("2.11.1 loop", loop_while_read,
	"a stream that is overwritten while it is read gives whole events in their order")
{
	trace_id_t trid = stream_with(POSIX_TRACE_LOOP, 4096, 0);
	int last = -1, count = 0, data[3];
	pthread_t thread;
	struct got got;

	shared_event = event_named("e");
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(pthread_create(&thread, NULL, emit_for_ever, NULL), 0);
	while (count < 100000) {
		if (!take_user(trid, &got))
			continue;
		EQUAL(got.bytes, sizeof(data));
		memcpy(data, got.data, sizeof(data));
		EXPECT(data[1] == ~data[0] && data[2] == data[0] * 3);
		EXPECT(data[0] > last);
		last = data[0];
		count++;
	}
	is_over = true;
	pthread_join(thread, NULL);
}

static volatile bool status_end;

static void *emit_without_end(void *event)
{
	while (!status_end)
		emit_number(*(trace_event_id_t *)event, 1);
	return NULL;
}

TEST("get_status", status_is_one_moment,
	"the status is that of one moment: a stream that is not LOOP never runs and is full at once")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(POSIX_TRACE_UNTIL_FULL, 4096, 64);
	pthread_t threads[2];
	struct got got;
	int full = 0;

	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 2; i++)
		EQUAL(pthread_create(&threads[i], NULL, emit_without_end, &event), 0);
	for (int i = 0; i < 200000 || full < 20; i++) {
		struct posix_trace_status_info status = status_of(trid);

		EXPECT(status.posix_stream_status == POSIX_TRACE_SUSPENDED ||
		       status.posix_stream_full_status == POSIX_TRACE_NOT_FULL);
		full += status.posix_stream_full_status == POSIX_TRACE_FULL;
		/* Emptied from time to time, so that it goes on. */
		if (i % 16 == 0)
			while (take(trid, &got) && got.info.posix_event_id != POSIX_TRACE_STOP)
				;
	}
	status_end = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	EQUAL(posix_trace_shutdown(trid), 0);
}
#endif
