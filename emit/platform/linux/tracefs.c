/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tracefs.c: an instance of tracefs for one stream, and what dead controllers left [posix.md 10].
 * Names and locks are those of kymo's sessions [kernel.md 2], so each removes what the other left.
 * The buffer that all share, its events and its knobs are never touched.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "tracefs.h"

#if KYMOP_KERNEL

#define TRACEFS 0x74726163
#define MAKE_TRIALS 16
/* Removing waits for a child that was just forked, and has not closed what it has of the instance. */
#define REMOVE_TRIALS 100
#define REMOVE_PAUSE_NS 10000000L

/* As in <linux/mount.h>, which older systems do not have. */
#define FSOPEN_CLOEXEC_ 1u
#define FSMOUNT_CLOEXEC_ 1u
#define FSCONFIG_CREATE_ 6u
#define MOUNT_NOSUID_NODEV_NOEXEC 14u

/* Why something of tracefs cannot be had, as functions of streams say it. */
int kymop_tracefs_reason(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
	case EROFS:
		return EPERM;
	case EMFILE:
	case ENFILE:
		return EMFILE;
	case ENOMEM:
	case ENOSPC:
		return ENOMEM;
	default:
		return ENOTSUP;
	}
}

static int open_tracefs(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs info;

	if (fd >= 0 && (fstatfs(fd, &info) || info.f_type != TRACEFS)) {
		close(fd);
		fd = -1;
		errno = ENOENT;
	}
	return fd;
}

/* Blanks and the like are written \040 there. */
static void unescape(char *text)
{
	char *to = text;

	while (*text)
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] && text[3]) {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
			text += 4;
		} else {
			*to++ = *text++;
		}
	*to = '\0';
}

/* Opens what a line of /proc/self/mounts is about, if it is a tracefs: "DEVICE DIRECTORY TYPE ...". */
static int open_mount(char *line)
{
	char *rest, *directory, *type;

	if (!strtok_r(line, " ", &rest) || !(directory = strtok_r(NULL, " ", &rest)) ||
	    !(type = strtok_r(NULL, " ", &rest)) || strcmp(type, "tracefs"))
		return -1;
	unescape(directory);
	return open_tracefs(directory);
}

/*
 * Wherever else it is mounted. Without stdio: a stream that is open while another thread forks is one
 * of the child's streams too, and the child's exit() moves the position of this file.
 */
static int open_mounted(void)
{
	int file = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC), fd = -1;
	char text[2 * PATH_MAX];
	size_t have = 0;

	if (file < 0)
		return -1;
	while (fd < 0) {
		ssize_t got = read(file, text + have, sizeof(text) - 1 - have);
		char *line = text, *end;

		if (got <= 0)
			break;
		text[have += (size_t)got] = '\0';
		while (fd < 0 && (end = strchr(line, '\n'))) {
			*end = '\0';
			fd = open_mount(line);
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		/* A line that is longer than any path is none of a tracefs. */
		if (have == sizeof(text) - 1)
			have = 0;
	}
	close(file);
	return fd;
}

/* A mount that is in no namespace: nobody else sees it, and it ends with the descriptor. */
static int open_detached(void)
{
#if defined(SYS_fsopen) && defined(SYS_fsconfig) && defined(SYS_fsmount)
	int context = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC_), mount = -1, fd, error;

	if (context < 0)
		return -1;
	if (!syscall(SYS_fsconfig, context, FSCONFIG_CREATE_, NULL, NULL, 0))
		mount = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC_, MOUNT_NOSUID_NODEV_NOEXEC);
	error = errno;
	close(context);
	errno = error;
	if (mount < 0)
		return -1;
	fd = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = errno;
	close(mount);
	errno = error;
	return fd;
#else
	errno = ENOSYS;
	return -1;
#endif
}

/* In the order of kernel.md 1. */
static int open_root(void)
{
	static const char *const usual[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	const char *asked = secure_getenv("KYMO_TRACEFS");
	bool is_refused = false;
	int fd = -1;

	if (asked && *asked)
		return open_tracefs(asked);
	for (unsigned i = 0; i < 2 && fd < 0; i++) {
		fd = open_tracefs(usual[i]);
		is_refused |= fd < 0 && errno == EACCES;
	}
	if (fd < 0)
		fd = open_mounted();
	if (fd < 0)
		fd = open_detached();
	if (fd < 0 && is_refused)
		errno = EACCES;
	return fd;
}

/* kymo-PID-NONCE, the nonce 8 hexadecimal digits. */
static bool is_ours(const char *name)
{
	char *end;

	if (strncmp(name, "kymo-", 5) || name[5] < '0' || name[5] > '9')
		return false;
	strtoul(name + 5, &end, 10);
	return *end == '-' && strlen(end + 1) == 8 && strspn(end + 1, "0123456789abcdef") == 8;
}

/*
 * Opened, and locked; -1: another has the lock, or it is gone. Between opening and locking another may
 * have locked it, removed it, and gone.
 */
static int lock_directory(int instances, const char *name)
{
	int fd = openat(instances, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat ours, there;

	if (fd < 0)
		return -1;
	if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &ours) &&
	    !fstatat(instances, name, &there, AT_SYMLINK_NOFOLLOW) && ours.st_dev == there.st_dev &&
	    ours.st_ino == there.st_ino)
		return fd;
	close(fd);
	errno = EBUSY;
	return -1;
}

