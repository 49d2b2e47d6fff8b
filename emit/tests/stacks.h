/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stacks.h: what tests of call stacks share: frames to look from, threads, coroutines, signal handlers, and
 * the tables, which the test makes itself in place of the helper thread.
 */
#ifndef KYMO_TEST_STACKS_H
#define KYMO_TEST_STACKS_H

#include "local.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "../src/unwind.h"

#ifdef __clang__
#define NEVER_INLINE __attribute__((noinline))
#else
#define NEVER_INLINE __attribute__((noinline, noclone))
#endif
#define UNUSED __attribute__((unused))
#define STACK_BYTES (256u << 10)
/* Something behind a call, so that it is one. */
#define BEHIND __asm__ __volatile__("" ::: "memory")

typedef void leaf(void);

static uint64_t random_state = 88172645463325252ull;
static inline uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* On memory of which nothing is known. */
static UNUSED NEVER_INLINE void look_at_one(void)
{
	uint64_t ours[KYMO_STACK_MAX];
	uint32_t count = kymo_callstack(kymo_self(), __builtin_frame_address(0), ours);

	CHECK(count == 1, "%u frames on a stack of which nothing is known", count);
	BEHIND;
}

static UNUSED NEVER_INLINE void plain(leaf *inner)
{
	inner();
	BEHIND;
}

static UNUSED NEVER_INLINE void deep(leaf *inner, int depth)
{
	if (depth)
		deep(inner, depth - 1);
	else
		inner();
	BEHIND;
}

static leaf *in_callback;

static inline int by_value(const void *one, const void *other)
{
	if (in_callback)
		in_callback();
	BEHIND;
	return *(const int *)one - *(const int *)other;
}

static UNUSED NEVER_INLINE void from_libc(leaf *inner)
{
	int values[] = { 3, 1, 2 };

	in_callback = inner;
	qsort(values, 3, sizeof(values[0]), by_value);
	in_callback = NULL;
	BEHIND;
}

static inline void set_handler(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	CHECK(!sigaction(number, &action, NULL), "sigaction");
}

static ucontext_t before, coroutine;
static leaf *in_coroutine;

static inline void coroutine_begins(void)
{
	plain(in_coroutine);
	BEHIND;
}

static inline void run_coroutine(void *space, size_t bytes, leaf *inner)
{
	in_coroutine = inner;
	CHECK(!getcontext(&coroutine), "getcontext");
	coroutine.uc_stack.ss_sp = space;
	coroutine.uc_stack.ss_size = bytes;
	coroutine.uc_link = &before;
	makecontext(&coroutine, coroutine_begins, 0);
	CHECK(!swapcontext(&before, &coroutine), "swapcontext");
}

static inline void *thread_begins(void *inner)
{
	((leaf *)(uintptr_t)inner)();
	BEHIND;
	return NULL;
}

static inline void run_thread(const pthread_attr_t *attr, leaf *inner)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, attr, thread_begins, (void *)(uintptr_t)inner), "pthread_create");
	pthread_join(thread, NULL);
}

static inline void make_tables(void)
{
	kymo_lock();
	kymo_unwind_begin();
	kymo_unwind_prepare(60000000000ll);
	kymo_unlock();
	CHECK(kymo_unwind_set, "there are tables");
}

#endif
