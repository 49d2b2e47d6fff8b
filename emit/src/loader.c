/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * loader.c: what the dynamic loader says of loaded files without a lock, on the record path [context.md 4.3]:
 * which file an address is in, and whether files were loaded since the helper thread listed them. Only glibc
 * says it; elsewhere nothing is known.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "internal.h"
#include "unwind.h"

/*
 * The loader's counter of files that were loaded is a word of _rtld_global, which is glibc's own. It is one of the
 * words that had the counter's value each time when the loader told it; if none of these has changed, no file was
 * loaded. More than so many are not looked at.
 */
#define WORDS_MAX 8u
#define GLOBAL_BYTES_MAX 65536u

/* Absent from a static executable, and from other C libraries. */
#ifndef RTLD_DL_SYMENT
#define RTLD_DL_SYMENT 1
#endif
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern int dladdr1(const void *address, Dl_info *info, void **entry, int flags) __attribute__((weak));
extern const char *gnu_get_libc_version(void) __attribute__((weak));
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define HAS_FIND_OBJECT 1
extern int _dl_find_object(void *address, struct dl_find_object *result) __attribute__((weak));
#endif
#endif

static const uint64_t *global;
static uint32_t global_words;
/* Places in global that may be the counter, and how many; 0: it is not known. Written by the helper thread. */
static uint16_t places[WORDS_MAX];
static uint32_t place_count;
static bool has_places;
static uint32_t first_files; /* that were there when the program began: nobody can unload them */

static int count_file(struct dl_phdr_info *info, size_t bytes, void *count)
{
	(void)info, (void)bytes;
	++*(uint32_t *)count;
	return 0;
}

/* kymo_loader_begin: before the program's main, where a library with us in it was not loaded later. */
void kymo_loader_begin(void)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;
	void *at;

	dl_iterate_phdr(count_file, &first_files);
	if (!gnu_get_libc_version || !dlsym || !dladdr1)
		return;
	at = dlsym(RTLD_DEFAULT, "_rtld_global");
	if (!at || !dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    info.dli_saddr != at || symbol->st_size > GLOBAL_BYTES_MAX || (uintptr_t)at % sizeof(uint64_t))
		return;
	global = at;
	global_words = (uint32_t)(symbol->st_size / sizeof(uint64_t));
}

/* kymo_loader_first_files: of a list of files in the loader's order, so many at its begin cannot be unloaded. */
uint32_t kymo_loader_first_files(void)
{
	return first_files;
}

/*
 * kymo_loader_learn: the loader tells that it has loaded count files so far.
 * Context: the helper thread, in a callback of dl_iterate_phdr: the counter cannot change meanwhile.
 */
void kymo_loader_learn(uint64_t count)
{
	uint32_t kept = 0;

	if (!has_places) {
		for (uint32_t at = 0; at < global_words; at++) {
			if (__atomic_load_n(&global[at], __ATOMIC_RELAXED) != count)
				continue;
			if (kept == WORDS_MAX)
				return; /* too many: with another count */
			places[kept++] = (uint16_t)at;
		}
		has_places = true;
	} else {
		for (uint32_t i = 0; i < place_count; i++)
			if (__atomic_load_n(&global[places[i]], __ATOMIC_RELAXED) == count)
				places[kept++] = places[i];
	}
	__atomic_store_n(&place_count, kept, __ATOMIC_RELEASE);
}

/* kymo_loader_is_unchanged: no file was loaded since the loader told this count. True also where that is not known. */
bool kymo_loader_is_unchanged(uint64_t count)
{
	uint32_t known = __atomic_load_n(&place_count, __ATOMIC_ACQUIRE);

	known = known < WORDS_MAX ? known : WORDS_MAX;
	for (uint32_t i = 0; i < known; i++)
		if (__atomic_load_n(&global[__atomic_load_n(&places[i], __ATOMIC_RELAXED)], __ATOMIC_RELAXED) != count)
			return false;
	return true;
}

/*
 * kymo_loader_find: the search table of the file that pc is in, 0 where it is in none. Returns false where the loader
 * cannot be asked.
 * Context: any; glibc's function takes no lock.
 */
bool kymo_loader_find(uintptr_t pc, uintptr_t *search_table)
{
#ifdef HAS_FIND_OBJECT
	struct dl_find_object found;

	if (_dl_find_object) {
		*search_table = _dl_find_object((void *)pc, &found) ? 0 : (uintptr_t)found.dlfo_eh_frame;
		return true;
	}
#endif
	(void)pc, (void)search_table;
	return false;
}
