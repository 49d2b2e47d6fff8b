/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* log_faults.c: logs whose writer or file fails: pipes that break, full disks, killed controllers, damage. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <trace.h>

#if KYMO_POSIX_LOG && KYMO_POSIX_RETRIEVAL && KYMO_POSIX_USER_EVENTS

#include "log.h"

TEST("flush", log_broken_pipe, "a log that nobody reads any more is an error, not a signal")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_id_t trid;
	int ends[2];

	EQUAL(pipe(ends), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	close(ends[0]);
	EQUAL(posix_trace_flush(trid), EPIPE);
	EQUAL(status_of(trid).posix_stream_flush_error, EPIPE);
	EQUAL(status_of(trid).posix_stream_flush_error, 0);
	EQUAL(posix_trace_shutdown(trid), EPIPE);
}

TEST("flush", log_file_limit,
	"EFBIG: the file may not grow; no signal; what was recorded stays until there is room, and an "
	"ERROR event tells of it once")
{
	struct rlimit limit = { 1 << 17, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	int fd = file_named("log"), count;
	trace_id_t trid;
	struct got got;

	EQUAL(posix_trace_attr_setstreamsize(&attr, 1 << 18), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 6000; i++)
		emit_number(event, i);
	EQUAL(posix_trace_flush(trid), EFBIG);
	EQUAL(posix_trace_flush(trid), EFBIG);
	EQUAL(status_of(trid).posix_stream_flush_error, EFBIG);
	EQUAL(setrlimit(RLIMIT_FSIZE, &none), 0);
	EQUAL(posix_trace_flush(trid), 0);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 6000);
	EQUAL(posix_trace_rewind(trid), 0);
	for (count = 0; read_log(trid, &got);)
		if (got.info.posix_event_id == POSIX_TRACE_ERROR) {
			EQUAL(number_of(&got), EFBIG);
			count++;
		}
	EQUAL(count, 1);
}

TEST("flush", log_disk_full, "ENOSPC: the file system is full; what was written before can be read")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	trace_id_t trid;
	struct got got;
	int fd, error = 0, count;

	EQUAL(mkdir("small", 0700), 0);
	if (mount("none", "small", "tmpfs", 0, "size=256k")) {
		printf("SKIP log_disk_full: no permission to mount\n");
		return;
	}
	fd = open("small/log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	EXPECT(fd >= 0);
	EQUAL(posix_trace_attr_setstreamsize(&attr, 1 << 18), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 20000 && !error; i++) {
		emit_number(event, i);
		if (i % 1000 == 999)
			error = posix_trace_flush(trid);
	}
	EQUAL(error, ENOSPC);
	EQUAL(posix_trace_shutdown(trid), ENOSPC);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EXPECT(count > 1000);
	close(fd);
	EQUAL(umount("small"), 0);
}

TEST("exit", log_at_exit, "a process that exits shuts its streams down: the log has everything")
{
	int fd = file_named("log"), count;
	trace_id_t trid;
	struct got got;
	pid_t child = fork();

	if (!child) {
		trace_event_id_t event = event_named("e");

		EQUAL(posix_trace_create_withlog(0, NULL, fd, &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		for (int i = 0; i < 500; i++)
			emit_number(event, i);
		exit(0);
	}
	join(child);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 500);
}

TEST("2.11 controller killed", log_of_killed,
	"SIGKILL of a controller: the log has all up to the last flush, whole and in order")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_FLUSH, POSIX_TRACE_APPEND, 0);

	for (int round = 0; round < 30; round++) {
		int fd = file_named("log"), last = -1;
		struct stat info;
		trace_id_t trid;
		struct got got;
		pid_t child = fork();

		if (!child) {
			trace_event_id_t event = event_named("e");

			EQUAL(posix_trace_create_withlog(0, &attr, fd, &trid), 0);
			EQUAL(posix_trace_start(trid), 0);
			for (int i = 0;; i++) {
				emit_number(event, i);
				if (i % 50 == 0)
					usleep(50);
			}
		}
		do {
			usleep(500);
			EQUAL(fstat(fd, &info), 0);
		} while (info.st_size < 70000 + round * 1000);
		kill(child, SIGKILL);
		EQUAL(waitpid(child, NULL, 0), child);
		EQUAL(posix_trace_open(fd, &trid), 0);
		while (read_user(trid, &got)) {
			EXPECT(number_of(&got) > last);
			last = number_of(&got);
		}
		EXPECT(last > 100);
		EQUAL(posix_trace_close(trid), 0);
		close(fd);
	}
}

