/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * environment.c: libkymo reads the environment when it is loaded, and never again [settings.c]: not in
 * its helper thread, in the program or in a forked child, beside which the program may call setenv(). Run
 * with a KYMO_RUNTIME_DIR of its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCAL_IS_FOUND
#include "local.h"

KYMO_EVENT(environment, event)

extern char **environ;
static bool has_begun;
static uint32_t at_start, wrong;
static char first_wrong[64];

/* In the place of the C library's. */
static char *looked_up(const char *name)
{
	size_t length = strlen(name);

	if (!has_begun && syscall(SYS_gettid) == getpid())
		__atomic_add_fetch(&at_start, 1, __ATOMIC_RELAXED);
	else if (!__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED))
		snprintf(first_wrong, sizeof(first_wrong), "%s", name);
	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, name, length) && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

char *getenv(const char *name)
{
	return looked_up(name);
}

char *secure_getenv(const char *name)
{
	return looked_up(name);
}

/* Whether libkymo's helper thread of this process has come so far that others find it. */
static bool is_found(const char *dir)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;
	char own[32];
	bool found = false;

	if (!entries)
		return false;
	snprintf(own, sizeof(own), "p.%d.", (int)getpid());
	while (!found && (entry = readdir(entries)))
		found = !strncmp(entry->d_name, own, strlen(own));
	closedir(entries);
	return found;
}

static void wait_until_found(const char *dir, const char *who)
{
	for (int turn = 0; !is_found(dir); turn++) {
		CHECK(turn < 2000, "%s: no socket of its own after 20 s", who);
		usleep(10000);
	}
}

int main(void)
{
	char dir[256];
	int status;
	pid_t child;

	has_begun = true;
	for (char **at = environ; *at; at++)
		if (!strncmp(*at, "KYMO_RUNTIME_DIR=", 17))
			snprintf(dir, sizeof(dir), "%s", *at + 17);
	wait_until_found(dir, "the program");
	child = fork();
	CHECK(child >= 0, "fork");
	if (!child) {
		wait_until_found(dir, "the child");
		CHECK(!wrong, "a child: %u times, first %s", wrong, first_wrong);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "the child: status %x", (unsigned)status);
	kymo_trace(environment, event);
	CHECK(at_start > 0, "the environment is read in another way than by getenv");
	CHECK(!wrong, "%u times after the start or by another thread, first %s", wrong, first_wrong);
	printf("the environment is read at the start alone, %u times\n", at_start);
	return 0;
}
