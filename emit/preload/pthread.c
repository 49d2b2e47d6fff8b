/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread.c: libkymo-pthread.so, preloaded: events for the locks of a program that knows nothing of
 * kymo. Each wrapper calls the real function exactly once, so robust, error-checking, recursive and
 * priority-inheriting locks keep their meaning. C11 mtx_* and cnd_* are not seen: libc implements
 * them by calls inside itself. Nor are semaphores, barriers and spin locks.
 *
 *	mutex_wait		the mutex was held when it was asked for; the thread may wait from here
 *	mutex_lock		lock, timedlock or clocklock returned; waited_ns is the time in the call
 *	mutex_trylock		trylock returned
 *	mutex_unlock		is about to be released
 *	rwlock_wait, rwlock_rdlock, rwlock_wrlock, rwlock_tryrdlock, rwlock_trywrlock, rwlock_unlock	likewise
 *	cond_wait		is about to release mutex and wait
 *	cond_wake		has woken and holds mutex again; waited_ns includes getting it back
 *	cond_signal, cond_broadcast	about to happen
 *	unlock_failed		an unlock that was recorded did not happen
 *
 * result is what the function returned: 0 or EOWNERDEAD where the lock is held now.
 *
 * Wait time is in the record, because one call measures it; a wait record without its end is a
 * thread that is stuck or was killed. Hold time is not: it is the time between the records that
 * take and release a lock (mutex_lock or mutex_trylock or cond_wake, to mutex_unlock or cond_wait),
 * by lock and thread. A table of held locks in the program could put it into mutex_unlock, but that
 * table would be wrong whenever a session comes or goes while a lock is held, and the trace would
 * not show it; a pair of records belongs to one session, and what is lost is counted.
 *
 * Release is recorded before the call and taking after it, so the holds of one lock never overlap
 * in the trace; and a thread that the wake-up inside unlock preempts does not seem to hold the lock
 * meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "kymo/tracepoint.h"

#include "next.h"

KYMO_EVENT(pthread, mutex_wait, (x64, mutex), (x64, caller))
KYMO_EVENT(pthread, mutex_lock, (x64, mutex), (u64, waited_ns), (i32, result), (x64, caller))
KYMO_EVENT(pthread, mutex_trylock, (x64, mutex), (i32, result), (x64, caller))
KYMO_EVENT(pthread, mutex_unlock, (x64, mutex), (x64, caller))
KYMO_EVENT(pthread, rwlock_wait, (x64, rwlock), (bool, write), (x64, caller))
KYMO_EVENT(pthread, rwlock_rdlock, (x64, rwlock), (u64, waited_ns), (i32, result), (x64, caller))
KYMO_EVENT(pthread, rwlock_wrlock, (x64, rwlock), (u64, waited_ns), (i32, result), (x64, caller))
KYMO_EVENT(pthread, rwlock_tryrdlock, (x64, rwlock), (i32, result), (x64, caller))
KYMO_EVENT(pthread, rwlock_trywrlock, (x64, rwlock), (i32, result), (x64, caller))
KYMO_EVENT(pthread, rwlock_unlock, (x64, rwlock), (x64, caller))
KYMO_EVENT(pthread, cond_wait, (x64, cond), (x64, mutex), (x64, caller))
KYMO_EVENT(pthread, cond_wake, (x64, cond), (x64, mutex), (u64, waited_ns), (i32, result),
	   (x64, caller))
KYMO_EVENT(pthread, cond_signal, (x64, cond), (x64, caller))
KYMO_EVENT(pthread, cond_broadcast, (x64, cond), (x64, caller))
KYMO_EVENT(pthread, unlock_failed, (x64, lock), (i32, result), (x64, caller))

#include "pthread_next.h"

/* Of a mutex or a condition variable. */
static bool is_kymos(const void *object)
{
	return ADDRESS(object) - kymo_begin < kymo_end - kymo_begin;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Whether a lock call would have to wait, by a look into glibc's lock word: a hint for the wait
 * record and nothing else. It spares an uncontended lock its second record. Taken between the look
 * and the call, a lock goes without the wait record; its waited_ns is right all the same.
 */
static bool mutex_is_held(const pthread_mutex_t *mutex)
{
#if defined(__GLIBC__)
	return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) != 0;
#else
	(void)mutex;
	return true;
#endif
}

