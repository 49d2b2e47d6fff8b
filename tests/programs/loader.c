/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * loader.c OPERATION...: opens, uses and closes libraries in the order of its arguments: open:PATH,
 * run:PATH:COUNT, close:PATH. With -DWITH_EVENTS it has an event itself; without, it does not know of
 * kymo.
 */
#ifdef WITH_EVENTS
#include "common.h"
KYMO_EVENT(loader, op, (u32, at), (str, what))
#else
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif
#include <dlfcn.h>

static struct {
	char path[300];
	void *handle;
} opened[8];

static void **handle_of(const char *path)
{
	for (unsigned at = 0; at < 8; at++)
		if (!strcmp(opened[at].path, path) || !opened[at].path[0]) {
			snprintf(opened[at].path, sizeof(opened[at].path), "%s", path);
			return &opened[at].handle;
		}
	abort();
}

static void fail(void)
{
	fprintf(stderr, "%s\n", dlerror());
	exit(96);
}

int main(int argc, char **argv)
{
	for (int at = 1; at < argc; at++) {
		char *word = strtok(argv[at], ":"), *path = strtok(NULL, ":"), *count = strtok(NULL, ":");
		void **handle = handle_of(path);

#ifdef WITH_EVENTS
		kymo_trace(loader, op, (uint32_t)at, word);
#endif
		if (!strcmp(word, "open")) {
			*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (!*handle)
				fail();
		} else if (!strcmp(word, "run")) {
			void (*run)(uint64_t);

			*(void **)&run = dlsym(*handle, "plug_run");
			if (!run)
				fail();
			run(strtoull(count, NULL, 10));
		} else if (dlclose(*handle)) {
			fail();
		}
	}
	puts("ok");
	return 0;
}
