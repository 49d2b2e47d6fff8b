/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * native.c: libkymo-posix without an operating system, run on one: signals are the interrupts, a
 * file is the line. A task and handlers that interrupt it, and each other, record numbers.
 *     native log FILE EVENTS SEED      frames into FILE; what was recorded on standard output
 *     native online EVENTS SEED        read in the program, and checked
 *     native api                       what the functions say
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define KYMO_POSIX_SYSTEM_TYPES
#include <kymo/posix/errors.h>
#include <kymo/target.h>
#include <trace.h>

#define WRITERS 5 /* the task, and handlers by depth */
#define CHECK(what) ((what) ? (void)0 : fail(#what, __LINE__))

const uint32_t kymo_target_hz = 1000000000;
static volatile sig_atomic_t depth;
static trace_event_id_t events[WRITERS];
static uint32_t next_number[WRITERS];
static unsigned long in_clock;
static long budget;
static volatile bool is_looking;
static unsigned long got;
static uint32_t seen[WRITERS];
static bool nests;
static uint64_t seed = 1;
static int line_file = -1;
static trace_id_t stream;

static void fail(const char *what, int line)
{
	fprintf(stderr, "native.c:%d: %s\n", line, what);
	_exit(1);
}

static uint32_t any(uint32_t below)
{
	uint64_t now = __atomic_add_fetch(&seed, 0x9e3779b97f4a7c15, __ATOMIC_RELAXED);

	now = (now ^ now >> 30) * 0xbf58476d1ce4e5b9;
	now = (now ^ now >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((now ^ now >> 31) % below);
}

/* A number of this writer's, with as many more bytes as it says. */
static void record_one(unsigned writer)
{
	uint32_t data[12], count = 1 + any(12);

	if (__atomic_sub_fetch(&budget, 1, __ATOMIC_RELAXED) < 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		data[i] = next_number[writer] + i;
	next_number[writer]++;
	posix_trace_event(events[writer], data, 4 * count - any(4) * (count > 1));
}

static unsigned long read_all(void);

/* One reader at a time: of the program, or the line's. */
static void look(void)
{
	if (is_looking)
		return;
	is_looking = true;
	if (line_file < 0)
		got += read_all();
	else
		kymo_target_idle();
	is_looking = false;
}

/* An interrupt, which others may interrupt. */
static void interrupt(void)
{
	if (depth >= WRITERS - 1)
		return;
	depth++;
	record_one((unsigned)depth);
	depth--;
}

static void on_signal(int signal)
{
	(void)signal;
	interrupt();
}

/* An interrupt also comes here: between what a writer has looked at and what it makes of it. */
uint64_t kymo_target_clock(void)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (nests && !any(3)) {
		in_clock++;
		interrupt();
	}
	return ns;
}

/*
 * Asked for inside of a record: others come in between, and now and then the one who reads, as where
 * tasks are switched. What is not whole yet must not be seen then.
 */
uint32_t kymo_target_thread(void)
{
	uint32_t writer = (uint32_t)depth;

	if (nests && !any(4))
		interrupt();
	if (nests && !any(16))
		look();
	return writer;
}

uint32_t kymo_target_boot(void)
{
	return 77;
}

/* A line with as much room as it likes. */
size_t kymo_target_write(const void *bytes, size_t count)
{
	size_t room = any(8) ? any(100) : 0;

	if (line_file < 0)
		return count;
	if (room > count)
		room = count;
	CHECK(write(line_file, bytes, room) == (ssize_t)room);
	return room;
}

static void interrupts(bool are_on)
{
	struct itimerval often = { { 0, are_on ? 61 : 0 }, { 0, are_on ? 61 : 0 } };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_NODEFER | SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	nests = are_on;
	setitimer(ITIMER_REAL, &often, NULL);
}

static void open_events(void)
{
	static const char *const names[WRITERS] = { "task", "irq 1", "irq 2", "irq 3", "irq 4" };

	for (unsigned i = 0; i < WRITERS; i++)
		CHECK(!posix_trace_eventid_open(names[i], &events[i]));
}

static void make_attr(trace_attr_t *attr, int policy)
{
	CHECK(!posix_trace_attr_init(attr));
	CHECK(!posix_trace_attr_setname(attr, "native"));
	CHECK(!posix_trace_attr_setmaxdatasize(attr, 40));
	CHECK(!posix_trace_attr_setstreamfullpolicy(attr, policy));
}

static void run_log(const char *path, unsigned long count)
{
	trace_attr_t attr;

	line_file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	CHECK(line_file >= 0);
	make_attr(&attr, any(2) ? POSIX_TRACE_LOOP : POSIX_TRACE_FLUSH);
	CHECK(!posix_trace_create_withlog(0, &attr, 1, &stream));
	open_events();
	CHECK(!posix_trace_start(stream));
	budget = (long)count;
	interrupts(true);
	while (budget > 0) {
		record_one(0);
		if (!any(20))
			look();
		if (!any(5000))
			kymo_target_asked('h');
	}
	interrupts(false);
	CHECK(!posix_trace_shutdown(stream));
	for (unsigned i = 0; i < WRITERS; i++)
		printf("%u\n", next_number[i]);
}

/* Each writer's numbers come in order, with the bytes that belong to them. */
static unsigned long read_all(void)
{
	struct posix_trace_event_info event;
	unsigned long user = 0;
	uint32_t data[16];
	size_t bytes;
	int unavailable;
	static struct timespec before;

	for (;;) {
		CHECK(!posix_trace_trygetnext_event(stream, &event, data, sizeof(data), &bytes,
						    &unavailable));
		if (unavailable)
			return user;
		CHECK(event.posix_timestamp.tv_sec > before.tv_sec ||
		      (event.posix_timestamp.tv_sec == before.tv_sec &&
		       event.posix_timestamp.tv_nsec >= before.tv_nsec));
		before = event.posix_timestamp;
		for (unsigned writer = 0; writer < WRITERS; writer++) {
			if (event.posix_event_id != events[writer])
				continue;
			user++;
			CHECK(event.posix_thread_id == writer);
			CHECK(data[0] >= seen[writer]);
			seen[writer] = data[0] + 1;
			CHECK(bytes >= 4 && bytes <= 40);
			for (uint32_t i = 1; i < bytes / 4; i++)
				CHECK(data[i] == data[0] + i);
		}
	}
}

static void run_online(unsigned long count, int policy)
{
	unsigned long sent = 0;
	trace_attr_t attr;

	got = 0;
	memset(seen, 0, sizeof(seen));
	memset(next_number, 0, sizeof(next_number));
	make_attr(&attr, policy);
	CHECK(!posix_trace_create(0, &attr, &stream));
	open_events();
	CHECK(!posix_trace_start(stream));
	budget = (long)count;
	interrupts(true);
	while (budget > 0) {
		record_one(0);
		if (!any(30))
			look();
	}
	interrupts(false);
	look();
	CHECK(!posix_trace_shutdown(stream));
	for (unsigned i = 0; i < WRITERS; i++)
		sent += next_number[i];
	CHECK(sent == count && got <= sent && got > sent / 10);
	printf("policy %d: %lu of %lu were read, %lu interrupts in the clock\n", policy, got, sent, in_clock);
}

static void check_filter(void)
{
	trace_event_set_t set;
	struct posix_trace_event_info event;
	uint32_t data[16];
	size_t bytes;
	int unavailable;

	CHECK(!posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS));
	CHECK(!posix_trace_eventset_add(events[1], &set));
	CHECK(!posix_trace_set_filter(stream, &set, POSIX_TRACE_SET_EVENTSET));
	CHECK(!posix_trace_start(stream));
	posix_trace_event(events[1], "no", 2);
	posix_trace_event(events[0], "four", 4);
	for (;;) {
		CHECK(!posix_trace_getnext_event(stream, &event, data, sizeof(data), &bytes, &unavailable));
		if (event.posix_event_id == events[0])
			break;
		CHECK(event.posix_event_id < 16);
	}
	CHECK(bytes == 4 && !memcmp(data, "four", 4) && event.posix_pid == 1);
	CHECK(!posix_trace_trygetnext_event(stream, &event, data, sizeof(data), &bytes, &unavailable));
	CHECK(unavailable);
}