/*
 * __readers: bit 1: a writer has it or waits for the readers to leave; from bit 3 on: number of
 * readers.
 */
static bool rwlock_is_held(const pthread_rwlock_t *rwlock, bool write)
{
#if defined(__GLIBC__)
	uint32_t word = __atomic_load_n(&rwlock->__data.__readers, __ATOMIC_RELAXED);

	return word & 2 || (write && word >> 3);
#else
	(void)rwlock, (void)write;
	return true;
#endif
}

/* How long a call may wait. */
enum patience { FOR_EVER, UNTIL, UNTIL_ON_CLOCK };

static int TRACED traced_mutex_lock(MUTEX, enum patience patience, clockid_t clock, deadline_t until,
				    uint64_t caller)
{
	uint64_t begin_ns;
	int result;

	if (is_kymos(mutex))
		return next.mutex_lock(mutex);
	if (mutex_is_held(mutex))
		kymo_trace(pthread, mutex_wait, ADDRESS(mutex), caller);
	begin_ns = now_ns();
	if (patience == FOR_EVER)
		result = next.mutex_lock(mutex);
	else if (patience == UNTIL)
		result = next.mutex_timedlock(mutex, until);
	else
		result = next.mutex_clocklock(mutex, clock, until);
	kymo_trace(pthread, mutex_lock, ADDRESS(mutex), now_ns() - begin_ns, result, caller);
	return result;
}

/* For wrappers with two events: one branch over both questions. */
#define EITHER(one, other)                                                                         \
	KYMO__UNLIKELY(kymo_trace_enabled(pthread, one) | kymo_trace_enabled(pthread, other))

WRAPPER int pthread_mutex_lock(MUTEX)
{
	if (EITHER(mutex_wait, mutex_lock))
		return traced_mutex_lock(mutex, FOR_EVER, 0, NULL, CALLER);
	return next.mutex_lock(mutex);
}

WRAPPER int pthread_mutex_timedlock(MUTEX, deadline_t until)
{
	if (EITHER(mutex_wait, mutex_lock))
		return traced_mutex_lock(mutex, UNTIL, 0, until, CALLER);
	return next.mutex_timedlock(mutex, until);
}

WRAPPER int pthread_mutex_clocklock(MUTEX, clockid_t clock, deadline_t until)
{
	if (EITHER(mutex_wait, mutex_lock))
		return traced_mutex_lock(mutex, UNTIL_ON_CLOCK, clock, until, CALLER);
	return next.mutex_clocklock(mutex, clock, until);
}

static int TRACED traced_mutex_trylock(MUTEX, uint64_t caller)
{
	int result = next.mutex_trylock(mutex);

	kymo_trace(pthread, mutex_trylock, ADDRESS(mutex), result, caller);
	return result;
}

WRAPPER int pthread_mutex_trylock(MUTEX)
{
	if (kymo_trace_enabled(pthread, mutex_trylock))
		return traced_mutex_trylock(mutex, CALLER);
	return next.mutex_trylock(mutex);
}

static int TRACED traced_mutex_unlock(MUTEX, uint64_t caller)
{
	int result;

	if (is_kymos(mutex))
		return next.mutex_unlock(mutex);
	kymo_trace(pthread, mutex_unlock, ADDRESS(mutex), caller);
	result = next.mutex_unlock(mutex);
	if (result)
		kymo_trace(pthread, unlock_failed, ADDRESS(mutex), result, caller);
	return result;
}

WRAPPER int pthread_mutex_unlock(MUTEX)
{
	if (EITHER(mutex_unlock, unlock_failed))
		return traced_mutex_unlock(mutex, CALLER);
	return next.mutex_unlock(mutex);
}

