/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * allocs.c: allocates from nested functions, and through a callback of libc, and prints where they are. It knows
 * nothing of kymo, and is compiled without frame pointers. Sizes say which call it was.
 */
#include <stdio.h>
#include <stdlib.h>

#define NEVER_INLINE __attribute__((noinline, noclone))
/* Something behind a call, so that it is one. */
#define BEHIND __asm__ __volatile__("" ::: "memory")

static void *volatile kept;

NEVER_INLINE void alloc_inner(size_t bytes)
{
	kept = malloc(bytes);
	BEHIND;
}

NEVER_INLINE void alloc_middle(size_t bytes)
{
	volatile char room[500];

	room[0] = 1;
	alloc_inner(bytes);
	room[1] = room[0];
}

NEVER_INLINE void alloc_outer(size_t bytes)
{
	alloc_middle(bytes);
	BEHIND;
}

NEVER_INLINE int alloc_in_callback(const void *one, const void *other)
{
	alloc_inner(4713);
	return *(const int *)one - *(const int *)other;
}

int main(void)
{
	int pair[2] = { 2, 1 };

	alloc_outer(4711);
	qsort(pair, 2, sizeof(pair[0]), alloc_in_callback);
	printf("main=%p\n", (void *)main);
	free(kept);
	return 0;
}