/* A log that is cut anywhere, or has wrong bytes anywhere. */
TEST("open", damaged_logs,
	"EINVAL or what is left: logs that were cut, and logs with wrong bytes, and never "
	"more than that")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_LOOP, 20000);
	unsigned char *bytes;
	int fd = file_named("log"), opened = 0, refused = 0;
	unsigned seed = 12345;
	struct stat info;
	trace_id_t trid;
	struct got got;

	write_log(fd, &attr, 900);
	EQUAL(fstat(fd, &info), 0);
	bytes = malloc((size_t)info.st_size);
	EQUAL(pread(fd, bytes, (size_t)info.st_size, 0), info.st_size);
	for (int round = 0; round < 3000; round++) {
		int damaged = file_named("damaged");
		size_t keep = (size_t)info.st_size;
		int error, last = -1;

		EQUAL(pwrite(damaged, bytes, keep, 0), keep);
		seed = seed * 1103515245 + 12345;
		if (round % 3 == 0) {
			EQUAL(ftruncate(damaged, seed % keep), 0);
		} else {
			unsigned char wrong = (unsigned char)(seed >> 16);
			/* The first pages more often: that is where the sizes are. */
			off_t at = round % 3 == 1 ? seed % keep : seed % 400;

			EQUAL(pwrite(damaged, &wrong, 1, at), 1);
		}
		error = posix_trace_open(damaged, &trid);
		EXPECT(error == 0 || error == EINVAL);
		close(damaged);
		if (error) {
			refused++;
			continue;
		}
		opened++;
		while (read_user(trid, &got)) {
			EXPECT(got.bytes == sizeof(int) && number_of(&got) > last);
			last = number_of(&got);
		}
		EQUAL(posix_trace_close(trid), 0);
	}
	EXPECT(opened > 100 && refused > 100);
}

/* Of a log: events, and what was reported of damage. */
struct found {
	int events, errors, overflows, resumes, last;
};

static struct found all_of(int fd)
{
	struct found found = { .last = -1 };
	struct got got;
	trace_id_t trid;

	EQUAL(posix_trace_open(fd, &trid), 0);
	while (read_log(trid, &got)) {
		found.errors += got.info.posix_event_id == POSIX_TRACE_ERROR &&
				number_of(&got) == EBADMSG; /* and not of a flush */
		found.overflows += got.info.posix_event_id == POSIX_TRACE_OVERFLOW;
		found.resumes += got.info.posix_event_id == POSIX_TRACE_RESUME;
		if (got.info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT)
			continue;
		EXPECT(number_of(&got) > found.last);
		found.last = number_of(&got);
		found.events++;
	}
	EQUAL(status_of(trid).posix_log_overrun_status,
	      found.overflows ? POSIX_TRACE_OVERRUN : POSIX_TRACE_NO_OVERRUN);
	EQUAL(posix_trace_close(trid), 0);
	return found;
}

#define LOG_EVENTS 2000
/* Of 4 bytes of data each, in blocks of 4096 bytes with a head of 64: at most. */
#define BLOCK_EVENTS 112

/* Where the n-th block of records begins; -1: there are fewer. */
static off_t block_at(int fd, int wanted)
{
	unsigned char head[64];
	struct stat info;

	EQUAL(fstat(fd, &info), 0);
	for (off_t at = 0; at < info.st_size; at += 4096) {
		EQUAL(pread(fd, head, sizeof(head), at), sizeof(head));
		if (!memcmp(head, "KYMILOG1", 8) && head[8] == 3 && !wanted--)
			return at;
	}
	return -1;
}

static int log_of_many(void)
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	int fd = file_named("log");

	EQUAL(posix_trace_attr_setstreamsize(&attr, 1 << 18), 0);
	write_log(fd, &attr, LOG_EVENTS);
	return fd;
}

