/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * alloc.c: victim: every function of the malloc family keeps contents, alignment, sizes and errno; allocation in
 * constructors, at exit and in a signal handler.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static char *early;
static volatile size_t huge = PTRDIFF_MAX;
static char mark;

static void __attribute__((constructor(101))) first(void)
{
	early = malloc(100);
	CHECK(early);
	memset(early, 'e', 100);
}

static void __attribute__((constructor)) second(void)
{
	early = realloc(early, 10000);
	CHECK(early && early[99] == 'e');
}

static void __attribute__((destructor)) last(void)
{
	free(early);
	free(malloc(123));
}

static void at_exit(void)
{
	free(strdup("at exit"));
}

static void fill(uint8_t *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)(i * 31 + seed);
}

static void verify(const uint8_t *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		CHECK(at[i] == (uint8_t)(i * 31 + seed));
}

static void realloc_chains(void)
{
	for (unsigned seed = 0; seed < 50; seed++) {
		uint8_t *at = NULL;
		size_t size = 0;

		for (unsigned step = 1; step < 60; step++) {
			size_t next = (size_t)(step * step * 37 + seed * 101) % 200000 + 1;
			size_t kept = size < next ? size : next;

			at = step % 3 ? realloc(at, next) : reallocarray(at, next, 1);
			CHECK(at && malloc_usable_size(at) >= next);
			verify(at, kept, seed);
			/* What usable_size says is ours to write. */
			fill(at, malloc_usable_size(at), seed);
			size = malloc_usable_size(at);
		}
		free(at);
	}
}

static void moved(void)
{
	uint8_t *at = malloc(100), *in_the_way = malloc(100), *to;

	CHECK(at && in_the_way);
	fill(at, 100, 1);
	to = reallocarray(at, 100, 100);
	CHECK(to && to != at);
	verify(to, 100, 1);
	at = realloc(to, 1000000);
	CHECK(at && at != to);
	verify(at, 100, 1);
	free(at);
	free(in_the_way);
}

static void alignments(void)
{
	for (size_t alignment = sizeof(void *); alignment <= 65536; alignment *= 2) {
		void *at[4] = { NULL };

		errno = 77;
		CHECK(!posix_memalign(&at[0], alignment, 333) && errno == 77);
		at[1] = aligned_alloc(alignment, alignment * 2);
		at[2] = memalign(alignment, 10);
		at[3] = memalign(alignment, 0);
		for (int i = 0; i < 4; i++) {
			CHECK(at[i] && (uintptr_t)at[i] % alignment == 0);
			free(at[i]);
		}
	}
	void *page = valloc(10), *pages = pvalloc(10);
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	CHECK(page && (uintptr_t)page % page_bytes == 0);
	CHECK(pages && (uintptr_t)pages % page_bytes == 0);
	CHECK(malloc_usable_size(pages) >= page_bytes);
	free(page);
	free(pages);
}

static void errno_kept(void)
{
	void *at = NULL, *untouched = &mark;
	char *block = malloc(2000000); /* unmapped by free: a system call on the way */

	CHECK(block);
	errno = 42;
	free(block);
	CHECK(errno == 42);
	free(NULL);
	CHECK(errno == 42);
	at = malloc(10);
	CHECK(at && errno == 42);
	free(at);

	errno = 0;
	CHECK(!malloc(huge) && errno == ENOMEM);
	errno = 0;
	CHECK(!calloc(huge, 16) && errno == ENOMEM);
	at = malloc(10);
	errno = 0;
	CHECK(!realloc(at, huge) && errno == ENOMEM);
	errno = 0;
	CHECK(!reallocarray(at, huge, 16) && errno == ENOMEM);
	free(at);
	errno = 5;
	CHECK(posix_memalign(&untouched, 3, 10) == EINVAL && untouched == &mark && errno == 5);
	CHECK(posix_memalign(&untouched, 64, huge) == ENOMEM && untouched == &mark);
	errno = 0;
	CHECK(!memalign(64, huge) && errno == ENOMEM);
}

static void calloc_is_zero(void)
{
	for (size_t size = 1; size < 300000; size = size * 3 + 1) {
		uint8_t *at = malloc(size);

		CHECK(at);
		memset(at, 0xff, size);
		free(at);
		at = calloc(size, 1);
		CHECK(at && !at[0] && !memcmp(at, at + 1, size - 1));
		free(at);
	}
}

static void *from_handler;

static void handler(int signal)
{
	(void)signal;
	from_handler = realloc(from_handler, 5000);
	free(malloc(50));
}

static void in_a_handler(void)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < 1000; i++)
		raise(SIGUSR1);
	CHECK(from_handler);
	free(from_handler);
}

int main(void)
{
	atexit(at_exit);
	CHECK(early && early[0] == 'e');
	realloc_chains();
	moved();
	alignments();
	errno_kept();
	calloc_is_zero();
	in_a_handler();
	puts("fine");
	return 0;
}
