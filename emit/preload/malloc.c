/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * malloc.c: libkymo-malloc.so, preloaded: events for the allocations of a program that knows
 * nothing of kymo.
 *
 *	libc:malloc libc:calloc libc:realloc libc:memalign libc:free
 *
 * libc:realloc stands for reallocarray too, libc:memalign for posix_memalign, aligned_alloc,
 * memalign, valloc and pvalloc. ptr 0: the call failed (realloc with size 0: in_ptr was freed).
 * free(NULL) is not recorded. C++ new and delete come here through malloc and free.
 * malloc_usable_size is not wrapped: it is the allocator's own. An executable that brings its own
 * allocator, jemalloc in redis-server say, comes first in the search order: then its calls do not
 * pass here, and both sides stay consistent.
 *
 * Order in time: an allocation is recorded after the call, free before it. So the records of one
 * address alternate, whatever the threads do, except that a realloc which moves lets go of in_ptr a
 * moment before its record. Calls that an allocator makes to itself inside a wrapped call are not
 * recorded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "kymo/tracepoint.h"

#include "next.h"

KYMO_EVENT(libc, malloc, (u64, size), (x64, ptr), (x64, caller))
KYMO_EVENT(libc, calloc, (u64, count), (u64, size), (x64, ptr), (x64, caller))
KYMO_EVENT(libc, realloc, (x64, in_ptr), (u64, size), (x64, ptr), (x64, caller))
KYMO_EVENT(libc, memalign, (u64, alignment), (u64, size), (x64, ptr), (x64, caller))
KYMO_EVENT(libc, free, (x64, ptr), (x64, caller))

/* <malloc.h> is deprecated in parts; these are not in <stdlib.h>. */
void *memalign(size_t alignment, size_t size);
void *pvalloc(size_t size);

struct functions {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *ptr, size_t size);
	void *(*reallocarray)(void *ptr, size_t count, size_t size);
	void (*free)(void *ptr);
	int (*posix_memalign)(void **ptr, size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
};

#include "arena.h"

/* Set while this thread looks the next functions up: what dlsym allocates comes from the arena. */
PER_THREAD bool looking_up;
/*
 * Set while this thread is inside an allocator's function: what it calls in turn is its own affair.
 */
PER_THREAD bool inside;

#define EACH(_)                                                                                    \
	_(malloc) _(calloc) _(realloc) _(reallocarray) _(free) _(posix_memalign) _(aligned_alloc)  \
		_(memalign) _(valloc) _(pvalloc)

static void *first_malloc(size_t size);
static void *first_calloc(size_t count, size_t size);
static void *first_realloc(void *ptr, size_t size);
static void *first_reallocarray(void *ptr, size_t count, size_t size);
static void first_free(void *ptr);
static int first_posix_memalign(void **ptr, size_t alignment, size_t size);
static void *first_aligned_alloc(size_t alignment, size_t size);
static void *first_memalign(size_t alignment, size_t size);
static void *first_valloc(size_t size);
static void *first_pvalloc(size_t size);

#define FIRST(name) .name = first_##name,
static struct functions next = { EACH(FIRST) };

/*
 * look_up: finds all next functions. Threads may do so at the same time and none waits for another:
 * one of them may hold the loader's lock, which dlsym takes. Returns false when this thread is in
 * the middle of it.
 */
static bool look_up(void)
{
	int saved_errno = errno;
	struct functions found;

	if (looking_up)
		return false;
	looking_up = true;
#define LOOK_UP(name) NEXT_LOOK_UP(found, name, #name, NULL);
	EACH(LOOK_UP)
	behind_arena.free = found.free;
	behind_arena.realloc = found.realloc;
	behind_arena.reallocarray = found.reallocarray;
#define PUBLISH(name) NEXT_PUBLISH(next, found, name);
	EACH(PUBLISH)
	if (__atomic_load_n(&arena_used, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&next.free, checked_free, __ATOMIC_RELEASE);
		__atomic_store_n(&next.realloc, checked_realloc, __ATOMIC_RELEASE);
		__atomic_store_n(&next.reallocarray, checked_reallocarray, __ATOMIC_RELEASE);
	}
	looking_up = false;
	errno = saved_errno;
	return true;
}

/* first_NAME: the first call of all. */
#define FIRST_CALL(name, ...) (look_up() ? next.name : bare_##name)(__VA_ARGS__)

static void *first_malloc(size_t size)
{
	return FIRST_CALL(malloc, size);
}

static void *first_calloc(size_t count, size_t size)
{
	return FIRST_CALL(calloc, count, size);
}

static void *first_realloc(void *ptr, size_t size)
{
	return FIRST_CALL(realloc, ptr, size);
}

static void *first_reallocarray(void *ptr, size_t count, size_t size)
{
	return FIRST_CALL(reallocarray, ptr, count, size);
}

static void first_free(void *ptr)
{
	FIRST_CALL(free, ptr);
}

static int first_posix_memalign(void **ptr, size_t alignment, size_t size)
{
	return FIRST_CALL(posix_memalign, ptr, alignment, size);
}

static void *first_aligned_alloc(size_t alignment, size_t size)
{
	return FIRST_CALL(aligned_alloc, alignment, size);
}

static void *first_memalign(size_t alignment, size_t size)
{
	return FIRST_CALL(memalign, alignment, size);
}

static void *first_valloc(size_t size)
{
	return FIRST_CALL(valloc, size);
}

static void *first_pvalloc(size_t size)
{
	return FIRST_CALL(pvalloc, size);
}

