/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * descriptor.c: libkymo's descriptors beside those of the traced program [session.md 3]. The table
 * of descriptors belongs to the program: it may close any number, or put its own file there, at any
 * time. So the helper thread leaves that table and has one of its own. Where it cannot, what stays
 * open lies high, and is compared by device and inode before each use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "settings.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

/*
 * Numbers begin so far below the limit of the process. The kernel's table grows with the highest
 * number, and each fork copies it: hence an end to what is high.
 */
#define ROOM_BELOW_LIMIT 128u
#define HIGHEST 4096u

bool kymo_fd_table_is_own;

/* There where the program was built with ThreadSanitizer. */
extern void __tsan_init(void) __attribute__((weak));

/*
 * Valgrind warns of system calls that it does not know. ThreadSanitizer takes one number in two tables
 * for one descriptor, and reports a race.
 */
static bool is_under_a_checker(void)
{
	return kymo_settings.is_under_valgrind || __tsan_init;
}

/* kymo_fd_can_own_table: whether kymo_fd_own_table will do what it is for. */
bool kymo_fd_can_own_table(void)
{
	return !is_under_a_checker() && !syscall(SYS_close_range, ~0u, ~0u, 0);
}

/*
 * kymo_fd_own_table: gives the calling thread an empty descriptor table. The program's stays as it
 * is. Where the system has no such call, or a sandbox forbids it, nothing changes.
 * Context: the helper thread, before it opens anything.
 */
void kymo_fd_own_table(void)
{
	kymo_fd_table_is_own = kymo_fd_can_own_table() &&
			       !syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE);
	/* What a library prints must not go to a collector: 0 to 2 are nobody's. */
	if (kymo_fd_table_is_own && !open("/dev/null", O_RDWR | O_CLOEXEC)) {
		dup(0);
		dup(0);
	}
}

/* Where high numbers begin. */
static int high_start(void)
{
	struct rlimit files;
	rlim_t end = HIGHEST;

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < end)
		end = files.rlim_cur;
	return (int)(end > 2 * ROOM_BELOW_LIMIT ? end - ROOM_BELOW_LIMIT : end / 2);
}


/* kymo_fd_note: remembers what fd, which was just made, refers to. */
struct kymo_fd kymo_fd_note(int fd)
{
	struct stat info;

	if (fd < 0 || fstat(fd, &info))
		return KYMO_FD_NONE;
	return (struct kymo_fd){ .number = fd, .device = info.st_dev, .inode = info.st_ino };
}

/*
 * kymo_fd_raise: moves a descriptor that was just made to a high number, out of the way of programs
 * that count on low ones. At once: as long as it is low, a program that closes all numbers may close it,
 * and have a file of its own there. Returns the new number, or fd where that is not possible; -1: it was
 * closed, or replaced.
 */
int kymo_fd_raise(int fd)
{
	struct kymo_fd low = kymo_fd_note(fd), high;

	if (fd < 0 || fd >= high_start())
		return fd;
	if (low.number < 0)
		return -1;
	high = kymo_fd_note(fcntl(fd, F_DUPFD_CLOEXEC, high_start()));
	if (high.number < 0)
		return fd;
	if (high.device != low.device || high.inode != low.inode) {
		kymo_fd_close(&high);
		errno = EBADF;
		return -1;
	}
	kymo_fd_close(&low);
	return high.number;
}

/* kymo_fd_new: a descriptor that was just made, moved out of the way where the program has it, too. */
int kymo_fd_new(int fd)
{
	int error = errno;

	if (!kymo_fd_table_is_own && fd >= 0)
		fd = kymo_fd_raise(fd);
	else
		errno = error;
	return fd;
}

/* kymo_fd_keep: the same, kept. */
struct kymo_fd kymo_fd_keep(int fd)
{
	return kymo_fd_note(kymo_fd_new(fd));
}

/* kymo_fd_is_ours: the number still refers to what was kept. False where there is none. */
bool kymo_fd_is_ours(const struct kymo_fd *kept)
{
	struct stat info;

	return kept->number >= 0 && !fstat(kept->number, &info) && info.st_dev == kept->device &&
	       info.st_ino == kept->inode;
}

/*
 * kymo_fd_close: closes it, unless the number is somebody else's by now. A bare system call: close(3) is a
 * place where threads are cancelled, and a tracepoint is none.
 */
void kymo_fd_close(struct kymo_fd *kept)
{
	if (kymo_fd_is_ours(kept))
		syscall(SYS_close, kept->number);
	*kept = KYMO_FD_NONE;
}

/*
 * kymo_fd_read_text: the begin of a file of the kernel; "" where it cannot be read. Without stdio, here
 * and in all of libkymo: a stream that is open while another thread forks is one of the child's streams
 * too, and the child's exit() moves the position of whatever file has the stream's number there.
 */
void kymo_fd_read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
}
