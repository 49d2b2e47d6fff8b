/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* log_faults.c: logs whose writer or file fails: pipes that break, full disks, killed controllers, damage. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

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
	"EFBIG: the file may not grow; no signal; what was recorded stays until there is room")
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
	EQUAL(status_of(trid).posix_stream_flush_error, EFBIG);
	EQUAL(setrlimit(RLIMIT_FSIZE, &none), 0);
	EQUAL(posix_trace_flush(trid), 0);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(posix_trace_open(fd, &trid), 0);
	for (count = 0; read_user(trid, &got); count++)
		EQUAL(number_of(&got), count);
	EQUAL(count, 6000);
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
#endif
