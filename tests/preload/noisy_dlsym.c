/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * noisy_dlsym.c: preloaded behind libkymo-malloc.so: a dlsym that uses the whole malloc family, as old C libraries do
 * in part. What it gets in the middle of the helper's first lookup comes from the helper's arena; it keeps some of it
 * and lets it go later, by free, by realloc and by reallocarray.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define KEPT 4

void *dlsym(void *handle, const char *name);

static char *kept[KEPT];
static int count;

void *dlsym(void *handle, const char *name)
{
	char *at = malloc(10), *zeros = calloc(5, 20);
	void *aligned = NULL;

	CHECK(at && zeros);
	for (int i = 0; i < 100; i++)
		CHECK(!zeros[i]);
	strcpy(at, "some text");
	at = realloc(at, 100);
	CHECK(at && !strcmp(at, "some text"));
	at = reallocarray(at, 60, 2);
	CHECK(at && !strcmp(at, "some text"));
	CHECK(!posix_memalign(&aligned, 256, 10) && (uintptr_t)aligned % 256 == 0);
	free(aligned);
	free(zeros);
	if (count < KEPT)
		kept[count++] = at;
	else
		free(at);
	return dlvsym(handle, name, "GLIBC_2.2.5") ? dlvsym(handle, name, "GLIBC_2.2.5") :
						     dlvsym(handle, name, "GLIBC_2.26") ?
						     dlvsym(handle, name, "GLIBC_2.26") :
						     dlvsym(handle, name, "GLIBC_2.16");
}

static void __attribute__((destructor)) let_go(void)
{
	char *at;

	CHECK(count == KEPT);
	free(kept[0]);
	at = realloc(kept[1], 100000);
	CHECK(at && !strcmp(at, "some text"));
	free(at);
	at = realloc(kept[2], 5);
	CHECK(at && !memcmp(at, "some ", 5));
	free(at);
	at = reallocarray(kept[3], 1000, 10);
	CHECK(at && !strcmp(at, "some text"));
	free(at);
}
