/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* event.c: event types, events, and reading them from a stream without a log. */
#define _GNU_SOURCE
#include "test.h"

#include <stdint.h>
#include <sys/time.h>

#include <pthread.h>
#include <signal.h>

#if KYMO_POSIX_USER_EVENTS
TEST("eventid_open", same_name_same_id, "a name has one id in a process; another name has another")
{
	trace_event_id_t a = event_named("a"), b = event_named("b");

	EQUAL(event_named("a"), a);
	EXPECT(!posix_trace_eventid_equal(0, a, b));
	EXPECT(posix_trace_eventid_equal(0, a, a));
}

TEST("eventid_open", name_too_long,
	"ENAMETOOLONG: more than TRACE_EVENT_NAME_MAX bytes; so many are good")
{
	char name[TRACE_EVENT_NAME_MAX + 2];
	trace_event_id_t event;

	memset(name, 'x', sizeof(name));
	name[TRACE_EVENT_NAME_MAX + 1] = 0;
	EQUAL(posix_trace_eventid_open(name, &event), ENAMETOOLONG);
	name[TRACE_EVENT_NAME_MAX] = 0;
	EQUAL(posix_trace_eventid_open(name, &event), 0);
}

TEST("eventid_open", too_many_names,
	"past TRACE_USER_EVENT_MAX names the id is that of the unnamed event")
{
	char name[32];

	for (int i = 0; i < TRACE_USER_EVENT_MAX - 1; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		EXPECT(event_named(name) != POSIX_TRACE_UNNAMED_USEREVENT);
	}
	EQUAL(event_named("one more"), POSIX_TRACE_UNNAMED_USEREVENT);
	EXPECT(event_named("n3") != POSIX_TRACE_UNNAMED_USEREVENT);
}
#endif

#if KYMO_POSIX_ONLINE
TEST("eventid_get_name", predefined_names, "the predefined types have the standard's names")
{
	static const struct {
		trace_event_id_t event;
		const char *name;
	} all[] = {
		{ POSIX_TRACE_ERROR, "posix_trace_error" },
		{ POSIX_TRACE_START, "posix_trace_start" },
		{ POSIX_TRACE_STOP, "posix_trace_stop" },
		{ POSIX_TRACE_OVERFLOW, "posix_trace_overflow" },
		{ POSIX_TRACE_RESUME, "posix_trace_resume" },
#if KYMO_POSIX_FILTER
		{ POSIX_TRACE_FILTER, "posix_trace_filter" },
#endif
#if KYMO_POSIX_LOG
		{ POSIX_TRACE_FLUSH_START, "posix_trace_flush_start" },
		{ POSIX_TRACE_FLUSH_STOP, "posix_trace_flush_stop" },
#endif
		{ POSIX_TRACE_UNNAMED_USEREVENT, "posix_trace_unnamed_userevent" },
	};
	trace_id_t trid = stream_with(0, 0, 0);
	char name[TRACE_EVENT_NAME_MAX + 1];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		EQUAL(posix_trace_eventid_get_name(trid, all[i].event, name), 0);
		EXPECT(!strcmp(name, all[i].name));
	}
	EQUAL(posix_trace_eventid_get_name(trid, 15, name), EINVAL);
	EQUAL(posix_trace_eventid_get_name(trid, 0x7fffffff, name), EINVAL);
}

TEST("eventtypelist_getnext_id", type_list,
	"the list has each type once, predefined and opened ones; rewind begins again; each "
	"stream has its place")
{
	trace_id_t trid = stream_with(0, 0, 0);
	trace_event_id_t event, first;
	bool seen[2000] = { false };
	int unavailable, count = 0;

	EQUAL(posix_trace_eventtypelist_getnext_id(trid, &first, &unavailable), 0);
	EQUAL(unavailable, 0);
	EQUAL(posix_trace_eventtypelist_rewind(trid), 0);
	for (;;) {
		EQUAL(posix_trace_eventtypelist_getnext_id(trid, &event, &unavailable), 0);
		if (unavailable)
			break;
		EXPECT(event < 2000 && !seen[event]);
		seen[event] = true;
		count++;
	}
	EXPECT(seen[POSIX_TRACE_START] && seen[POSIX_TRACE_STOP] && seen[POSIX_TRACE_ERROR] &&
	       seen[POSIX_TRACE_UNNAMED_USEREVENT]);
#if KYMO_POSIX_USER_EVENTS
	EXPECT(!seen[event_named("later")]);
#endif
	if (TRACE_SYS_MAX > 1) {
		trace_id_t other = stream_with(0, 0, 0);

		EQUAL(posix_trace_eventtypelist_getnext_id(other, &event, &unavailable), 0);
		EQUAL(event, first);
	}
}
#endif

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS
static __attribute__((noinline)) void emit_here(trace_event_id_t event)
{
	static const int number = 5;

	posix_trace_event(event, &number, sizeof(number));
	__asm__ __volatile__(""); /* not by a jump */
}

