/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_ends.c: streams with events of the kernel [posix.md 10] that cannot be made, whose controller
 * is killed, or that end in a log.
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if WITH_KERNEL && KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS

static int create_error(int events)
{
	trace_attr_t attr = attr_of(events, 0);
	trace_id_t trid = 0;
	int error = posix_trace_create(0, &attr, &trid);

	if (!error)
		EQUAL(posix_trace_shutdown(trid), 0);
	return error;
}

static int count_files(void)
{
	DIR *stream = opendir("/proc/self/fd");
	int count = 0;

	EXPECT(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

TEST("kernel events (extension)", kernel_refused,
	"without tracefs ENOTSUP, without the right to use it EPERM; nothing is left behind, and "
	"streams without events of the kernel work")
{
	pid_t child;
	int files;

	have_tracefs();
	EQUAL(create_error(ALL) == ENOTSUP ? 0 : create_error(ALL), 0);
	files = count_files();
	setenv("KYMO_TRACEFS", "/proc", 1);
	for (int i = 0; i < 2 * TRACE_SYS_MAX; i++)
		EQUAL(create_error(ALL), ENOTSUP);
	EQUAL(create_error(0), 0);
	EQUAL(count_files(), files);
	unsetenv("KYMO_TRACEFS");
	fflush(stdout);
	child = fork();
	if (!child) {
		EXPECT(!chmod(".", 0777));
		EXPECT(!setgid(65534) && !setuid(65534));
		/* The directory of streams is in the environment, and another user's. */
		EQUAL(create_error(ALL), EPERM);
		_exit(0);
	}
	join(child);
	EXPECT(!unshare(CLONE_NEWPID));
	child = fork();
	if (!child) {
		/* /proc tells which namespace it is, whoever mounted it. */
		EQUAL(create_error(ALL), ENOTSUP);
		_exit(0);
	}
	join(child);
	EQUAL(count_instances(getpid()), 0);
}

TEST("kernel events (extension)", kernel_descriptors,
	"with too few descriptors there is no stream, at whatever step they end; nothing is left behind")
{
	struct rlimit all, few;
	int files, error = EMFILE, refusals = 0;

	have_tracefs();
	if (create_error(ALL) == ENOTSUP)
		skip("this kernel does not tell of its locks");
	files = count_files();
	EXPECT(!getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	for (few.rlim_cur = 3; error; few.rlim_cur++) {
		EXPECT(few.rlim_cur < 100);
		EXPECT(!setrlimit(RLIMIT_NOFILE, &few));
		error = create_error(ALL);
		EXPECT(!setrlimit(RLIMIT_NOFILE, &all));
		/* Those of any stream: ENOMEM, EAGAIN. */
		if (error && error != ENOMEM && error != EAGAIN)
			EQUAL(error, EMFILE);
		refusals += error == EMFILE;
		EQUAL(count_files(), files);
		EQUAL(count_instances(getpid()), 0);
	}
	EXPECT(refusals >= 4);
}

static void read_text(const char *name, const char *file, char *text, size_t bytes)
{
	char path[512];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", instances, name, file);
	fd = open(path, O_RDONLY);
	EXPECT(fd >= 0);
	got = read(fd, text, bytes - 1);
	EXPECT(got >= 0);
	text[got] = 0;
	close(fd);
}

TEST("kernel events (extension)", kernel_killed,
	"what a killed controller leaves records nothing any more, and the next stream with events of the kernel removes it")
{
	char name[64] = "", text[64];
	struct dirent *entry;
	int go[2], status;
	trace_id_t trid;
	pid_t child;
	DIR *stream;
	char byte;

	have_tracefs();
	EXPECT(!pipe(go));
	child = fork();
	if (!child) {
		trid = stream_of(getppid(), POSIX_TRACE_KERNEL_CALL);
		EQUAL(posix_trace_start(trid), 0);
		EQUAL(write(go[1], "", 1), 1);
		pause();
	}
	EQUAL(read(go[0], &byte, 1), 1);
	EQUAL(count_instances(child), 1);
	/* A controller that lives keeps its own. */
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(count_instances(child), 1);
	EQUAL(posix_trace_shutdown(trid), 0);
	stream = opendir(instances);
	EXPECT(stream);
	while ((entry = readdir(stream)))
		if (!strncmp(entry->d_name, "kymo-", 5) && atol(entry->d_name + 5) == child)
			snprintf(name, sizeof(name), "%.60s", entry->d_name);
	closedir(stream);
	read_text(name, "tracing_on", text, sizeof(text));
	EQUAL(atoi(text), 1);
	kill(child, SIGKILL);
	EQUAL(waitpid(child, &status, 0), child);
	read_text(name, "tracing_on", text, sizeof(text));
	EQUAL(atoi(text), 0);
	read_text(name, "buffer_total_size_kb", text, sizeof(text));
	EXPECT(atoi(text) <= 16 * (int)sysconf(_SC_NPROCESSORS_CONF));
	EQUAL(count_instances(child), 1);
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(count_instances(child), 0);
	end(trid);
}

#if KYMO_POSIX_LOG && KYMO_POSIX_RETRIEVAL
/* A log of it; KYMO_TEST_LOG names a file for other readers. */
TEST("kernel events (extension)", kernel_log,
	"a log has the events of the kernel, with names, in the order of time; a thread of the "
	"library that flushes is not in it")
{
	const char *path = getenv("KYMO_TEST_LOG");
	trace_attr_t attr = attr_of(POSIX_TRACE_KERNEL_SWITCH | POSIX_TRACE_KERNEL_CALL, 1 << 20);
	int file, entries = 0, exits = 0, switches = 0, steps = 0;
	char name[TRACE_EVENT_NAME_MAX + 1];
	trace_event_id_t step;
	struct got got;
	trace_id_t trid;

	have_tracefs();
	file = open(path ? path : "log", O_RDWR | O_CREAT | O_TRUNC, 0600);
	EXPECT(file >= 0);
	step = event_named("step");
	EQUAL(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, file, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 20; i++) {
		emit_number(step, i);
		syscall(SYS_getppid);
		usleep(20000);
	}
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(count_instances(getpid()), 0);
	EQUAL(posix_trace_open(file, &trid), 0);
	EQUAL(posix_trace_eventid_get_name(trid, POSIX_TRACE_CONTEXT_SWITCH, name), 0);
	EXPECT(!strcmp(name, "posix_trace_context_switch"));
	EQUAL(posix_trace_eventid_get_name(trid, POSIX_TRACE_LOCK_WAIT_END, name), 0);
	EXPECT(!strcmp(name, "posix_trace_lock_wait_end"));
	for (;;) {
		EQUAL(posix_trace_getnext_event(trid, &got.info, got.data, sizeof(got.data), &got.bytes,
						&got.unavailable), 0);
		if (got.unavailable)
			break;
		if (is_kernel(&got))
			EQUAL((long)got.info.posix_thread_id, thread_here());
		if (is_entry(&got, SYS_getppid)) {
			EQUAL(steps, entries + 1);
			entries++;
		}
		exits += is_exit(&got, SYS_getppid);
		switches += got.info.posix_event_id == POSIX_TRACE_CONTEXT_SWITCH;
		if (got.info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT)
			EQUAL(number_of(&got), steps++);
	}
	EQUAL(steps, 20);
	EQUAL(entries, 20);
	EQUAL(exits, 20);
	/* Each sleep is one away from the thread; not all that come from the idle thread are recorded [posix.md 10]. */
	EXPECT(switches >= 20);
	EQUAL(posix_trace_close(trid), 0);
}

/* Processes that live for a moment, one after the other, on the CPU of the one that asks. */
static pid_t start_short_lives(void)
{
	pid_t parent = fork();

	if (parent)
		return parent;
	/* A test that fails leaves nobody behind. */
	EXPECT(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	for (;;) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

TEST("kernel events (extension)", kernel_strangers,
	"processes of others that come and go beside a thread of the library that flushes are no overrun")
{
	trace_attr_t attr = attr_of(POSIX_TRACE_KERNEL_SWITCH, 1 << 20);
	trace_event_id_t step;
	pid_t strangers;
	cpu_set_t one;
	trace_id_t trid;
	int file;

	have_tracefs();
	file = open("log", O_RDWR | O_CREAT | O_TRUNC, 0600);
	EXPECT(file >= 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	EXPECT(!sched_setaffinity(0, sizeof(one), &one));
	strangers = start_short_lives();
	EXPECT(strangers > 0);
	step = event_named("step");
	EQUAL(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND), 0);
	EQUAL(posix_trace_create_withlog(0, &attr, file, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 100; i++) {
		emit_number(step, i);
		usleep(10000);
	}
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	EQUAL(posix_trace_shutdown(trid), 0);
	kill(strangers, SIGKILL);
	EQUAL(waitpid(strangers, NULL, 0), strangers);
}
#endif
#endif
