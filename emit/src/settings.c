/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * settings.c: what the environment asks of libkymo [session.md 1]. Read once, by the thread that loads
 * libkymo. The program may change its environment whenever it likes, with setenv() or otherwise, and a
 * program with one thread needs no lock for that: getenv() by libkymo's helper thread would read an array
 * that is being moved, and end the program by SIGSEGV. emit/tests/run.sh checks that nothing else reads it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "settings.h"

struct kymo_settings kymo_settings;

/* A copy: the program may change the text, too. What is too long is cut, and is then none of the known words. */
static void copy(char *to, size_t bytes, const char *name)
{
	const char *value = secure_getenv(name);
	size_t length = value ? strnlen(value, bytes - 1) : 0;

	if (value)
		memcpy(to, value, length);
	to[length] = 0;
}

/* KYMO_START_WAIT: milliseconds; anything else is no wish. */
static int startup_wait(void)
{
	const char *wait = secure_getenv("KYMO_START_WAIT");
	char *end;
	long ms;

	if (!wait)
		return -1;
	ms = strtol(wait, &end, 10);
	return end != wait && !*end && ms >= 0 && ms <= KYMO_STARTUP_WAIT_MAX_MS ? (int)ms : -1;
}

/*
 * kymo_settings_read: once; later calls do nothing.
 * Context: under kymo_lock; at the first registration, which the loader or main's thread makes.
 */
void kymo_settings_read(void)
{
	const char *blocking, *preload;

	if (kymo_settings.is_read)
		return;
	blocking = secure_getenv("KYMO_ALLOW_BLOCKING");
	preload = secure_getenv("LD_PRELOAD");
	kymo_settings.is_disabled = secure_getenv("KYMO_DISABLE") != NULL;
	kymo_settings.without_thread = secure_getenv("KYMO_NO_THREAD") != NULL;
	kymo_settings.may_block = blocking && !strcmp(blocking, "1");
	kymo_settings.is_under_valgrind = preload && strstr(preload, "vgpreload");
	kymo_settings.startup_wait_ms = startup_wait();
	copy(kymo_settings.clock, sizeof(kymo_settings.clock), "KYMO_CLOCK");
	copy(kymo_settings.ring, sizeof(kymo_settings.ring), "KYMO_RING");
	copy(kymo_settings.runtime_dir, sizeof(kymo_settings.runtime_dir), "KYMO_RUNTIME_DIR");
	copy(kymo_settings.xdg_runtime_dir, sizeof(kymo_settings.xdg_runtime_dir), "XDG_RUNTIME_DIR");
	kymo_settings.is_read = true;
}