TEST("event", event_info, "a record has id, process, thread, time, address, data and their length")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);
	struct timespec before, after;
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	clock_gettime(CLOCK_REALTIME, &before);
	emit_here(event);
	clock_gettime(CLOCK_REALTIME, &after);
	EXPECT(take_user(trid, &got));
	EQUAL(got.info.posix_event_id, event);
	EQUAL(got.info.posix_pid, getpid());
	EXPECT(pthread_equal(got.info.posix_thread_id, pthread_self()));
	EXPECT((uintptr_t)got.info.posix_prog_address > (uintptr_t)emit_here &&
	       (uintptr_t)got.info.posix_prog_address < (uintptr_t)emit_here + 100);
	EQUAL(got.info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
	EQUAL(got.bytes, sizeof(int));
	EQUAL(number_of(&got), 5);
	/* A millisecond for what lies between two clocks. */
	EXPECT(got.info.posix_timestamp.tv_sec >= before.tv_sec - 1 &&
	       got.info.posix_timestamp.tv_sec <= after.tv_sec + 1);
	EXPECT((got.info.posix_timestamp.tv_sec - before.tv_sec) * 1000000000ll +
		       got.info.posix_timestamp.tv_nsec - before.tv_nsec > -1000000);
	EXPECT((after.tv_sec - got.info.posix_timestamp.tv_sec) * 1000000000ll +
		       after.tv_nsec - got.info.posix_timestamp.tv_nsec > -1000000);
}

TEST("event", event_no_data, "no data is data of length 0, also from a null pointer")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	posix_trace_event(event, NULL, 0);
	EXPECT(take_user(trid, &got));
	EQUAL(got.bytes, 0);
	EQUAL(got.info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
}

TEST("event", event_lengths, "data of any length up to max-data-size come back as they were")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 700);
	unsigned char data[700];
	struct got got;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + 1);
	EQUAL(posix_trace_start(trid), 0);
	for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
		posix_trace_event(event, data, bytes);
		EXPECT(take_user(trid, &got));
		EQUAL(got.bytes, bytes);
		EXPECT(!memcmp(got.data, data, bytes));
		EQUAL(got.info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
	}
}

TEST("event", event_truncated,
	"longer data are cut to max-data-size, and the record says TRUNCATED_RECORD")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 10);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	posix_trace_event(event, "0123456789", 10);
	posix_trace_event(event, "0123456789a", 11);
	posix_trace_event(event, "0123", 4);
	EXPECT(take_user(trid, &got));
	EQUAL(got.info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
	EXPECT(take_user(trid, &got));
	EQUAL(got.info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
	EQUAL(got.bytes, 10);
	EXPECT(!memcmp(got.data, "0123456789", 10));
	EXPECT(take_user(trid, &got));
	EQUAL(got.bytes, 4);
}

TEST("getnext_event", read_truncated,
	"a buffer that is too small gets what fits, TRUNCATED_READ wins, the rest is lost")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 10);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	posix_trace_event(event, "0123456789abc", 13);
	posix_trace_event(event, "xy", 2);
	do
		EQUAL(posix_trace_trygetnext_event(trid, &got.info, got.data, 3, &got.bytes,
						   &got.unavailable), 0);
	while (got.info.posix_event_id != event);
	EQUAL(got.bytes, 3);
	EQUAL(got.info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
	EXPECT(take(trid, &got));
	EQUAL(got.bytes, 2);
}

TEST("event", unnamed_event, "the unnamed event can be recorded")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	emit_number(POSIX_TRACE_UNNAMED_USEREVENT, 3);
	EXPECT(take_user(trid, &got));
	EQUAL(got.info.posix_event_id, POSIX_TRACE_UNNAMED_USEREVENT);
}

TEST("event", event_before_streams,
	"ids opened before a stream was made are good in it, and in later ones")
{
	trace_event_id_t event = event_named("early");
	struct got got;

	for (int i = 0; i < 20; i++) {
		trace_id_t trid = stream_with(0, 0, 0);

		EQUAL(posix_trace_start(trid), 0);
		emit_number(event, i);
		EXPECT(take_user(trid, &got));
		EQUAL(number_of(&got), i);
		EQUAL(posix_trace_shutdown(trid), 0);
	}
}