/* All that a stream promises to hold is there, and then it stops. */
static void check_full(void)
{
	struct posix_trace_status_info status;
	struct posix_trace_event_info event;
	trace_attr_t attr;
	size_t stream_bytes, event_bytes, bytes;
	uint32_t data[16], got = 0, room;
	int unavailable;

	make_attr(&attr, POSIX_TRACE_UNTIL_FULL);
	CHECK(!posix_trace_create(0, &attr, &stream));
	CHECK(!posix_trace_get_attr(stream, &attr));
	CHECK(!posix_trace_attr_getstreamsize(&attr, &stream_bytes));
	CHECK(!posix_trace_attr_getmaxusereventsize(&attr, 7, &event_bytes));
	room = (uint32_t)((stream_bytes - 2 * event_bytes) / event_bytes);
	CHECK(!posix_trace_start(stream));
	for (uint32_t i = 0; i < room; i++)
		posix_trace_event(events[0], "seven b", 7);
	CHECK(!posix_trace_get_status(stream, &status));
	CHECK(status.posix_stream_status == POSIX_TRACE_RUNNING);
	CHECK(status.posix_stream_overrun_status == POSIX_TRACE_NO_OVERRUN);
	for (uint32_t i = 0; i < room; i++)
		posix_trace_event(events[0], "too much", 8);
	CHECK(!posix_trace_get_status(stream, &status));
	CHECK(status.posix_stream_status == POSIX_TRACE_SUSPENDED);
	CHECK(status.posix_stream_full_status == POSIX_TRACE_FULL);
	CHECK(status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
	while (!posix_trace_trygetnext_event(stream, &event, data, sizeof(data), &bytes, &unavailable) &&
	       !unavailable)
		got += event.posix_event_id == events[0] && bytes == 7 && !memcmp(data, "seven b", 7);
	CHECK(got == room);
	CHECK(!posix_trace_get_status(stream, &status));
	CHECK(status.posix_stream_status == POSIX_TRACE_RUNNING);
	CHECK(!posix_trace_shutdown(stream));
}

static void run_api(void)
{
	char name[TRACE_EVENT_NAME_MAX + 1];
	struct timespec past = { 1, 0 };
	struct posix_trace_event_info event;
	trace_event_id_t id;
	trace_attr_t attr;
	trace_id_t other;
	size_t bytes;
	int unavailable, count = 0;

	open_events();
	posix_trace_event(events[0], "nobody listens", 14);
	make_attr(&attr, POSIX_TRACE_LOOP);
	CHECK(posix_trace_create(2, &attr, &stream) == ESRCH);
	CHECK(!posix_trace_create(1, &attr, &stream));
	CHECK(posix_trace_create(0, &attr, &other) == EAGAIN);
	CHECK(posix_trace_flush(stream) == EINVAL);
	CHECK(posix_trace_timedgetnext_event(stream, &event, NULL, 0, &bytes, &unavailable, &past) ==
	      ETIMEDOUT);
	check_filter();
	while (!posix_trace_eventtypelist_getnext_id(stream, &id, &unavailable) && !unavailable) {
		CHECK(!posix_trace_eventid_get_name(stream, id, name));
		count++;
	}
	CHECK(count == 8 + 1 + WRITERS && !strcmp(name, "irq 4"));
	CHECK(!posix_trace_eventid_get_name(stream, POSIX_TRACE_FLUSH_STOP, name));
	CHECK(!strcmp(name, "posix_trace_flush_stop"));
	CHECK(!posix_trace_eventid_get_name(stream, POSIX_TRACE_UNNAMED_USEREVENT, name));
	CHECK(!strcmp(name, "posix_trace_unnamed_userevent"));
	CHECK(!posix_trace_shutdown(stream));
	CHECK(posix_trace_start(stream) == EINVAL);
	CHECK(!posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_LOOP));
	CHECK(posix_trace_create_withlog(0, &attr, 1, &stream) == EINVAL);
	CHECK(!posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
	CHECK(posix_trace_create_withlog(0, &attr, -1, &stream) == EBADF);
	check_full();
	printf("ok\n");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "api")) {
		run_api();
	} else if (argc == 5 && !strcmp(argv[1], "log")) {
		seed = strtoull(argv[4], NULL, 10);
		run_log(argv[2], strtoul(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "online")) {
		seed = strtoull(argv[3], NULL, 10);
		run_online(strtoul(argv[2], NULL, 10), POSIX_TRACE_LOOP);
		run_online(strtoul(argv[2], NULL, 10), POSIX_TRACE_UNTIL_FULL);
	} else {
		fprintf(stderr, "usage: native api | log FILE EVENTS SEED | online EVENTS SEED\n");
		return 2;
	}
	return 0;
}
