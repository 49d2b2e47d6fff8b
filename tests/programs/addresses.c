/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * addresses.c LIBRARY: records from nested functions, of its own and of a library that it loads meanwhile (addresses_lib.c),
 * which calls back. Waits for a line before each record of the library, so that the collector can look at what is mapped.
 */
#include <dlfcn.h>

#include "common.h"

KYMO_EVENT(addr, own, (u32, n))
KYMO_EVENT(addr, back, (u32, n))

__attribute__((noinline)) void own_step(uint32_t n)
{
	kymo_trace(addr, own, n);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void own_loop(uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		own_step(n);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void called_back(uint32_t n)
{
	kymo_trace(addr, back, n);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	void (*library_call)(void (*)(uint32_t), uint32_t);
	void *library;
	char line[16];

	until_enabled(addr, own);
	own_loop(2);
	library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	if (!library)
		die(dlerror());
	library_call = (void (*)(void (*)(uint32_t), uint32_t))dlsym(library, "library_call");
	if (!library_call)
		die("dlsym");
	puts("loaded");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	library_call(called_back, 7);
	return 0;
}