TEST("getnext_event", log_flipped_bit,
	"one wrong bit: ERROR, OVERFLOW and RESUME stand where events are missing, and the log's status "
	"says so")
{
	unsigned char byte;
	struct found found;
	int fd = log_of_many();
	int blocks[3] = { 0, 8, 8 };
	off_t at;

	found = all_of(fd);
	EQUAL(found.events, LOG_EVENTS);
	EQUAL(found.errors + found.overflows + found.resumes, 0);
	/* The first block, one in the middle, the last. */
	while (block_at(fd, blocks[2] + 1) >= 0)
		blocks[2]++;
	for (int i = 0; i < 3; i++) {
		at = block_at(fd, blocks[i]) + 300;
		EQUAL(pread(fd, &byte, 1, at), 1);
		byte ^= 4;
		EQUAL(pwrite(fd, &byte, 1, at), 1);
		found = all_of(fd);
		EXPECT(found.events < LOG_EVENTS && found.events >= LOG_EVENTS - BLOCK_EVENTS);
		EQUAL(found.errors, 1);
		EQUAL(found.overflows, 1);
		EQUAL(found.resumes, i < 2);
		byte ^= 4;
		EQUAL(pwrite(fd, &byte, 1, at), 1);
	}
	/* A name's byte: no event is missing. */
	at = 4096 + 64 + 20;
	byte = '!';
	EQUAL(pwrite(fd, &byte, 1, at), 1);
	found = all_of(fd);
	EQUAL(found.events, LOG_EVENTS);
	EQUAL(found.errors, 1);
	EQUAL(found.overflows, 0);
}

TEST("getnext_event", log_doubled_block, "a block that stands twice in a log is read once")
{
	unsigned char block[4096];
	int fd = log_of_many();
	struct stat info;

	EQUAL(fstat(fd, &info), 0);
	EQUAL(pread(fd, block, sizeof(block), block_at(fd, 3)), sizeof(block));
	EQUAL(pwrite(fd, block, sizeof(block), info.st_size), sizeof(block));
	EQUAL(all_of(fd).events, LOG_EVENTS);
}

/* What came out of a pipe, as a file. */
static int file_of_pipe(int from, const char *name)
{
	char bytes[4096];
	int fd = file_named(name);
	ssize_t got;

	while ((got = read(from, bytes, sizeof(bytes))) > 0)
		EQUAL(write(fd, bytes, (size_t)got), got);
	return fd;
}

static int microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int)(now.tv_sec % 1000) * 1000000 + (int)(now.tv_nsec / 1000);
}

TEST("2.11 controller killed", log_clock_base,
	"a log on a pipe whose controller was killed has its times right: the clock's rate is at its "
	"front")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	struct timespec at[2];
	double seconds;
	trace_id_t trid;
	struct got got;
	int ends[2], us[2], fd;
	pid_t child;

	EQUAL(pipe(ends), 0);
	child = fork();
	if (!child) {
		trace_event_id_t event = event_named("e");

		close(ends[0]);
		EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		emit_number(event, microseconds());
		usleep(300000);
		emit_number(event, microseconds());
		EQUAL(posix_trace_flush(trid), 0);
		kill(getpid(), SIGKILL);
	}
	close(ends[1]);
	fd = file_of_pipe(ends[0], "log");
	EQUAL(waitpid(child, NULL, 0), child);
	/* As it is, and with the head alone: what stands behind the last block is cut off. */
	for (int round = 0; round < 2; round++) {
		EQUAL(posix_trace_open(fd, &trid), 0);
		for (int i = 0; i < 2; i++) {
			EXPECT(read_user(trid, &got));
			at[i] = got.info.posix_timestamp;
			us[i] = number_of(&got);
		}
		EQUAL(posix_trace_close(trid), 0);
		seconds = (double)(at[1].tv_sec - at[0].tv_sec) + (at[1].tv_nsec - at[0].tv_nsec) / 1e9;
		/* Between its clock and the event a thread may have waited for a processor. */
		EXPECT(seconds > (us[1] - us[0]) / 1e6 - 0.1 && seconds < (us[1] - us[0]) / 1e6 + 0.1);
		if (!round) {
			unsigned char head[64];
			off_t offset = 0;

			while (pread(fd, head, sizeof(head), offset) == sizeof(head)) {
				unsigned bytes;

				memcpy(&bytes, head + 12, sizeof(bytes));
				if (head[8] == 4) {
					head[20] ^= 1; /* its checksum */
					EQUAL(pwrite(fd, head, sizeof(head), offset), sizeof(head));
				}
				offset += bytes;
			}
		}
	}
}

static void *flush_stream(void *trid)
{
	return (void *)(uintptr_t)posix_trace_flush(*(trace_id_t *)trid);
}

