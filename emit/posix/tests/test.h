/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * test.h: tests of libkymo-posix against sentences of the standard. TEST(section, name, sentence)
 * is a function that runs in a process of its own, for at most five minutes; `conformance --list`
 * prints the table in spec/posix-conformance.md. Sections are those of IEEE 1003.1-2017, 2.11 and
 * the functions' pages.
 */
#ifndef KYMO_POSIX_TEST_H
#define KYMO_POSIX_TEST_H

#include <trace.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct test {
	const char *page, *name, *sentence, *file;
	void (*run)(void);
	struct test *next;
};
void test_add(struct test *test);

#define TEST(page_, name_, sentence_)                                                              \
	static void test_##name_(void);                                                            \
	static __attribute__((constructor)) void test_add_##name_(void)                            \
	{                                                                                          \
		static struct test test = { page_, #name_, sentence_, __FILE__, test_##name_, NULL }; \
		test_add(&test);                                                                   \
	}                                                                                          \
	static void test_##name_(void)

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("  %s:%d: not so: %s\n", __FILE__, __LINE__, #cond);                \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define EQUAL(a, b)                                                                                \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_) {                                                                    \
			printf("  %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, a_, b_); \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* An event that was read, with the begin of its data. */
struct got {
	struct posix_trace_event_info info;
	unsigned char data[20000];
	size_t bytes;
	int unavailable;
};

static inline int number_of(const struct got *got)
{
	int number;

	memcpy(&number, got->data, sizeof(number));
	return number;
}

#if KYMO_POSIX_ONLINE
/* Attributes with a policy and sizes; 0: as they are. */
static inline trace_attr_t attr_with(int policy, size_t stream_bytes, size_t data_bytes)
{
	trace_attr_t attr;

	EQUAL(posix_trace_attr_init(&attr), 0);
	if (policy)
		EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, policy), 0);
	if (stream_bytes)
		EQUAL(posix_trace_attr_setstreamsize(&attr, stream_bytes), 0);
	if (data_bytes)
		EQUAL(posix_trace_attr_setmaxdatasize(&attr, data_bytes), 0);
	return attr;
}

static inline trace_id_t stream_with(int policy, size_t stream_bytes, size_t data_bytes)
{
	trace_attr_t attr = attr_with(policy, stream_bytes, data_bytes);
	trace_id_t trid;

	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	return trid;
}

/* Whether there was an event. */
static inline bool take(trace_id_t trid, struct got *got)
{
	EQUAL(posix_trace_trygetnext_event(trid, &got->info, got->data, sizeof(got->data), &got->bytes,
					   &got->unavailable), 0);
	return !got->unavailable;
}

/* The next event that is not of the system. */
static inline bool take_user(trace_id_t trid, struct got *got)
{
	while (take(trid, got))
		if (got->info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT)
			return true;
	return false;
}
#endif

#if KYMO_POSIX_USER_EVENTS
static inline trace_event_id_t event_named(const char *name)
{
	trace_event_id_t event;

	EQUAL(posix_trace_eventid_open(name, &event), 0);
	return event;
}

static inline void emit_number(trace_event_id_t event, int number)
{
	posix_trace_event(event, &number, sizeof(number));
}
#endif

static inline struct posix_trace_status_info status_of(trace_id_t trid)
{
	struct posix_trace_status_info status;

	EQUAL(posix_trace_get_status(trid, &status), 0);
	return status;
}

/* Waits for a child, which must have ended well. */
static inline void join(pid_t child)
{
	int status;

	EQUAL(waitpid(child, &status, 0), child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
