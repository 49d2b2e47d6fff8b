/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * functions.c: libkymo-functions.so, preloaded: entries and exits of the functions of programs that
 * were compiled with -finstrument-functions. Their compiler calls __cyg_profile_func_enter and
 * _exit, which are empty in libc; these here come first in the search order.
 *
 *	function:entry, function:exit	address of the function, and of its call
 *	function:module			a file of the process: what is added to its addresses, and its
 *					path. Once in each session, before its first entry.
 *
 * A file that is loaded later (dlopen) is told of with the next session; until then its functions
 * are addresses. A program that has the two functions itself keeps its own.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <unistd.h>

#include "kymo/tracepoint.h"

#include "next.h"

KYMO_EVENT(function, entry, (x64, function), (x64, caller))
KYMO_EVENT(function, exit, (x64, function), (x64, caller))
KYMO_EVENT(function, module, (x64, base), (str, path))

#define PATH_BYTES 4096

void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

/* The present session has been told of the modules. */
static bool told;

static int TRACED tell_module(struct dl_phdr_info *info, size_t size, void *unused)
{
	char exe[PATH_BYTES];
	const char *path = info->dlpi_name;

	(void)size;
	(void)unused;
	/* The executable has no name of its own here. */
	if (!path || !*path) {
		ssize_t bytes = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

		if (bytes <= 0)
			return 0;
		exe[bytes] = 0;
		path = exe;
	}
	kymo_trace(function, module, (uint64_t)info->dlpi_addr, path);
	return 0;
}

/* The executable is the first in the list, and the only one without a name. */
static void TRACED tell_modules(void)
{
	if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	dl_iterate_phdr(tell_module, NULL);
}

WRAPPER void __cyg_profile_func_enter(void *function, void *call_site)
{
	if (KYMO__UNLIKELY(kymo_trace_enabled(function, entry))) {
		if (KYMO__UNLIKELY(!__atomic_load_n(&told, __ATOMIC_RELAXED)))
			tell_modules();
		kymo_trace(function, entry, ADDRESS(function), ADDRESS(call_site));
	} else if (KYMO__UNLIKELY(__atomic_load_n(&told, __ATOMIC_RELAXED))) {
		/* The session is over. */
		__atomic_store_n(&told, false, __ATOMIC_RELAXED);
	}
}

WRAPPER void __cyg_profile_func_exit(void *function, void *call_site)
{
	kymo_trace(function, exit, ADDRESS(function), ADDRESS(call_site));
}
