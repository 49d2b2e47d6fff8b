/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel.h: what the tests of events of the kernel share [posix.md 10]. They skip themselves where
 * tracefs cannot be had; each has a mount of its own, to look for what is left there.
 */
#ifndef KYMO_POSIX_TEST_KERNEL_H
#define KYMO_POSIX_TEST_KERNEL_H

#include "test.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define WITH_KERNEL                                                                                \
	(KYMO_POSIX_EVENT_CONTEXT_SWITCH && KYMO_POSIX_EVENT_SYSTEM_CALL && KYMO_POSIX_EVENT_LOCK)

#if WITH_KERNEL
#define ALL (POSIX_TRACE_KERNEL_SWITCH | POSIX_TRACE_KERNEL_CALL | POSIX_TRACE_KERNEL_LOCK)
#endif

#if WITH_KERNEL && KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS
static char instances[256];

/* Instances that this process, or the one given, has made. */
static int count_instances(pid_t pid)
{
	DIR *stream = opendir(instances);
	char begin[32];
	int count = 0;

	EXPECT(stream);
	snprintf(begin, sizeof(begin), "kymo-%ld-", (long)pid);
	for (struct dirent *entry; (entry = readdir(stream));)
		count += !strncmp(entry->d_name, begin, strlen(begin));
	closedir(stream);
	return count;
}

static void skip(const char *why)
{
	printf("  no events of the kernel here: %s\n", why);
	fflush(stdout);
	_exit(77);
}

/* tracefs in a mount namespace of our own, which ends with the test, and in its directory. */
static void have_tracefs(void)
{
	char dir[200];

	if (geteuid())
		skip("the tests do not run as root");
	EXPECT(getcwd(dir, sizeof(dir) - 16));
	strcat(dir, "/tracefs");
	EXPECT(!mkdir(dir, 0700));
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("nodev", dir, "tracefs", 0, NULL))
		skip("tracefs cannot be mounted");
	snprintf(instances, sizeof(instances), "%s/instances", dir);
	setenv("KYMO_TRACEFS", dir, 1);
	if (access(instances, X_OK))
		skip("no instances in tracefs");
}

static trace_attr_t attr_of(int events, size_t stream_bytes)
{
	trace_attr_t attr = attr_with(0, stream_bytes, 0);

	EQUAL(posix_trace_attr_setkernelevents(&attr, events), 0);
	return attr;
}

static trace_id_t stream_of(pid_t pid, int events)
{
	trace_attr_t attr = attr_of(events, 8 << 20);
	trace_id_t trid;
	int error = posix_trace_create(pid, &attr, &trid);

	if (error == ENOTSUP && (events & POSIX_TRACE_KERNEL_LOCK))
		skip("this kernel does not tell of its locks");
	EQUAL(error, 0);
	return trid;
}

static void end(trace_id_t trid)
{
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(count_instances(getpid()), 0);
}

static long thread_here(void)
{
	return syscall(SYS_gettid);
}

static bool is_kernel(const struct got *got)
{
	return got->info.posix_event_id >= POSIX_TRACE_CONTEXT_SWITCH &&
	       got->info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT;
}

/* The next event of the kernel or of the user; times do not go back. */
static bool take_any(trace_id_t trid, struct got *got)
{
	static struct timespec last;

	while (take(trid, got)) {
		const struct timespec *now = &got->info.posix_timestamp;

		EXPECT(now->tv_sec > last.tv_sec ||
		       (now->tv_sec == last.tv_sec && now->tv_nsec >= last.tv_nsec));
		last = *now;
		if (is_kernel(got) || got->info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT)
			return true;
	}
	return false;
}

#define DATA_OF(type, name, got)                                                                   \
	struct type name;                                                                          \
	EQUAL((got)->bytes, sizeof(name));                                                         \
	memcpy(&name, (got)->data, sizeof(name))

static bool is_entry(const struct got *got, long number)
{
	struct posix_trace_system_call_entry entry;

	memcpy(&entry, got->data, sizeof(entry));
	return got->info.posix_event_id == POSIX_TRACE_SYSTEM_CALL_ENTRY && entry.posix_number == number;
}

static bool is_exit(const struct got *got, long number)
{
	struct posix_trace_system_call_exit done;

	memcpy(&done, got->data, sizeof(done));
	return got->info.posix_event_id == POSIX_TRACE_SYSTEM_CALL_EXIT && done.posix_number == number;
}
#endif
#endif