/* Before main at the latest, so that no lookup falls into the middle of a run. */
static void __attribute__((constructor(102))) look_up_early(void)
{
	if (__atomic_load_n(&next.malloc, __ATOMIC_RELAXED) == first_malloc)
		look_up();
}

/*
 * traced_NAME: out of the way of the disabled case. The record comes after the guarded call,
 * outside of the guard, so that a signal handler that allocates is seen unless it interrupts the
 * allocator itself.
 */
#define GUARDED(result, call)                                                                      \
	do {                                                                                       \
		inside = true;                                                                     \
		__atomic_signal_fence(__ATOMIC_SEQ_CST);                                           \
		result = call;                                                                     \
		__atomic_signal_fence(__ATOMIC_SEQ_CST);                                           \
		inside = false;                                                                    \
	} while (0)

static void *TRACED traced_malloc(size_t size, uint64_t caller)
{
	void *ptr;

	if (inside)
		return next.malloc(size);
	GUARDED(ptr, next.malloc(size));
	kymo_trace(libc, malloc, size, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *malloc(size_t size)
{
	if (kymo_trace_enabled(libc, malloc))
		return traced_malloc(size, CALLER);
	return next.malloc(size);
}

static void *TRACED traced_calloc(size_t count, size_t size, uint64_t caller)
{
	void *ptr;

	if (inside)
		return next.calloc(count, size);
	GUARDED(ptr, next.calloc(count, size));
	kymo_trace(libc, calloc, count, size, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *calloc(size_t count, size_t size)
{
	if (kymo_trace_enabled(libc, calloc))
		return traced_calloc(count, size, CALLER);
	return next.calloc(count, size);
}

static void *TRACED traced_realloc(void *in_ptr, size_t size, uint64_t caller)
{
	uint64_t in_address = ADDRESS(in_ptr);
	void *ptr;

	if (inside)
		return next.realloc(in_ptr, size);
	GUARDED(ptr, next.realloc(in_ptr, size));
	kymo_trace(libc, realloc, in_address, size, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *realloc(void *in_ptr, size_t size)
{
	if (kymo_trace_enabled(libc, realloc))
		return traced_realloc(in_ptr, size, CALLER);
	return next.realloc(in_ptr, size);
}

static void *TRACED traced_reallocarray(void *in_ptr, size_t count, size_t size, uint64_t caller)
{
	uint64_t in_address = ADDRESS(in_ptr);
	size_t bytes;
	void *ptr;

	if (inside)
		return next.reallocarray(in_ptr, count, size);
	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX;
	GUARDED(ptr, next.reallocarray(in_ptr, count, size));
	kymo_trace(libc, realloc, in_address, bytes, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *reallocarray(void *in_ptr, size_t count, size_t size)
{
	if (kymo_trace_enabled(libc, realloc))
		return traced_reallocarray(in_ptr, count, size, CALLER);
	return next.reallocarray(in_ptr, count, size);
}

static void TRACED traced_free(void *ptr, uint64_t caller)
{
	if (ptr && !inside)
		kymo_trace(libc, free, ADDRESS(ptr), caller);
	next.free(ptr);
}

WRAPPER void free(void *ptr)
{
	if (kymo_trace_enabled(libc, free))
		traced_free(ptr, CALLER);
	else
		next.free(ptr);
}

static int TRACED traced_posix_memalign(void **ptr, size_t alignment, size_t size, uint64_t caller)
{
	int result;

	if (inside)
		return next.posix_memalign(ptr, alignment, size);
	GUARDED(result, next.posix_memalign(ptr, alignment, size));
	kymo_trace(libc, memalign, alignment, size, result ? 0 : ADDRESS(*ptr), caller);
	return result;
}

WRAPPER int posix_memalign(void **ptr, size_t alignment, size_t size)
{
	if (kymo_trace_enabled(libc, memalign))
		return traced_posix_memalign(ptr, alignment, size, CALLER);
	return next.posix_memalign(ptr, alignment, size);
}

/* The four that differ in their function only. */
static void *TRACED traced_memalign(void *(*function)(size_t, size_t), size_t alignment,
				    size_t size, uint64_t caller)
{
	void *ptr;

	if (inside)
		return function(alignment, size);
	GUARDED(ptr, function(alignment, size));
	kymo_trace(libc, memalign, alignment, size, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *aligned_alloc(size_t alignment, size_t size)
{
	if (kymo_trace_enabled(libc, memalign))
		return traced_memalign(next.aligned_alloc, alignment, size, CALLER);
	return next.aligned_alloc(alignment, size);
}

WRAPPER void *memalign(size_t alignment, size_t size)
{
	if (kymo_trace_enabled(libc, memalign))
		return traced_memalign(next.memalign, alignment, size, CALLER);
	return next.memalign(alignment, size);
}

static void *TRACED traced_valloc(void *(*function)(size_t), size_t size, uint64_t caller)
{
	void *ptr;

	if (inside)
		return function(size);
	GUARDED(ptr, function(size));
	kymo_trace(libc, memalign, (uint64_t)sysconf(_SC_PAGESIZE), size, ADDRESS(ptr), caller);
	return ptr;
}

WRAPPER void *valloc(size_t size)
{
	if (kymo_trace_enabled(libc, memalign))
		return traced_valloc(next.valloc, size, CALLER);
	return next.valloc(size);
}

WRAPPER void *pvalloc(size_t size)
{
	if (kymo_trace_enabled(libc, memalign))
		return traced_valloc(next.pvalloc, size, CALLER);
	return next.pvalloc(size);
}
