/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * handlers.c [exec PROGRAM | load LIBRARY LIBRARY]: records the address of a function of its own, which HANDLER names. Then
 * it becomes another program; or it loads one library, and when that is gone another one, and records addresses in them.
 * Waits for a line before each record of a library, so that the collector can look at what is mapped.
 */
#include <dlfcn.h>

#include "common.h"

#ifndef HANDLER
#define HANDLER own_handler
#endif

KYMO_EVENT(addr, code, (x64, handler), (str, whose))

__attribute__((noinline)) void HANDLER(void)
{
	__asm__ volatile("" ::: "memory");
}

static void of_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *entry = library ? dlsym(library, "entry") : NULL;

	if (!entry)
		die("dlopen");
	say(path);
	hear();
	kymo_trace(addr, code, (uint64_t)(uintptr_t)entry, path);
	dlclose(library);
}

int main(int argc, char **argv)
{
	live_shortly();
	until_enabled(addr, code);
	kymo_trace(addr, code, (uint64_t)(uintptr_t)HANDLER, "own");
	if (argc > 2 && !strcmp(argv[1], "exec"))
		execl(argv[2], argv[2], (char *)NULL);
	for (int i = 2; i < argc; i++)
		of_library(argv[i]);
	return 0;
}