static int rdlock(RWLOCK, enum patience patience, clockid_t clock, deadline_t until)
{
	return patience == FOR_EVER ? next.rwlock_rdlock(rwlock) :
	       patience == UNTIL    ? next.rwlock_timedrdlock(rwlock, until) :
				      next.rwlock_clockrdlock(rwlock, clock, until);
}

static int wrlock(RWLOCK, enum patience patience, clockid_t clock, deadline_t until)
{
	return patience == FOR_EVER ? next.rwlock_wrlock(rwlock) :
	       patience == UNTIL    ? next.rwlock_timedwrlock(rwlock, until) :
				      next.rwlock_clockwrlock(rwlock, clock, until);
}

static int TRACED traced_rdlock(RWLOCK, enum patience patience, clockid_t clock, deadline_t until,
				uint64_t caller)
{
	uint64_t begin_ns;
	int result;

	if (rwlock_is_held(rwlock, false))
		kymo_trace(pthread, rwlock_wait, ADDRESS(rwlock), false, caller);
	begin_ns = now_ns();
	result = rdlock(rwlock, patience, clock, until);
	kymo_trace(pthread, rwlock_rdlock, ADDRESS(rwlock), now_ns() - begin_ns, result, caller);
	return result;
}

static int TRACED traced_wrlock(RWLOCK, enum patience patience, clockid_t clock, deadline_t until,
				uint64_t caller)
{
	uint64_t begin_ns;
	int result;

	if (rwlock_is_held(rwlock, true))
		kymo_trace(pthread, rwlock_wait, ADDRESS(rwlock), true, caller);
	begin_ns = now_ns();
	result = wrlock(rwlock, patience, clock, until);
	kymo_trace(pthread, rwlock_wrlock, ADDRESS(rwlock), now_ns() - begin_ns, result, caller);
	return result;
}

WRAPPER int pthread_rwlock_rdlock(RWLOCK)
{
	if (EITHER(rwlock_wait, rwlock_rdlock))
		return traced_rdlock(rwlock, FOR_EVER, 0, NULL, CALLER);
	return next.rwlock_rdlock(rwlock);
}

WRAPPER int pthread_rwlock_timedrdlock(RWLOCK, deadline_t until)
{
	if (EITHER(rwlock_wait, rwlock_rdlock))
		return traced_rdlock(rwlock, UNTIL, 0, until, CALLER);
	return next.rwlock_timedrdlock(rwlock, until);
}

WRAPPER int pthread_rwlock_clockrdlock(RWLOCK, clockid_t clock, deadline_t until)
{
	if (EITHER(rwlock_wait, rwlock_rdlock))
		return traced_rdlock(rwlock, UNTIL_ON_CLOCK, clock, until, CALLER);
	return next.rwlock_clockrdlock(rwlock, clock, until);
}

WRAPPER int pthread_rwlock_wrlock(RWLOCK)
{
	if (EITHER(rwlock_wait, rwlock_wrlock))
		return traced_wrlock(rwlock, FOR_EVER, 0, NULL, CALLER);
	return next.rwlock_wrlock(rwlock);
}

WRAPPER int pthread_rwlock_timedwrlock(RWLOCK, deadline_t until)
{
	if (EITHER(rwlock_wait, rwlock_wrlock))
		return traced_wrlock(rwlock, UNTIL, 0, until, CALLER);
	return next.rwlock_timedwrlock(rwlock, until);
}

WRAPPER int pthread_rwlock_clockwrlock(RWLOCK, clockid_t clock, deadline_t until)
{
	if (EITHER(rwlock_wait, rwlock_wrlock))
		return traced_wrlock(rwlock, UNTIL_ON_CLOCK, clock, until, CALLER);
	return next.rwlock_clockwrlock(rwlock, clock, until);
}

static int TRACED traced_tryrdlock(RWLOCK, uint64_t caller)
{
	int result = next.rwlock_tryrdlock(rwlock);

	kymo_trace(pthread, rwlock_tryrdlock, ADDRESS(rwlock), result, caller);
	return result;
}

WRAPPER int pthread_rwlock_tryrdlock(RWLOCK)
{
	if (kymo_trace_enabled(pthread, rwlock_tryrdlock))
		return traced_tryrdlock(rwlock, CALLER);
	return next.rwlock_tryrdlock(rwlock);
}

