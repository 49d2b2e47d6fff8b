/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime_dir.c: the directory in which programs and collectors find each other [session.md 1], our
 * socket in it, and the sessions' sockets. Nothing here is called on the record path. Every failure
 * means: not traced, and nothing is printed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"
#include "runtime_dir.h"
#include "settings.h"

/* Leftovers that one program looks at when it binds its own socket. */
#define STALE_LOOKS 16
/* Sessions that were there and could not be reached; the newest are kept. */
#define MISSED_MAX 16u
/* A socket that refuses and is younger may not listen yet. */
#define STALE_AGE_S 1

static char own_path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* empty: there is none */
static pid_t own_pid;
static uint32_t missed[MISSED_MAX], missed_count;
static bool is_ending; /* the process: no name must appear any more */
static struct kymo_dir_id first_root; /* the root directory of the first process: a child inherits this */
/* The end of the process beside a helper thread that binds. */
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(struct kymo_dir_id a, struct kymo_dir_id b)
{
	return a.device == b.device && a.inode == b.inode;
}

/* Only absolute paths: else a directory would be made wherever the program is at that moment. */
static bool runtime_name(char *path, size_t bytes)
{
	const char *set = kymo_settings.runtime_dir, *xdg = kymo_settings.xdg_runtime_dir;
	int used;

	if (*set && *set != '/')
		return false;
	if (*set)
		used = snprintf(path, bytes, "%s", set);
	else if (geteuid() == 0)
		used = snprintf(path, bytes, "/run/kymo");
	else if (*xdg == '/')
		used = snprintf(path, bytes, "%s/kymo", xdg);
	else
		used = snprintf(path, bytes, "/tmp/kymo-%u", (unsigned)geteuid());
	return used >= 0 && (size_t)used < bytes;
}

static struct kymo_dir_id id_of(const char *path)
{
	struct stat info;

	return lstat(path, &info) ? (struct kymo_dir_id){ 0 } :
				    (struct kymo_dir_id){ info.st_dev, info.st_ino };
}

/* kymo_runtime_dir_id: of the directory that this process uses now; zeros where there is none. */
struct kymo_dir_id kymo_runtime_dir_id(void)
{
	char path[sizeof(own_path)];

	return runtime_name(path, sizeof(path)) ? id_of(path) : (struct kymo_dir_id){ 0 };
}

/* It is made where there is none, but not for a program that has changed its root: what is there is not ours. */
static bool runtime_path(char *path, size_t bytes)
{
	struct stat info;

	if (!runtime_name(path, bytes))
		return false;
	if (is_same(id_of("/"), first_root) && mkdir(path, 0700) && errno != EEXIST)
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

static void set_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* Closes what was opened for a moment, unless the program has its own file there by now. Leaves errno. */
static void close_ours(int fd, struct kymo_fd *noted)
{
	int error = errno;

	if (fd >= 0)
		kymo_fd_close(noted);
	errno = error;
}

/*
 * A directory that is read by system calls: opendir() allocates, and what the helper thread allocates would be recorded
 * as the program's.
 */
struct directory {
	struct kymo_fd fd;
	uint32_t at, bytes;
	char entries[2048] __attribute__((aligned(8)));
};

/* As the kernel gives it. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static bool open_directory(const char *path, struct directory *directory)
{
	directory->fd = kymo_fd_keep(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	directory->at = directory->bytes = 0;
	return directory->fd.number >= 0;
}

/* The next name, until the next call; NULL at the end, or where the number is the program's by now. */
static const char *next_name(struct directory *directory)
{
	const struct entry *entry;

	if (directory->at == directory->bytes) {
		long got = -1;

		if (kymo_fd_is_ours(&directory->fd))
			got = syscall(SYS_getdents64, directory->fd.number, directory->entries,
				      sizeof(directory->entries));
		if (got <= 0)
			return NULL;
		directory->at = 0;
		directory->bytes = (uint32_t)got;
	}
	entry = (const struct entry *)(const void *)(directory->entries + directory->at);
	directory->at += entry->bytes;
	return entry->name;
}

static int connect_to(const char *dir, const char *name)
{
	struct sockaddr_un to;
	struct kymo_fd noted;
	int fd;

	if (!address(&to, dir, name))
		return -1;
	fd = kymo_fd_new(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -1;
	noted = kymo_fd_note(fd);
	/* Without waiting: a collector whose queue is full will find us by our own socket. */
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close_ours(fd, &noted);
		return -1;
	}
	return fd;
}

static bool is_session(const char *name)
{
	return !strncmp(name, "s.", 2);
}

/* The nonce behind the last dot of a name, 0 where there is none. */
static uint32_t nonce_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? (uint32_t)strtoul(dot + 1, NULL, 16) : 0;
}

/* A session that lives and could not be reached: its queue is full, or we have no descriptor. */
static void note_missed(const char *name)
{
	missed[missed_count++ % MISSED_MAX] = nonce_of(name);
}

/* kymo_was_missed: whether a session was there, and could not be reached, when we looked for it. */
bool kymo_was_missed(const char *session)
{
	uint32_t nonce = nonce_of(session);

	for (uint32_t i = 0; nonce && i < MISSED_MAX; i++)
		if (missed[i] == nonce)
			return true;
	return false;
}

void kymo_each_session(void (*found)(int fd))
{
	char dir[sizeof(own_path)];
	const char *name;
	struct directory directory;

	if (!runtime_path(dir, sizeof(dir)))
		return;
	if (!open_directory(dir, &directory))
		return;
	while ((name = next_name(&directory))) {
		int fd;

		if (!is_session(name))
			continue;
		fd = connect_to(dir, name);
		if (fd < 0) {
			if (errno != ECONNREFUSED && errno != ENOENT)
				note_missed(name);
			continue;
		}
		/* Sends wait, within their bound; receives say MSG_DONTWAIT. */
		set_blocking(fd);
		found(fd);
	}
	kymo_fd_close(&directory.fd);
}