#if KYMO_POSIX_STREAMS >= 8
TEST("event", eight_streams, "eight streams at a time each get every event, and each event once")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trids[8];
	struct got got;

	for (int i = 0; i < 8; i++) {
		trids[i] = stream_with(0, 0, 0);
		EQUAL(posix_trace_start(trids[i]), 0);
	}
	for (int n = 0; n < 100; n++)
		emit_number(event, n);
	for (int i = 0; i < 8; i++) {
		for (int n = 0; n < 100; n++) {
			EXPECT(take_user(trids[i], &got));
			EQUAL(number_of(&got), n);
		}
		EXPECT(!take_user(trids[i], &got));
	}
}
#endif

TEST("trygetnext_event", try_empty,
	"nothing there: unavailable is set, the function succeeds at once")
{
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EXPECT(!take(trid, &got));
	EXPECT(got.unavailable != 0);
}

static trace_id_t shared_trid;
static trace_event_id_t shared_event;

static void *emit_later(void *nothing)
{
	usleep(30000);
	emit_number(shared_event, 42);
	return nothing;
}

TEST("getnext_event", blocks, "on an empty stream it waits for an event")
{
	pthread_t thread;
	struct got got;

	shared_event = event_named("e");
	shared_trid = stream_with(0, 0, 0);
	EQUAL(posix_trace_start(shared_trid), 0);
	while (take(shared_trid, &got))
		;
	EQUAL(pthread_create(&thread, NULL, emit_later, NULL), 0);
	EQUAL(posix_trace_getnext_event(shared_trid, &got.info, got.data, sizeof(got.data), &got.bytes,
					&got.unavailable), 0);
	EQUAL(got.unavailable, 0);
	EQUAL(number_of(&got), 42);
	pthread_join(thread, NULL);
}

static void *wait_and_be_refused(void *nothing)
{
	static struct got got;

	EQUAL(posix_trace_getnext_event(shared_trid, &got.info, got.data, 4, &got.bytes,
					&got.unavailable), EINVAL);
	return nothing;
}

TEST("shutdown", shutdown_wakes, "who waits in getnext is woken with EINVAL")
{
	pthread_t thread;

	shared_trid = stream_with(0, 0, 0);
	EQUAL(pthread_create(&thread, NULL, wait_and_be_refused, NULL), 0);
	usleep(20000);
	EQUAL(posix_trace_shutdown(shared_trid), 0);
	pthread_join(thread, NULL);
}

static volatile int handler_runs;

static void handle(int signal)
{
	(void)signal;
	handler_runs++;
}

TEST("getnext_event", interrupted, "EINTR: a signal handler ran while it waited")
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;
	pid_t child;

	EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 20; i++) {
		/* Again and again: the first may come before we wait. */
		child = fork();
		if (!child)
			for (;;) {
				usleep(3000);
				kill(getppid(), SIGUSR1);
			}
		EQUAL(posix_trace_getnext_event(trid, &got.info, got.data, 4, &got.bytes,
						&got.unavailable), EINTR);
		EXPECT(handler_runs > 0);
		kill(child, SIGKILL);
		EQUAL(waitpid(child, NULL, 0), child);
	}
}

static struct timespec from_now_ms(long ms)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += ms * 1000000;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

static int timed(trace_id_t trid, struct got *got, const struct timespec *until)
{
	return posix_trace_timedgetnext_event(trid, &got->info, got->data, sizeof(got->data),
					      &got->bytes, &got->unavailable, until);
}