static int TRACED traced_trywrlock(RWLOCK, uint64_t caller)
{
	int result = next.rwlock_trywrlock(rwlock);

	kymo_trace(pthread, rwlock_trywrlock, ADDRESS(rwlock), result, caller);
	return result;
}

WRAPPER int pthread_rwlock_trywrlock(RWLOCK)
{
	if (kymo_trace_enabled(pthread, rwlock_trywrlock))
		return traced_trywrlock(rwlock, CALLER);
	return next.rwlock_trywrlock(rwlock);
}

static int TRACED traced_rwlock_unlock(RWLOCK, uint64_t caller)
{
	int result;

	kymo_trace(pthread, rwlock_unlock, ADDRESS(rwlock), caller);
	result = next.rwlock_unlock(rwlock);
	if (result)
		kymo_trace(pthread, unlock_failed, ADDRESS(rwlock), result, caller);
	return result;
}

WRAPPER int pthread_rwlock_unlock(RWLOCK)
{
	if (EITHER(rwlock_unlock, unlock_failed))
		return traced_rwlock_unlock(rwlock, CALLER);
	return next.rwlock_unlock(rwlock);
}

/*
 * A thread that is cancelled here leaves through this frame: no wake record, and nothing to clean
 * up.
 */
static int TRACED traced_cond_wait(COND, MUTEX, enum patience patience, clockid_t clock,
				   deadline_t until, uint64_t caller)
{
	uint64_t begin_ns;
	int result;

	kymo_trace(pthread, cond_wait, ADDRESS(cond), ADDRESS(mutex), caller);
	begin_ns = now_ns();
	if (patience == FOR_EVER)
		result = next.cond_wait(cond, mutex);
	else if (patience == UNTIL)
		result = next.cond_timedwait(cond, mutex, until);
	else
		result = next.cond_clockwait(cond, mutex, clock, until);
	kymo_trace(pthread, cond_wake, ADDRESS(cond), ADDRESS(mutex), now_ns() - begin_ns, result,
		   caller);
	return result;
}

WRAPPER int pthread_cond_wait(COND, MUTEX)
{
	if (EITHER(cond_wait, cond_wake) && !is_kymos(cond))
		return traced_cond_wait(cond, mutex, FOR_EVER, 0, NULL, CALLER);
	return next.cond_wait(cond, mutex);
}

WRAPPER int pthread_cond_timedwait(COND, MUTEX, deadline_t until)
{
	if (EITHER(cond_wait, cond_wake) && !is_kymos(cond))
		return traced_cond_wait(cond, mutex, UNTIL, 0, until, CALLER);
	return next.cond_timedwait(cond, mutex, until);
}

WRAPPER int pthread_cond_clockwait(COND, MUTEX, clockid_t clock, deadline_t until)
{
	if (EITHER(cond_wait, cond_wake) && !is_kymos(cond))
		return traced_cond_wait(cond, mutex, UNTIL_ON_CLOCK, clock, until, CALLER);
	return next.cond_clockwait(cond, mutex, clock, until);
}

static int TRACED traced_cond_signal(COND, uint64_t caller)
{
	kymo_trace(pthread, cond_signal, ADDRESS(cond), caller);
	return next.cond_signal(cond);
}

WRAPPER int pthread_cond_signal(COND)
{
	if (kymo_trace_enabled(pthread, cond_signal) && !is_kymos(cond))
		return traced_cond_signal(cond, CALLER);
	return next.cond_signal(cond);
}

static int TRACED traced_cond_broadcast(COND, uint64_t caller)
{
	kymo_trace(pthread, cond_broadcast, ADDRESS(cond), caller);
	return next.cond_broadcast(cond);
}

WRAPPER int pthread_cond_broadcast(COND)
{
	if (kymo_trace_enabled(pthread, cond_broadcast) && !is_kymos(cond))
		return traced_cond_broadcast(cond, CALLER);
	return next.cond_broadcast(cond);
}
