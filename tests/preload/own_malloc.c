/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * own_malloc.c: victim: an executable with an allocator of its own, as with a jemalloc linked in. Each block is marked;
 * a block that is not its own arriving in free or realloc means that somebody has mixed allocators. It lacks the
 * aligned functions and reallocarray, so those go through the helper to libc.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

#define HEAP_BYTES (64ul << 20)
#define MARK 0x6b796d6f6b796d6full

struct block {
	uint64_t mark;
	size_t size;
};

static uint8_t *heap;
static size_t used;
static unsigned long frees;

static int is_ours(const void *ptr)
{
	return (uintptr_t)ptr - (uintptr_t)heap < HEAP_BYTES;
}

void *malloc(size_t size)
{
	size_t bytes = (size + sizeof(struct block) + 15) & ~(size_t)15, at;
	struct block *block;
	uint8_t *base = __atomic_load_n(&heap, __ATOMIC_ACQUIRE), *expected = NULL;

	if (!base) {
		base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!__atomic_compare_exchange_n(&heap, &expected, base, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			munmap(base, HEAP_BYTES);
			base = expected;
		}
	}
	at = __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
	if (at + bytes > HEAP_BYTES)
		return NULL;
	block = (struct block *)(void *)(base + at);
	block->mark = MARK;
	block->size = size;
	return block + 1;
}

void free(void *ptr)
{
	struct block *block = (struct block *)ptr - 1;

	if (!ptr)
		return;
	if (!is_ours(ptr))
		return; /* from libc's aligned functions: leaked, as by any such program */
	if (block->mark != MARK)
		_Exit(3);
	block->mark = 0;
	__atomic_fetch_add(&frees, 1, __ATOMIC_RELAXED);
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* the heap is never used twice */
}

void *realloc(void *ptr, size_t size)
{
	void *to = malloc(size);
	struct block *block = (struct block *)ptr - 1;

	if (!ptr || !to)
		return to;
	if (!is_ours(ptr) || block->mark != MARK)
		_Exit(3);
	memcpy(to, ptr, block->size < size ? block->size : size);
	free(ptr);
	return to;
}

static void *thread(void *unused)
{
	for (int i = 0; i < 1000; i++)
		free(strdup("of a thread"));
	return unused;
}

int main(void)
{
	pthread_t threads[8];
	char *text = NULL;
	void *aligned;
	FILE *file;

	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, thread, NULL));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_join(threads[i], NULL));
	text = reallocarray(strdup("libc's strdup, our malloc"), 100, 10);
	CHECK(text && is_ours(text) && !strncmp(text, "libc's", 6));
	free(text);
	text = NULL;
	CHECK(asprintf(&text, "%d %s", 1, "asprintf") > 0 && is_ours(text));
	free(text);
	CHECK(!posix_memalign(&aligned, 64, 100));
	free(aligned);
	file = fopen("/proc/self/maps", "r");
	CHECK(file);
	fclose(file);
	CHECK(frees > 8000);
	puts("fine");
	return 0;
}