TEST("timedgetnext_event", timed_out, "ETIMEDOUT: nothing came until then, and not before then")
{
	struct timespec until = from_now_ms(30), now;
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(timed(trid, &got, &until), ETIMEDOUT);
	clock_gettime(CLOCK_REALTIME, &now);
	EXPECT(now.tv_sec > until.tv_sec ||
	       (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
}

static void wake(int signal)
{
	(void)signal;
}

TEST("timedgetnext_event", timed_far,
	"a time in centuries is waited for, one before 1970 has passed; nothing overflows")
{
	long long far[] = { 18446744072LL, 18446744074LL, 20000000000LL, 300000000000LL, INT64_MAX };
	long long past[] = { 0, -1, -20000000000LL, INT64_MIN };
	struct sigaction action = { .sa_handler = wake };
	struct itimerval soon = { { 0, 20000 }, { 0, 20000 } };
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(sigaction(SIGALRM, &action, NULL), 0);
	EQUAL(setitimer(ITIMER_REAL, &soon, NULL), 0);
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		for (long ns = 0; ns <= 999999999; ns += 999999999)
			EQUAL(timed(trid, &got, &(struct timespec){ far[i], ns }), EINTR);
	for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++)
		EQUAL(timed(trid, &got, &(struct timespec){ past[i], 999999999 }), ETIMEDOUT);
	EQUAL(timed(trid, &got, &(struct timespec){ INT64_MAX, 1000000000 }), EINVAL);
	EQUAL(timed(trid, &got, &(struct timespec){ INT64_MIN, -1 }), EINVAL);
}

TEST("timedgetnext_event", timed_available,
	"with an event there it never times out, whatever the time says")
{
	struct timespec past = { 1, 0 }, wrong = { 1, 1000000000 };
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_with(0, 0, 0);
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	while (take(trid, &got))
		;
	emit_number(event, 1);
	EQUAL(timed(trid, &got, &past), 0);
	emit_number(event, 2);
	EQUAL(timed(trid, &got, &wrong), 0);
	EQUAL(number_of(&got), 2);
	EQUAL(timed(trid, &got, &past), ETIMEDOUT);
	EQUAL(timed(trid, &got, &wrong), EINVAL);
}

/* Each thread counts; a thread's own events come in their order. */
#define THREADS 4
#define EACH 5000

struct from_thread {
	int thread, number;
};

static void *emit_many(void *number)
{
	struct from_thread data = { (int)(intptr_t)number, 0 };

	for (; data.number < EACH; data.number++)
		posix_trace_event(shared_event, &data, sizeof(data));
	return NULL;
}

TEST("event", lossless,
	"a set of events whose sizes fit the stream's size loses none, whatever threads "
	"record them")
{
	size_t one, stream_bytes;
	int expected[THREADS] = { 0 };
	struct from_thread data;
	pthread_t threads[THREADS];
	trace_attr_t attr;
	struct timespec last = { 0, 0 };
	struct got got;
	int count = 0;

	shared_event = event_named("e");
	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL), 0);
	EQUAL(posix_trace_attr_getmaxusereventsize(&attr, sizeof(data), &one), 0);
	stream_bytes = one * (THREADS * EACH + 10);
	EQUAL(posix_trace_attr_setstreamsize(&attr, stream_bytes), 0);
	EQUAL(posix_trace_create(0, &attr, &shared_trid), 0);
	EQUAL(posix_trace_start(shared_trid), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		EQUAL(pthread_create(&threads[i], NULL, emit_many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EQUAL(status_of(shared_trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	while (take_user(shared_trid, &got)) {
		memcpy(&data, got.data, sizeof(data));
		EQUAL(data.number, expected[data.thread]);
		expected[data.thread]++;
		EXPECT(got.info.posix_timestamp.tv_sec > last.tv_sec ||
		       (got.info.posix_timestamp.tv_sec == last.tv_sec &&
			got.info.posix_timestamp.tv_nsec >= last.tv_nsec));
		last = got.info.posix_timestamp;
		count++;
	}
	EQUAL(count, THREADS * EACH);
}

static volatile sig_atomic_t alarms;

static void emit_in_handler(int signal)
{
	int number = 1000000 + alarms++;

	(void)signal;
	posix_trace_event(shared_event, &number, sizeof(number));
}

TEST("event", in_signal_handler,
	"it may be called in a signal handler, also one that interrupts it")
{
	struct sigaction action = { .sa_handler = emit_in_handler, .sa_flags = SA_RESTART };
	struct sigevent when = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec every = { { 0, 100000 }, { 0, 100000 } }, never = { { 0, 0 }, { 0, 0 } };
	int next = 0, from_handler = 0;
	struct got got;
	timer_t timer;

	shared_event = event_named("e");
	shared_trid = stream_with(POSIX_TRACE_UNTIL_FULL, 32u << 20, 0);
	EQUAL(posix_trace_start(shared_trid), 0);
	EQUAL(sigaction(SIGRTMIN, &action, NULL), 0);
	EQUAL(timer_create(CLOCK_MONOTONIC, &when, &timer), 0);
	EQUAL(timer_settime(timer, 0, &every, NULL), 0);
	for (int i = 0; i < 100000; i++)
		emit_number(shared_event, i);
	EQUAL(timer_settime(timer, 0, &never, NULL), 0);
	timer_delete(timer);
	while (take_user(shared_trid, &got)) {
		if (number_of(&got) >= 1000000) {
			EQUAL(number_of(&got), 1000000 + from_handler);
			from_handler++;
		} else {
			EQUAL(number_of(&got), next);
			next++;
		}
	}
	EQUAL(next, 100000);
	EQUAL(from_handler, alarms);
	EXPECT(alarms > 0);
}
#endif
