/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * file.c: logs as files, pipes, sockets and devices. A log that cannot be written gives an error,
 * never a signal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "linux.h"

#if KYMO_POSIX_LOG

/*
 * kymop_file_check: LOOP and UNTIL_FULL write at places, so they need a regular file without
 * O_APPEND; APPEND takes whatever can be written to. Returns: 0; EBADF; EINVAL.
 */
int kymop_file_check(int file, int policy, bool *can_seek)
{
	int flags = fcntl(file, F_GETFL);
	struct stat info;

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) || fstat(file, &info))
		return EBADF;
	*can_seek = S_ISREG(info.st_mode) && !(flags & O_APPEND);
	return *can_seek || policy == KYMOP_APPEND ? 0 : EINVAL;
}

/* How long a process that ends waits for what its pipes do not take. */
#define HURRY_NS 1000000000ull
#define POLL_MS 20
/* So many bytes a pipe takes without waiting when it is ready; Linux's PIPE_BUF. */
#define PIECE_BYTES 4096u

static uint64_t hurry_until; /* CLOCK_MONOTONIC; 0: there is no hurry */

void kymop_file_hurry(void)
{
	__atomic_store_n(&hurry_until, kymop_clock_read(KYMO_CLOCK_MONOTONIC) + HURRY_NS,
			 __ATOMIC_RELAXED);
}

/* Until a pipe, socket or device takes something. EAGAIN: the process ends, and it does not. */
static int wait_ready(int file)
{
	struct pollfd ready = { .fd = file, .events = POLLOUT };

	for (;;) {
		uint64_t until = __atomic_load_n(&hurry_until, __ATOMIC_RELAXED);
		int got = poll(&ready, 1, POLL_MS);

		if (got > 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return errno;
		if (until && kymop_clock_read(KYMO_CLOCK_MONOTONIC) > until)
			return EAGAIN;
	}
}

/* *done counts what was written, also where it was not all. */
static int write_all(int file, uint64_t offset, const uint8_t *bytes, size_t count, size_t *done)
{
	bool has_place = offset != UINT64_MAX;
	bool waits = !has_place && !(fcntl(file, F_GETFL) & O_NONBLOCK);

	while (*done < count) {
		size_t piece = count - *done;
		int error = waits ? wait_ready(file) : 0;
		ssize_t got;

		if (error)
			return error;
		if (waits && piece > PIECE_BYTES)
			piece = PIECE_BYTES;
		got = has_place ? pwrite(file, bytes + *done, piece, (off_t)(offset + *done)) :
				  write(file, bytes + *done, piece);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? errno : ENOSPC;
		*done += (size_t)got;
	}
	return 0;
}

/* With SIGXFSZ and SIGPIPE held back: what the write has raised is taken away again. */
int kymop_file_write(int file, uint64_t offset, const void *bytes, size_t count, size_t *done)
{
	static const struct timespec at_once;
	sigset_t held, before, pending;
	int error;

	sigemptyset(&held);
	sigaddset(&held, SIGXFSZ);
	sigaddset(&held, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &held, &before);
	sigpending(&pending);
	*done = 0;
	error = write_all(file, offset, bytes, count, done);
	if (sigismember(&pending, SIGXFSZ))
		sigdelset(&held, SIGXFSZ);
	if (sigismember(&pending, SIGPIPE))
		sigdelset(&held, SIGPIPE);
	if (error)
		sigtimedwait(&held, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int kymop_file_cut(int file, uint64_t bytes)
{
	while (ftruncate(file, (off_t)bytes))
		if (errno != EINTR)
			return errno;
	return 0;
}

void *kymop_alloc(size_t bytes)
{
	void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

void kymop_free(void *at, size_t bytes)
{
	munmap(at, bytes);
}

/* A version 4 UUID; it need not be secret. */
void kymop_uuid(uint64_t uuid[2])
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes)) {
		uint64_t now[2] = { kymop_clock_read(KYMO_CLOCK_MONOTONIC), (uint64_t)getpid() };

		memcpy(bytes, now, sizeof(bytes));
	}
	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
	memcpy(uuid, bytes, sizeof(bytes));
}
#endif

#if KYMO_POSIX_RETRIEVAL
/*
 * kymop_file_map: a file is mapped privately; what cannot be mapped (a pipe) is read to its end.
 * Returns: 0; EBADF; EINVAL, nothing that can be read; ENOMEM.
 */
int kymop_file_map(int file, const uint8_t **at, size_t *bytes)
{
	int flags = fcntl(file, F_GETFL);
	struct stat info;
	uint8_t *copy;
	size_t done = 0;

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || fstat(file, &info))
		return EBADF;
	if (!S_ISREG(info.st_mode) || info.st_size <= 0)
		return EINVAL;
	/* A copy: a mapped file that is cut while it is read would be a signal. */
	*bytes = (size_t)info.st_size;
	copy = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (copy == MAP_FAILED)
		return ENOMEM;
	while (done < *bytes) {
		ssize_t got = pread(file, copy + done, *bytes - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	*at = copy;
	return 0;
}

void kymop_file_unmap(const uint8_t *at, size_t bytes)
{
	munmap((void *)(uintptr_t)at, bytes);
}
#endif

#if !KYMO_POSIX_LOG && !KYMO_POSIX_RETRIEVAL
typedef int kymop_no_files; /* a file must not be empty */
#endif
