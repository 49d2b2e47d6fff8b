/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dir.c: the directory in which processes with streams find each other [posix.md 5]: one of each
 * user, in memory. Paths are made once; what is called behind fork makes system calls only.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux.h"

static char directory[KYMOP_PATH_BYTES - 32], parent[KYMOP_PATH_BYTES - 40];

static uid_t owner; /* the user whose directory it is */

/* KYMO_RUNTIME_DIR must be the same for all processes of a stream. Read once: getenv is not for handlers. */
void kymop_dir_init(void)
{
	const char *set = secure_getenv("KYMO_RUNTIME_DIR");

	/* A relative path would be another one wherever the process goes. */
	if (set && *set == '/' && strlen(set) < sizeof(parent))
		memcpy(parent, set, strlen(set) + 1);
}

/* text, and the decimal digits of a number behind it. */
static size_t with_number(char *to, const char *text, uint32_t number)
{
	size_t length = strlen(text), count = 0;
	char digits[12];

	memcpy(to, text, length);
	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (count)
		to[length++] = digits[--count];
	to[length] = 0;
	return length;
}

/* The directory of the user that the process runs for now: a process may give up being root. */
bool kymop_dir_make(void)
{
	struct stat info;

	owner = geteuid();
	if (parent[0]) {
		mkdir(parent, 0700);
		memcpy(directory, parent, strlen(parent));
		memcpy(directory + strlen(parent), "/posix", 7);
	} else {
		with_number(directory, "/dev/shm/kymo-posix-", owner);
	}
	if (mkdir(directory, 0700) && errno != EEXIST)
		return false;
	/* One of somebody else's, a link to one, or one that others can write is a trap. */
	return !lstat(directory, &info) && S_ISDIR(info.st_mode) && info.st_uid == owner &&
	       !(info.st_mode & 022);
}

uint32_t kymop_dir_owner(void)
{
	return owner;
}

void kymop_path(char *path, char kind, uint32_t number)
{
	size_t length = strlen(directory);
	const char name[] = { '/', kind, '.', 0 };

	memcpy(path, directory, length);
	with_number(path + length, name, number);
}

int kymop_dir_open(char kind, uint32_t number, int flags)
{
	char path[KYMOP_PATH_BYTES];

	kymop_path(path, kind, number);
	return open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void kymop_dir_unlink(char kind, uint32_t number)
{
	char path[KYMOP_PATH_BYTES];

	kymop_path(path, kind, number);
	unlink(path);
}

/* Held until the descriptor is closed. One makes streams at a time. */
int kymop_dir_lock(void)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = kymop_dir_open('l', 0, O_CREAT);

	if (fd < 0)
		return -1;
	while (fcntl(fd, F_SETLKW, &whole))
		if (errno != EINTR) {
			close(fd);
			return -1;
		}
	return fd;
}

/* Pages and names of processes that were killed. */
void kymop_dir_sweep(void)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		char kind = entry->d_name[0];
		long pid;

		if ((kind != 'p' && kind != 'n') || entry->d_name[1] != '.')
			continue;
		pid = strtol(entry->d_name + 2, NULL, 10);
		if (pid > 0 && kill((pid_t)pid, 0) && errno == ESRCH)
			kymop_dir_unlink(kind, (uint32_t)pid);
	}
	closedir(stream);
}

/* Shared, and to be written; over at, where that is not null. Null: refused. */
void *kymop_map(int fd, size_t bytes, void *at)
{
	void *got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	return got == MAP_FAILED ? NULL : got;
}