static bool write_text(int directory, const char *file, const char *text, int flags)
{
	int fd = openat(directory, file, O_WRONLY | O_CLOEXEC | flags), error;
	ssize_t length = (ssize_t)strlen(text);
	bool is_written;

	if (fd < 0)
		return false;
	is_written = write(fd, text, (size_t)length) == length;
	error = errno;
	close(fd);
	errno = error;
	return is_written;
}

static void quiet(int directory)
{
	write_text(directory, "tracing_on", "0", 0);
	write_text(directory, "events/enable", "0", 0);
}

/* Instances whose lock can be taken. What cannot be removed is somebody else's business. */
static void remove_dead(int instances)
{
	int copy = openat(instances, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!stream) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((entry = readdir(stream))) {
		int fd = is_ours(entry->d_name) ? lock_directory(instances, entry->d_name) : -1;

		if (fd < 0)
			continue;
		quiet(fd);
		unlinkat(instances, entry->d_name, AT_REMOVEDIR);
		close(fd);
	}
	closedir(stream);
}

static int make_directory(struct kymop_instance *instance, int instances)
{
	for (unsigned i = 0; i < MAKE_TRIALS; i++) {
		uint32_t nonce = (uint32_t)(kymop_clock_read(KYMO_CLOCK_MONOTONIC) * 2654435761u >> 7);

		snprintf(instance->name, sizeof(instance->name), "kymo-%ld-%08x", (long)getpid(), nonce);
		if (mkdirat(instances, instance->name, 0700)) {
			if (errno == EEXIST)
				continue;
			return kymop_tracefs_reason(errno);
		}
		instance->directory = lock_directory(instances, instance->name);
		if (instance->directory >= 0)
			return 0;
		/* Another controller took it for one that a dead one left, and removes it. */
		if (errno != EBUSY && errno != ENOENT) {
			int error = kymop_tracefs_reason(errno);

			unlinkat(instances, instance->name, AT_REMOVEDIR);
			return error;
		}
	}
	return ENOMEM;
}

/* kymop_instance_make: locked and stopped. Returns: 0; ENOTSUP; EPERM; ENOMEM; EMFILE. */
int kymop_instance_make(struct kymop_instance *instance)
{
	int instances, error;

	*instance = (struct kymop_instance){ .root = open_root(), .directory = -1, .guard = -1 };
	if (instance->root < 0)
		return kymop_tracefs_reason(errno);
	instances = openat(instance->root, "instances", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = instances < 0 ? kymop_tracefs_reason(errno) : 0;
	if (!error) {
		remove_dead(instances);
		error = make_directory(instance, instances);
		close(instances);
	}
	if (error) {
		close(instance->root);
		return error;
	}
	/* If we are killed: the kernel closes it. Older kernels do not know the option. */
	kymop_instance_write(instance, "options/disable_on_free", "1");
	instance->guard = kymop_instance_open(instance, "free_buffer", O_WRONLY);
	error = instance->guard < 0 ? kymop_tracefs_reason(errno) : kymop_instance_write(instance, "tracing_on", "0");
	if (error)
		kymop_instance_remove(instance);
	return error;
}

void kymop_instance_leave(struct kymop_instance *instance)
{
	if (instance->guard >= 0)
		close(instance->guard);
	close(instance->directory);
	close(instance->root);
}

/* All other files of it are closed. */
void kymop_instance_remove(struct kymop_instance *instance)
{
	struct timespec pause = { .tv_nsec = REMOVE_PAUSE_NS };
	char path[sizeof(instance->name) + 16];

	/* By its path: there may be no descriptor left. */
	snprintf(path, sizeof(path), "instances/%s", instance->name);
	quiet(instance->directory);
	if (instance->guard >= 0)
		close(instance->guard);
	instance->guard = -1;
	for (unsigned i = 0; i < REMOVE_TRIALS; i++) {
		if (!unlinkat(instance->root, path, AT_REMOVEDIR) || errno != EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	kymop_instance_leave(instance);
}

int kymop_instance_open(const struct kymop_instance *instance, const char *file, int flags)
{
	return openat(instance->directory, file, flags | O_CLOEXEC);
}

int kymop_instance_write(const struct kymop_instance *instance, const char *file, const char *text)
{
	/* With O_APPEND lists of threads become longer; other files do not care. */
	return write_text(instance->directory, file, text, O_APPEND) ? 0 : kymop_tracefs_reason(errno);
}

int kymop_instance_read(const struct kymop_instance *instance, const char *file, char *text,
			size_t bytes)
{
	int fd = kymop_instance_open(instance, file, O_RDONLY), error = 0;
	size_t done = 0;
	ssize_t got;

	if (fd < 0)
		return kymop_tracefs_reason(errno);
	while (done < bytes - 1 && (got = read(fd, text + done, bytes - 1 - done)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			error = kymop_tracefs_reason(errno);
			break;
		}
		done += (size_t)got;
	}
	text[done] = 0;
	close(fd);
	return error;
}
#else
typedef int kymop_no_tracefs; /* a file must not be empty */
#endif