/* Whether it is worth waiting for the helper thread: some session's socket is there. */
bool kymo_any_session(void)
{
	char dir[sizeof(own_path)];
	const char *name = NULL;
	struct directory directory;

	if (!runtime_path(dir, sizeof(dir)))
		return false;
	if (!open_directory(dir, &directory))
		return false;
	while ((name = next_name(&directory)) && !is_session(name))
		;
	kymo_fd_close(&directory.fd);
	return name;
}

/* A name of a session, and a socket's of its collector, end in the same nonce. */
static bool is_of_session(const char *socket_name, const char *session)
{
	const char *a = strrchr(socket_name, '.'), *b = strrchr(session, '.');

	return is_session(socket_name) && a && b && !strcmp(a, b);
}

/*
 * kymo_session_has_ended: its socket is gone, or refuses. What cannot be seen has not ended: nothing follows
 * from another directory than the one in which it was met. A child that has given up its user, or changed
 * its root, has another.
 */
bool kymo_session_has_ended(const char *session, struct kymo_dir_id met_in)
{
	char dir[sizeof(own_path)];
	const char *name;
	bool has_ended = true;
	struct directory directory;

	if (!runtime_name(dir, sizeof(dir)) || !is_same(id_of(dir), met_in))
		return false;
	if (!open_directory(dir, &directory))
		return false;
	while (has_ended && (name = next_name(&directory))) {
		struct kymo_fd noted;
		int fd;

		if (!is_of_session(name, session))
			continue;
		fd = connect_to(dir, name);
		has_ended = fd < 0 && (errno == ECONNREFUSED || errno == ENOENT);
		noted = kymo_fd_note(fd);
		close_ours(fd, &noted);
	}
	kymo_fd_close(&directory.fd);
	return has_ended;
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
	struct directory directory;
	const char *name;
	int looks = 0;

	if (!open_directory(dir, &directory))
		return;
	while (looks < STALE_LOOKS && (name = next_name(&directory))) {
		struct sockaddr_un path;
		struct kymo_fd noted;
		long pid;
		int fd;

		if (strncmp(name, "p.", 2))
			continue;
		looks++;
		pid = strtol(name + 2, NULL, 10);
		if (pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH)
			continue;
		/*
		 * Dead as far as we see; another pid namespace may see it alive, or about to
		 * listen.
		 */
		fd = connect_to(dir, name);
		noted = kymo_fd_note(fd);
		if (fd >= 0)
			close_ours(fd, &noted);
		else if (errno == ECONNREFUSED && address(&path, dir, name) &&
			 is_old(path.sun_path))
			unlink(path.sun_path);
	}
	kymo_fd_close(&directory.fd);
}

/* kymo_own_begin: in a new process, before its helper thread. */
void kymo_own_begin(void)
{
	pthread_mutex_init(&own_lock, NULL);
	if (!first_root.inode)
		first_root = id_of("/");
	own_pid = getpid();
	own_path[0] = 0;
	is_ending = false;
}

static int bind_at(const struct sockaddr_un *at)
{
	struct kymo_fd noted;
	int fd;

	fd = kymo_fd_new(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -1;
	noted = kymo_fd_note(fd);
	/* The name will have this mode, whatever the umask and the directory are. */
	fchmod(fd, 0600);
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, 16)) {
		close_ours(fd, &noted);
		return -1;
	}
	return fd;
}

int kymo_bind_own(uint32_t nonce)
{
	char dir[sizeof(own_path)], name[40];
	struct sockaddr_un at;
	int fd = -1;

	if (!runtime_path(dir, sizeof(dir)))
		return -1;
	remove_stale(dir);
	snprintf(name, sizeof(name), "p.%d.%08x", (int)getpid(), (unsigned)nonce);
	if (!address(&at, dir, name))
		return -1;
	pthread_mutex_lock(&own_lock);
	if (!is_ending)
		fd = bind_at(&at);
	if (fd >= 0)
		memcpy(own_path, at.sun_path, sizeof(own_path));
	pthread_mutex_unlock(&own_lock);
	return fd;
}

/* kymo_unbind_own: removes the name of our socket. */
void kymo_unbind_own(void)
{
	if (own_path[0])
		unlink(own_path);
	own_path[0] = 0;
}

static void __attribute__((destructor)) process_ends(void)
{
	/* Not in a child that the C library does not know of: it has our memory, and not our name. */
	if (own_pid != getpid())
		return;
	pthread_mutex_lock(&own_lock);
	is_ending = true;
	kymo_unbind_own();
	pthread_mutex_unlock(&own_lock);
}

/*
 * kymo_knock: wakes the helper thread: it sleeps in poll, with descriptors that the calling thread
 * does not have, and its own socket is among them. Returns false where that cannot be reached.
 */
bool kymo_knock(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct kymo_fd knock;
	bool is_heard;
	int fd;

	if (!own_path[0] || own_pid != getpid())
		return false;
	memcpy(to.sun_path, own_path, sizeof(to.sun_path));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	/* Another thread may do as it likes with this number meanwhile. */
	knock = kymo_fd_note(fd);
	is_heard = !connect(fd, (struct sockaddr *)&to, sizeof(to)) || errno == EAGAIN;
	kymo_fd_close(&knock);
	return is_heard;
}

/* kymo_peer_is_us: a connection of this process with itself. */
bool kymo_peer_is_us(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.pid == getpid();
}
