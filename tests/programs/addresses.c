/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * addresses.c LIBRARY: records from nested functions, of its own and of a library that it loads meanwhile (addresses_lib.c),
 * which calls back. Waits for a line before the records of the library, so that the collector can look at what is mapped.
 * They come until another line or the end of input does: call stacks have the library's functions a moment after it was loaded.
 */
#include <dlfcn.h>
#include <poll.h>

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

/* Without stdio, which would take more than a line from the test. */
static bool hear_line(void)
{
	char c;

	while (read(0, &c, 1) == 1)
		if (c == '\n')
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	void (*library_call)(void (*)(uint32_t), uint32_t);
	void *library;

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
	if (!hear_line())
		return 1;
	do
		library_call(called_back, 7);
	while (!poll(&input, 1, 20));
	return 0;
}