/* A pipe that takes no more than four pages. */
static void small_pipe(int ends[2])
{
	EQUAL(pipe(ends), 0);
	EXPECT(fcntl(ends[1], F_SETPIPE_SZ, 16384) > 0);
}

TEST("flush", flush_behind_full_pipe,
	"a flush that waits for its pipe is seen as FLUSHING; status, names, fork, other streams and "
	"exit go on meanwhile")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_attr_t by_itself = log_attr(POSIX_TRACE_FLUSH, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e"), other;
	trace_id_t trid, second, third;
	int ends[2], more[2], fd, count;
	pthread_t thread;
	struct got got;
	void *error;
	pid_t child;

	alarm(60);
	small_pipe(ends);
	small_pipe(more);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), 0);
	EQUAL(posix_trace_create_withlog(0, &by_itself, more[1], &third), 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_start(third), 0);
	for (int i = 0; i < 1000; i++)
		emit_number(event, i);
	EQUAL(pthread_create(&thread, NULL, flush_stream, &trid), 0);
	while (status_of(trid).posix_stream_flush_status != POSIX_TRACE_FLUSHING)
		usleep(100);
	while (status_of(third).posix_stream_flush_status != POSIX_TRACE_FLUSHING)
		usleep(100);
	EQUAL(posix_trace_eventid_open("another", &other), 0);
	EQUAL(posix_trace_stop(trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	/* A stream that is flushed by itself, to a file. */
	fd = file_named("second");
	EQUAL(posix_trace_create_withlog(0, &by_itself, fd, &second), 0);
	EQUAL(posix_trace_start(second), 0);
	emit_number(event, 7);
	while (block_at(fd, 0) < 0)
		usleep(1000);
	EQUAL(posix_trace_shutdown(second), 0);
	child = fork();
	if (!child) {
		/* With a log that nobody reads: exit waits a second at most. */
		small_pipe(more);
		EQUAL(posix_trace_create_withlog(0, &by_itself, more[1], &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		for (int i = 0; i < 1000; i++)
			emit_number(event, i);
		while (status_of(trid).posix_stream_flush_status != POSIX_TRACE_FLUSHING)
			usleep(100);
		alarm(10);
		exit(0);
	}
	join(child);
	/* And what waited is whole when the pipe is read. */
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		close(file_of_pipe(ends[0], "log"));
		_exit(0);
	}
	EQUAL(pthread_join(thread, &error), 0);
	EQUAL((int)(intptr_t)error, 0);
	EQUAL(posix_trace_shutdown(trid), 0);
	close(ends[1]);
	join(child);
	fd = open("log", O_RDONLY | O_CLOEXEC);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; count < 1000 && read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 1000);
}

TEST("flush", flush_to_slow_pipe,
	"EAGAIN: a pipe that does not wait takes a part; the rest comes with later flushes, and nothing "
	"twice")
{
	trace_attr_t attr = log_attr(POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_APPEND, 0);
	trace_event_id_t event = event_named("e");
	char bytes[1500];
	struct found found;
	trace_id_t trid;
	int ends[2], fd = file_named("log"), error, again = 0;
	ssize_t got;

	small_pipe(ends);
	EQUAL(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	EQUAL(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	EQUAL(posix_trace_attr_setmaxdatasize(&attr, 16000), 0);
	EQUAL(posix_trace_attr_setstreamsize(&attr, 1 << 18), 0);
	/* The begin does not fit as a whole: it is read while it is written. */
	EXPECT(fcntl(ends[1], F_SETPIPE_SZ, 65536) > 0);
	EQUAL(posix_trace_create_withlog(0, &attr, ends[1], &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 3000; i++)
		emit_number(event, i);
	EQUAL(posix_trace_stop(trid), 0);
	do {
		error = posix_trace_flush(trid);
		EXPECT(error == 0 || error == EAGAIN);
		again += error != 0;
		got = read(ends[0], bytes, sizeof(bytes));
		if (got > 0)
			EQUAL(write(fd, bytes, (size_t)got), got);
	} while (error);
	EXPECT(again > 5);
	/* With an empty pipe the end fits. */
	for (int round = 0; round < 2; round++) {
		while ((got = read(ends[0], bytes, sizeof(bytes))) > 0)
			EQUAL(write(fd, bytes, (size_t)got), got);
		if (!round)
			EQUAL(posix_trace_shutdown(trid), 0);
	}
	found = all_of(fd);
	EQUAL(found.events, 3000);
}
#endif
