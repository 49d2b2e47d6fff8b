/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime_dir.c: the directory in which programs and collectors find each other [session.md 1], our
 * socket in it, and the sessions' sockets. Nothing here is called on the record path. Every failure
 * means: not traced, and nothing is printed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "runtime_dir.h"

/* Leftovers that one program looks at when it binds its own socket. */
#define STALE_LOOKS 16
/* A socket that refuses and is younger may not listen yet. */
#define STALE_AGE_S 1

static char own_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
static pid_t own_pid;

static bool directory(char *path, size_t bytes)
{
	const char *set = secure_getenv("KYMO_RUNTIME_DIR");
	const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
	struct stat info;
	int used;

	if (set && *set)
		used = snprintf(path, bytes, "%s", set);
	else if (geteuid() == 0)
		used = snprintf(path, bytes, "/run/kymo");
	else if (xdg && *xdg)
		used = snprintf(path, bytes, "%s/kymo", xdg);
	else
		used = snprintf(path, bytes, "/tmp/kymo-%u", (unsigned)geteuid());
	if (used < 0 || (size_t)used >= bytes)
		return false;
	if (mkdir(path, 0700) && errno != EEXIST)
		return false;
	/* A directory of somebody else's, a link to one, or one that others can write is a trap. */
	return !lstat(path, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
	       !(info.st_mode & 022);
}

static bool address(struct sockaddr_un *to, const char *dir, const char *name)
{
	int used;

	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	used = snprintf(to->sun_path, sizeof(to->sun_path), "%s/%s", dir, name);
	return used > 0 && (size_t)used < sizeof(to->sun_path);
}

void kymo_set_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static int connect_to(const char *dir, const char *name)
{
	struct sockaddr_un to;
	int fd;

	if (!address(&to, dir, name))
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	/* Without waiting: a collector whose queue is full will find us by our own socket. */
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

void kymo_each_session(void (*found)(int fd))
{
	char dir[sizeof(own_path)];
	struct dirent *entry;
	DIR *stream;

	if (!directory(dir, sizeof(dir)))
		return;
	stream = opendir(dir);
	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		int fd;

		if (strncmp(entry->d_name, "s.", 2))
			continue;
		fd = connect_to(dir, entry->d_name);
		if (fd < 0)
			continue;
		/* Sends wait, within their bound; receives say MSG_DONTWAIT. */
		kymo_set_blocking(fd);
		found(fd);
	}
	closedir(stream);
}

static bool is_old(const char *path)
{
	struct timespec now;
	struct stat info;

	clock_gettime(CLOCK_REALTIME, &now);
	return !lstat(path, &info) && now.tv_sec - info.st_ctime > STALE_AGE_S;
}

/* Programs that ended without cleaning up leave their sockets; each newcomer removes a few. */
static void remove_stale(const char *dir)
{
	DIR *stream = opendir(dir);
	struct dirent *entry;
	int looks = 0;

	if (!stream)
		return;
	while (looks < STALE_LOOKS && (entry = readdir(stream))) {
		struct sockaddr_un path;
		long pid;
		int fd;

		if (strncmp(entry->d_name, "p.", 2))
			continue;
		looks++;
		pid = strtol(entry->d_name + 2, NULL, 10);
		if (pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH)
			continue;
		/*
		 * Dead as far as we see; another pid namespace may see it alive, or about to
		 * listen.
		 */
		fd = connect_to(dir, entry->d_name);
		if (fd >= 0)
			close(fd);
		else if (errno == ECONNREFUSED && address(&path, dir, entry->d_name) &&
			 is_old(path.sun_path))
			unlink(path.sun_path);
	}
	closedir(stream);
}

int kymo_bind_own(uint32_t nonce)
{
	char dir[sizeof(own_path)], name[40];
	struct sockaddr_un at;
	int fd;

	if (!directory(dir, sizeof(dir)))
		return -1;
	remove_stale(dir);
	snprintf(name, sizeof(name), "p.%d.%08x", (int)getpid(), (unsigned)nonce);
	if (!address(&at, dir, name))
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	/* The name will have this mode, whatever the umask and the directory are. */
	fchmod(fd, 0600);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 16)) {
		close(fd);
		return -1;
	}
	memcpy(own_path, at.sun_path, sizeof(own_path));
	own_pid = getpid();
	return fd;
}

static void __attribute__((destructor)) unbind_own(void)
{
	if (own_path[0] && own_pid == getpid())
		unlink(own_path);
}
