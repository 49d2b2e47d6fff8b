/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * next.h: what the preload helpers share: finding the function that a wrapper stands before. Each
 * wrapper calls its own next definition in the search order (RTLD_NEXT), and no other one in its
 * place: a program that mixes allocators or has a second preload gets exactly the calls that it
 * would get without the helper.
 *
 * Every pointer to a next function begins as first_NAME, which looks all of them up, and is then
 * replaced. A wrapper that nobody traces therefore costs the load of an enable word, a branch and
 * an indirect jump.
 */
#ifndef KYMO_PRELOAD_NEXT_H
#define KYMO_PRELOAD_NEXT_H

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define WRAPPER __attribute__((visibility("default")))
#define TRACED __attribute__((noinline, cold))
#define CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))
#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

/*
 * Per thread. Initial-exec: the first access may come from a signal handler or from malloc itself.
 */
#define PER_THREAD static __thread __attribute__((tls_model("initial-exec")))

/* version: the one that is wanted where a symbol has several; NULL: the newest. */
static inline void *next_symbol(const char *name, const char *version)
{
	void *found = NULL;

#if defined(__GLIBC__)
	if (version)
		found = dlvsym(RTLD_NEXT, name, version);
#endif
	(void)version; /* other C libraries have one of each */
	return found ? found : dlsym(RTLD_NEXT, name);
}

/*
 * NEXT_LOOK_UP(found, name, version): found.name = the next definition, else bare_name.
 * NEXT_PUBLISH(next, found, name): for all threads, unless another one came first; both found the
 * same.
 */
#define NEXT_LOOK_UP(found, name, symbol, version)                                                 \
	do {                                                                                       \
		void *next__at = next_symbol(symbol, version);                                     \
                                                                                                   \
		(found).name = bare_##name;                                                        \
		if (next__at)                                                                      \
			memcpy(&(found).name, &next__at, sizeof(next__at));                        \
	} while (0)

#define NEXT_PUBLISH(next, found, name)                                                            \
	do {                                                                                       \
		__typeof__((next).name) next__first = first_##name;                                \
                                                                                                   \
		__atomic_compare_exchange_n(&(next).name, &next__first, (found).name, 0,           \
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);                   \
	} while (0)

#endif
