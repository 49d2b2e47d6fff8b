/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * locks.c: victim: every lock function of pthread.c, each kind of mutex, and the results that tell the kinds apart.
 * Its time-outs are 20 ms, so that its trace can be judged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct timespec in_20_ms(clockid_t clock)
{
	struct timespec at;

	clock_gettime(clock, &at);
	at.tv_nsec += 20000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

static void in_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, function, argument));
	CHECK(!pthread_join(thread, NULL));
}

static void *on_a_held_mutex(void *mutex)
{
	struct timespec until = in_20_ms(CLOCK_REALTIME);

	CHECK(pthread_mutex_trylock(mutex) == EBUSY);
	CHECK(pthread_mutex_timedlock(mutex, &until) == ETIMEDOUT);
	until = in_20_ms(CLOCK_MONOTONIC);
	CHECK(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
	return NULL;
}

static void plain(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec until = in_20_ms(CLOCK_REALTIME), wrong = { 0, 1000000001 };

	CHECK(!pthread_mutex_lock(&mutex));
	in_thread(on_a_held_mutex, &mutex);
	CHECK(pthread_mutex_timedlock(&mutex, &wrong) == EINVAL);
	CHECK(!pthread_mutex_unlock(&mutex));
	CHECK(!pthread_mutex_trylock(&mutex) && !pthread_mutex_unlock(&mutex));
	CHECK(!pthread_mutex_timedlock(&mutex, &until) && !pthread_mutex_unlock(&mutex));
	CHECK(!pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &until));
	CHECK(!pthread_mutex_unlock(&mutex) && !pthread_mutex_destroy(&mutex));
}

static void make(pthread_mutex_t *mutex, int type, int protocol, int robust)
{
	pthread_mutexattr_t attr;

	CHECK(!pthread_mutexattr_init(&attr) && !pthread_mutexattr_settype(&attr, type));
	CHECK(!pthread_mutexattr_setprotocol(&attr, protocol));
	CHECK(!pthread_mutexattr_setrobust(&attr, robust));
	CHECK(!pthread_mutex_init(mutex, &attr));
}

static void error_checking_and_recursive(void)
{
	pthread_mutex_t mutex;

	make(&mutex, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	CHECK(pthread_mutex_unlock(&mutex) == EPERM);
	CHECK(!pthread_mutex_lock(&mutex) && pthread_mutex_lock(&mutex) == EDEADLK);
	CHECK(!pthread_mutex_unlock(&mutex));
	make(&mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_mutex_lock(&mutex));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_mutex_unlock(&mutex));
	CHECK(pthread_mutex_unlock(&mutex) == EPERM);
}

static void *lock_and_die(void *mutex)
{
	CHECK(!pthread_mutex_lock(mutex));
	return NULL;
}

static void robust_and_inheriting(void)
{
	pthread_mutex_t mutex;

	make(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	in_thread(lock_and_die, &mutex);
	CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&mutex) && !pthread_mutex_unlock(&mutex));
	in_thread(lock_and_die, &mutex);
	CHECK(pthread_mutex_trylock(&mutex) == EOWNERDEAD && !pthread_mutex_unlock(&mutex));
	CHECK(pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
	make(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	CHECK(!pthread_mutex_lock(&mutex));
	in_thread(on_a_held_mutex, &mutex);
	CHECK(!pthread_mutex_unlock(&mutex));
}

static void *on_a_read_rwlock(void *rwlock)
{
	struct timespec until = in_20_ms(CLOCK_REALTIME);

	CHECK(!pthread_rwlock_tryrdlock(rwlock) && !pthread_rwlock_unlock(rwlock));
	CHECK(!pthread_rwlock_rdlock(rwlock) && !pthread_rwlock_unlock(rwlock));
	CHECK(pthread_rwlock_trywrlock(rwlock) == EBUSY);
	CHECK(pthread_rwlock_timedwrlock(rwlock, &until) == ETIMEDOUT);
	until = in_20_ms(CLOCK_MONOTONIC);
	CHECK(pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
	return NULL;
}

static void *on_a_written_rwlock(void *rwlock)
{
	struct timespec until = in_20_ms(CLOCK_REALTIME);

	CHECK(pthread_rwlock_tryrdlock(rwlock) == EBUSY);
	CHECK(pthread_rwlock_timedrdlock(rwlock, &until) == ETIMEDOUT);
	until = in_20_ms(CLOCK_MONOTONIC);
	CHECK(pthread_rwlock_clockrdlock(rwlock, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
	return NULL;
}

static void rwlocks(void)
{
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

	CHECK(!pthread_rwlock_rdlock(&rwlock));
	in_thread(on_a_read_rwlock, &rwlock);
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CHECK(!pthread_rwlock_wrlock(&rwlock));
	CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK);
	in_thread(on_a_written_rwlock, &rwlock);
	CHECK(!pthread_rwlock_unlock(&rwlock));
	CHECK(!pthread_rwlock_trywrlock(&rwlock) && !pthread_rwlock_unlock(&rwlock));
}

struct meeting {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int there;
};

static void *come(void *argument)
{
	struct meeting *meeting = argument;

	usleep(20000);
	pthread_mutex_lock(&meeting->mutex);
	meeting->there = 1;
	pthread_cond_signal(&meeting->cond);
	pthread_mutex_unlock(&meeting->mutex);
	return NULL;
}

static void unlock(void *mutex)
{
	CHECK(!pthread_mutex_unlock(mutex));
}

static void *wait_for_ever(void *argument)
{
	struct meeting *meeting = argument;

	pthread_mutex_lock(&meeting->mutex);
	meeting->there = 2;
	pthread_cleanup_push(unlock, &meeting->mutex);
	for (;;)
		pthread_cond_wait(&meeting->cond, &meeting->mutex);
	pthread_cleanup_pop(1);
	return NULL;
}

static void conditions(void)
{
	struct meeting meeting = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
	struct timespec until;
	pthread_t thread;
	void *result;

	CHECK(!pthread_create(&thread, NULL, come, &meeting));
	CHECK(!pthread_mutex_lock(&meeting.mutex));
	while (!meeting.there)
		CHECK(!pthread_cond_wait(&meeting.cond, &meeting.mutex));
	until = in_20_ms(CLOCK_REALTIME);
	CHECK(pthread_cond_timedwait(&meeting.cond, &meeting.mutex, &until) == ETIMEDOUT);
	until = in_20_ms(CLOCK_MONOTONIC);
	CHECK(pthread_cond_clockwait(&meeting.cond, &meeting.mutex, CLOCK_MONOTONIC, &until) ==
	      ETIMEDOUT);
	CHECK(!pthread_mutex_unlock(&meeting.mutex) && !pthread_join(thread, NULL));
	CHECK(!pthread_cond_broadcast(&meeting.cond));

	CHECK(!pthread_create(&thread, NULL, wait_for_ever, &meeting));
	while (__atomic_load_n(&meeting.there, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
	/* The cleanup handler had the mutex and let it go. */
	CHECK(!pthread_mutex_trylock(&meeting.mutex) && !pthread_mutex_unlock(&meeting.mutex));
}

static void of_c11(void)
{
	mtx_t mutex;

	CHECK(mtx_init(&mutex, mtx_plain) == thrd_success && mtx_lock(&mutex) == thrd_success);
	CHECK(mtx_unlock(&mutex) == thrd_success);
	mtx_destroy(&mutex);
}

int main(void)
{
	plain();
	error_checking_and_recursive();
	robust_and_inheriting();
	rwlocks();
	conditions();
	of_c11();
	puts("fine");
	return 0;
}
