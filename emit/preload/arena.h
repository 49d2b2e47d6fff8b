/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * arena.h: malloc.c's answer to calls that come before the next allocator is known: dlsym itself
 * allocates, in some versions always and in all of them when it fails. A part of malloc.c; included
 * there once.
 */
/*
 * It only grows. Once something has come out of it, free and realloc look at addresses first;
 * mostly that never happens.
 */
#define ARENA_BYTES (32 * 1024)

static _Alignas(4096) uint8_t arena[ARENA_BYTES];
static size_t arena_used;
static struct functions behind_arena; /* free, realloc and reallocarray only */

static bool in_arena(const void *ptr)
{
	return (uintptr_t)ptr - (uintptr_t)arena < ARENA_BYTES;
}

/* Each piece has its size in the 16 bytes before it. */
static void *arena_take(size_t alignment, size_t size)
{
	size_t used = __atomic_load_n(&arena_used, __ATOMIC_RELAXED), at;

	if (alignment < 16)
		alignment = 16;
	do {
		at = (used + 16 + alignment - 1) / alignment * alignment;
		if (alignment > 4096 || size > ARENA_BYTES || at + size > ARENA_BYTES) {
			errno = ENOMEM;
			return NULL;
		}
	} while (!__atomic_compare_exchange_n(&arena_used, &used, (at + size + 15) & ~(size_t)15, true,
					      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	memcpy(arena + at - 16, &size, sizeof(size));
	return arena + at;
}

static size_t arena_size(const void *ptr)
{
	size_t size;

	memcpy(&size, (const uint8_t *)ptr - 16, sizeof(size));
	return size;
}

static void *copy_out(void *to, const void *from, size_t size)
{
	if (to)
		memcpy(to, from, arena_size(from) < size ? arena_size(from) : size);
	return to;
}

/* bare_NAME: what a call does while its next function is not known. */
static void *bare_malloc(size_t size)
{
	return arena_take(16, size);
}

static void *bare_reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes) || (ptr && !in_arena(ptr))) {
		errno = ENOMEM;
		return NULL;
	}
	return ptr ? copy_out(arena_take(16, bytes), ptr, bytes) : arena_take(16, bytes);
}

/* The arena is never used twice, so it is still zero. */
static void *bare_calloc(size_t count, size_t size)
{
	return bare_reallocarray(NULL, count, size);
}

static void *bare_realloc(void *ptr, size_t size)
{
	return bare_reallocarray(ptr, 1, size);
}

static void bare_free(void *ptr)
{
	(void)ptr;
}

static void *bare_memalign(size_t alignment, size_t size)
{
	return arena_take(alignment, size);
}

static int bare_posix_memalign(void **ptr, size_t alignment, size_t size)
{
	int saved_errno = errno;
	void *at = arena_take(alignment, size);

	errno = saved_errno;
	if (at)
		*ptr = at;
	return at ? 0 : ENOMEM;
}

static void *bare_aligned_alloc(size_t alignment, size_t size)
{
	return arena_take(alignment, size);
}

static void *bare_valloc(size_t size)
{
	return arena_take(4096, size);
}

static void *bare_pvalloc(size_t size)
{
	return arena_take(4096, (size + 4095) & ~(size_t)4095);
}

/* checked_NAME: takes the place of the next function once the arena was used. */
static void checked_free(void *ptr)
{
	if (!in_arena(ptr))
		behind_arena.free(ptr);
}

static void *checked_realloc(void *ptr, size_t size)
{
	if (!in_arena(ptr))
		return behind_arena.realloc(ptr, size);
	return copy_out(behind_arena.realloc(NULL, size), ptr, size);
}

static void *checked_reallocarray(void *ptr, size_t count, size_t size)
{
	if (!in_arena(ptr))
		return behind_arena.reallocarray(ptr, count, size);
	return copy_out(behind_arena.reallocarray(NULL, count, size), ptr, count * size);
}
