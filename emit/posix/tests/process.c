/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* process.c: streams of other processes, fork, exec, and processes that are killed. */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS

/* Words that parent and child have in common: steps that each has come to. */
static volatile int *shared_words(void)
{
	volatile int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(words != MAP_FAILED);
	return words;
}

static void wait_step(volatile int *step, int value)
{
	while (__atomic_load_n(step, __ATOMIC_ACQUIRE) < value)
		usleep(200);
}

static void reach(volatile int *step, int value)
{
	__atomic_store_n(step, value, __ATOMIC_RELEASE);
}

static trace_id_t stream_of(pid_t pid, int inherited)
{
	trace_attr_t attr = attr_with(0, 0, 0);
	trace_id_t trid;

#if KYMO_POSIX_INHERIT
	if (inherited)
		EQUAL(posix_trace_attr_setinherited(&attr, inherited), 0);
#else
	(void)inherited;
#endif
	EQUAL(posix_trace_create(pid, &attr, &trid), 0);
	return trid;
}

TEST("create", other_process,
	"a stream may be made for another process, whether that has traced before or not")
{
	volatile int *step = shared_words();
	trace_id_t trid;
	struct got got;
	pid_t child;

	for (int has_traced = 0; has_traced < 2; has_traced++) {
		step[0] = step[1] = 0;
		child = fork();
		if (!child) {
			if (has_traced)
				emit_number(event_named("from the child"), 1);
			reach(&step[0], 1);
			wait_step(&step[1], 1);
			emit_number(event_named("from the child"), 2);
			reach(&step[0], 2);
			wait_step(&step[1], 2);
			emit_number(event_named("from the child"), 3);
			exit(0);
		}
		wait_step(&step[0], 1);
		trid = stream_of(child, 0);
		EQUAL(posix_trace_start(trid), 0);
		reach(&step[1], 1);
		wait_step(&step[0], 2);
		EQUAL(posix_trace_stop(trid), 0);
		reach(&step[1], 2);
		join(child);
		EXPECT(take_user(trid, &got));
		EQUAL(number_of(&got), 2);
		EQUAL(got.info.posix_pid, child);
		EXPECT(!take_user(trid, &got));
		EQUAL(posix_trace_shutdown(trid), 0);
	}
}

#if KYMO_POSIX_FILTER
TEST("trid_eventid_open", other_process_names,
	"controller and target get the same id for a name, whoever of them asks first")
{
	volatile int *step = shared_words();
	char name[TRACE_EVENT_NAME_MAX + 1];
	trace_event_id_t event;
	trace_id_t trid;
	pid_t child = fork();

	if (!child) {
		wait_step(&step[1], 1);
		step[2] = (int)event_named("asked by the controller");
		step[3] = (int)event_named("asked by the target");
		reach(&step[0], 1);
		wait_step(&step[1], 2);
		exit(0);
	}
	trid = stream_of(child, 0);
	EQUAL(posix_trace_trid_eventid_open(trid, "asked by the controller", &event), 0);
	reach(&step[1], 1);
	wait_step(&step[0], 1);
	EQUAL(step[2], event);
	EQUAL(posix_trace_trid_eventid_open(trid, "asked by the target", &event), 0);
	EQUAL(step[3], event);
	EQUAL(posix_trace_eventid_get_name(trid, event, name), 0);
	EXPECT(!strcmp(name, "asked by the target"));
	reach(&step[1], 2);
	join(child);
}
#endif

TEST("fork", child_controls_nothing, "EINVAL: a child's calls with its parent's trace ids")
{
	struct posix_trace_status_info status;
	trace_id_t trid = stream_of(0, 0);
	struct got got;
	pid_t child = fork();

	if (!child) {
		EQUAL(posix_trace_start(trid), EINVAL);
		EQUAL(posix_trace_shutdown(trid), EINVAL);
		EQUAL(posix_trace_get_status(trid, &status), EINVAL);
		exit(0);
	}
	join(child);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event_named("e"), 1);
	EXPECT(take_user(trid, &got));
}

TEST("fork", closed_for_child, "without inheritance a child is not traced in its parent's stream")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_of(0, 0);
	struct got got;
	pid_t child;

	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 1);
	child = fork();
	if (!child) {
		emit_number(event, 2);
		exit(0);
	}
	join(child);
	emit_number(event, 3);
	EXPECT(take_user(trid, &got));
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 3);
}

TEST("fork", child_has_names, "a child has its parent's event ids, and its own streams")
{
	trace_event_id_t event = event_named("e");
	struct got got;
	pid_t child = fork();

	if (!child) {
		trace_id_t trid = stream_of(0, 0);

		EQUAL(event_named("e"), event);
		EQUAL(posix_trace_start(trid), 0);
		emit_number(event, 1);
		EXPECT(take_user(trid, &got));
		EQUAL(got.info.posix_pid, getpid());
		exit(0);
	}
	join(child);
}

#if KYMO_POSIX_INHERIT
TEST("attr_setinherited", inherited,
	"INHERITED: children, and theirs, are traced in the same stream, with their own "
	"process ids")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_of(0, POSIX_TRACE_INHERITED);
	pid_t pids[4] = { getpid() };
	struct got got;

	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 0);
	pids[1] = fork();
	if (!pids[1]) {
		emit_number(event, 1);
		pids[2] = fork();
		if (!pids[2]) {
			emit_number(event, 2);
			exit(0);
		}
		join(pids[2]);
		exit(0);
	}
	join(pids[1]);
	emit_number(event, 3);
	for (int i = 0; i < 4; i++) {
		EXPECT(take_user(trid, &got));
		EQUAL(number_of(&got), i);
		if (i < 2)
			EQUAL(got.info.posix_pid, pids[i]);
	}
}

TEST("attr_setinherited", inherited_names,
	"names that an inheriting child opens are the stream's, too")
{
	char name[TRACE_EVENT_NAME_MAX + 1];
	trace_event_id_t event = event_named("parent's");
	trace_id_t trid = stream_of(0, POSIX_TRACE_INHERITED);
	struct got got;
	pid_t child;

	EQUAL(posix_trace_start(trid), 0);
	child = fork();
	if (!child) {
		emit_number(event_named("child's"), 1);
		exit(0);
	}
	join(child);
	EXPECT(take_user(trid, &got));
	EXPECT(got.info.posix_event_id != event);
	EQUAL(posix_trace_eventid_get_name(trid, got.info.posix_event_id, name), 0);
	EXPECT(!strcmp(name, "child's"));
	EQUAL(event_named("child's"), got.info.posix_event_id);
}

TEST("attr_setinherited", inherited_control,
	"stop and filter of an inherited stream hold for children, too")
{
	trace_event_id_t event = event_named("e");
	trace_id_t trid = stream_of(0, POSIX_TRACE_INHERITED);
	volatile int *step = shared_words();
	struct got got;
	pid_t child;

	EQUAL(posix_trace_start(trid), 0);
	child = fork();
	if (!child) {
		emit_number(event, 1);
		reach(&step[0], 1);
		wait_step(&step[1], 1);
		emit_number(event, 2);
		reach(&step[0], 2);
		wait_step(&step[1], 2);
		emit_number(event, 3);
		exit(0);
	}
	wait_step(&step[0], 1);
	EQUAL(posix_trace_stop(trid), 0);
	reach(&step[1], 1);
	wait_step(&step[0], 2);
	EQUAL(posix_trace_start(trid), 0);
	reach(&step[1], 2);
	join(child);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 1);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 3);
	EXPECT(!take_user(trid, &got));
}

TEST("attr_setinherited", later_streams_are_not,
	"a stream made for the parent after fork has nothing of the child")
{
	trace_event_id_t event = event_named("e");
	trace_id_t old = stream_of(0, POSIX_TRACE_INHERITED), trid;
	volatile int *step = shared_words();
	struct got got;
	pid_t child;

	EQUAL(posix_trace_start(old), 0);
	child = fork();
	if (!child) {
		emit_number(event, 1);
		reach(&step[0], 1);
		wait_step(&step[1], 1);
		emit_number(event, 2);
		exit(0);
	}
	wait_step(&step[0], 1);
	/* In the same slot. */
	EQUAL(posix_trace_shutdown(old), 0);
	trid = stream_of(0, 0);
	EQUAL(posix_trace_start(trid), 0);
	reach(&step[1], 1);
	join(child);
	EXPECT(!take_user(trid, &got));
}
#endif

static volatile bool threads_end;
static trace_event_id_t shared_event;

static void *emit_until_end(void *nothing)
{
	while (!threads_end) {
		for (int i = 0; i < 100; i++)
			emit_number(shared_event, i);
		usleep(100);
	}
	return nothing;
}

TEST("fork", fork_from_threads,
	"1,000 forks of a process whose threads trace: every child works, traces and ends")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_LOOP, 8192, 0);
	pthread_t threads[2];
	trace_id_t trid;

#if KYMO_POSIX_INHERIT
	EQUAL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), 0);
#endif
	shared_event = event_named("e");
	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 2; i++)
		EQUAL(pthread_create(&threads[i], NULL, emit_until_end, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		pid_t child = fork();

		EXPECT(child >= 0);
		if (!child) {
			for (int n = 0; n < 10; n++)
				emit_number(shared_event, n);
			exit(0);
		}
		join(child);
	}
	threads_end = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	EQUAL(posix_trace_shutdown(trid), 0);
}

TEST("2.11 target killed", target_killed,
	"SIGKILL of a target at any moment: what it recorded is there, whole and in order")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_LOOP, 1 << 16, 0);
	trace_id_t trid;
	struct got got;

	for (int round = 0; round < 50; round++) {
		volatile int *step = shared_words();
		int last = -1;
		pid_t child = fork();

		if (!child) {
			trace_event_id_t event = event_named("e");

			wait_step(&step[1], 1);
			for (int i = 0;; i++) {
				emit_number(event, i);
				reach(&step[0], i + 1);
			}
		}
		EQUAL(posix_trace_create(child, &attr, &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		reach(&step[1], 1);
		wait_step(&step[0], 100 + round * 37);
		kill(child, SIGKILL);
		EQUAL(waitpid(child, NULL, 0), child);
		while (take_user(trid, &got)) {
			EXPECT(last < 0 || number_of(&got) == last + 1);
			last = number_of(&got);
		}
		/* The last one may have been recorded, and not counted. */
		EXPECT(last == step[0] - 1 || last == step[0]);
		EQUAL(posix_trace_shutdown(trid), 0);
		munmap((void *)(uintptr_t)step, 4096);
	}
}

TEST("create", after_setuid,
	"a process that gives up being root traces, and is traced, whether it had traced before or not")
{
	struct got got;
	char self[4096], user[64];
	ssize_t length;
	pid_t child;

	if (geteuid()) {
		printf("SKIP after_setuid: not root\n");
		return;
	}
	/* In the directories that users have by default. */
	if (getenv("KYMO_RUNTIME_DIR")) {
		unsetenv("KYMO_RUNTIME_DIR");
		length = readlink("/proc/self/exe", self, sizeof(self) - 1);
		EXPECT(length > 0);
		self[length] = 0;
		execl(self, self, "after_setuid", (char *)NULL);
		_exit(1);
	}
	for (int has_traced = 0; has_traced < (TRACE_SYS_MAX > 1 ? 2 : 1); has_traced++) {
		child = fork();
		if (!child) {
			trace_id_t old = has_traced ? stream_of(0, 0) : 0, trid;
			trace_event_id_t event = has_traced ? event_named("e") : 0;

			EQUAL(setresuid(54321, 54321, 54321), 0);
			if (has_traced)
				EQUAL(event_named("e"), event);
			event = event_named("e");
			trid = stream_of(0, 0);
			EQUAL(posix_trace_start(trid), 0);
			emit_number(event, 3);
			EXPECT(take_user(trid, &got));
			EQUAL(number_of(&got), 3);
			if (has_traced) {
				EQUAL(posix_trace_start(old), 0);
				emit_number(event, 4);
				EXPECT(take_user(old, &got));
				EQUAL(number_of(&got), 4);
				EQUAL(posix_trace_shutdown(old), 0);
			}
			exit(0);
		}
		join(child);
	}
	snprintf(user, sizeof(user), "/dev/shm/kymo-posix-54321/l.0");
	unlink(user);
	rmdir("/dev/shm/kymo-posix-54321");
}

#if KYMO_POSIX_FILTER
TEST("trid_eventid_open", names_kept,
	"EAGAIN: a target that keeps the lock of its names does not hold up its controller for ever")
{
	volatile int *step = shared_words();
	trace_event_id_t event;
	trace_id_t trid;
	char path[300];
	pid_t child = fork();
	int fd;

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		event_named("e");
		reach(&step[0], 1);
		wait_step(&step[1], 1);
		_exit(0);
	}
	wait_step(&step[0], 1);
	trid = stream_of(child, 0);
	if (getenv("KYMO_RUNTIME_DIR"))
		snprintf(path, sizeof(path), "%s/posix/n.%d", getenv("KYMO_RUNTIME_DIR"), child);
	else
		snprintf(path, sizeof(path), "/dev/shm/kymo-posix-%u/n.%d", (unsigned)geteuid(), child);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/* The owner, behind magic, start and count. */
	EQUAL(pwrite(fd, &child, sizeof(child), 20), sizeof(child));
	EQUAL(posix_trace_trid_eventid_open(trid, "new", &event), EAGAIN);
	EQUAL(posix_trace_trid_eventid_open(trid, "e", &event), 0);
	reach(&step[1], 1);
	join(child);
	EQUAL(posix_trace_trid_eventid_open(trid, "new", &event), 0);
	EQUAL(posix_trace_shutdown(trid), 0);
}
#endif

TEST("2.11 target ended", target_left,
	"_exit of a target, with streams of its own or without: what it recorded for its controller is there")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_UNTIL_FULL, 1 << 16, 0);
	trace_id_t trid;
	struct got got;

	for (int round = 0; round < 20; round++) {
		volatile int *step = shared_words();
		pid_t child = fork();

		if (!child) {
			trace_event_id_t event = event_named("e");

			if (round % 2 && TRACE_SYS_MAX > 1)
				EQUAL(posix_trace_start(stream_of(0, 0)), 0);
			reach(&step[0], 1);
			wait_step(&step[1], 1);
			for (int i = 0; i < 500; i++)
				emit_number(event, i);
			_exit(0);
		}
		wait_step(&step[0], 1);
		EQUAL(posix_trace_create(child, &attr, &trid), 0);
		EQUAL(posix_trace_start(trid), 0);
		reach(&step[1], 1);
		join(child);
		for (int i = 0; i < 500; i++) {
			EXPECT(take_user(trid, &got));
			EQUAL(number_of(&got), i);
		}
		EXPECT(!take_user(trid, &got));
		EQUAL(posix_trace_shutdown(trid), 0);
		munmap((void *)(uintptr_t)step, 4096);
	}
}

TEST("2.11 controller killed", controller_killed,
	"SIGKILL of a controller: its targets go on, its streams are gone, and their places "
	"can be used again")
{
	volatile int *step = shared_words();
	trace_event_id_t event = event_named("e");
	struct got got;
	trace_id_t trid;

	for (int round = 0; round < 2 * TRACE_SYS_MAX; round++) {
		pid_t parent = getpid(), child;

		step[0] = 0;
		child = fork();
		if (!child) {
			alarm(60);
			trid = stream_of(parent, 0);
			EQUAL(posix_trace_start(trid), 0);
			reach(&step[0], 1);
			pause();
		}
		wait_step(&step[0], 1);
		for (int i = 0; i < 100; i++)
			emit_number(event, i);
		kill(child, SIGKILL);
		EQUAL(waitpid(child, NULL, 0), child);
		for (int i = 0; i < 100; i++)
			emit_number(event, i);
	}
	trid = stream_of(0, 0);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 7);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 7);
	EXPECT(!take_user(trid, &got));
}

TEST("exec", exec_of_controller,
	"exec shuts a controller's streams down: the number of streams is not used up")
{
	for (int round = 0; round < 2 * TRACE_SYS_MAX; round++) {
		pid_t child = fork();

		if (!child) {
			EQUAL(posix_trace_start(stream_of(0, 0)), 0);
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		join(child);
	}
	EQUAL(posix_trace_shutdown(stream_of(0, 0)), 0);
}

TEST("exec", exec_of_target,
	"a target goes on in the same stream when its new program is linked with the library")
{
	volatile int *step = shared_words();
	char self[4096], name[] = "exec_of_target_again";
	struct got got;
	trace_id_t trid;
	pid_t child = fork();
	ssize_t length;

	if (!child) {
		wait_step(&step[0], 1);
		emit_number(event_named("before"), 1);
		length = readlink("/proc/self/exe", self, sizeof(self) - 1);
		EXPECT(length > 0);
		self[length] = 0;
		execl(self, self, "--again", name, (char *)NULL);
		_exit(1);
	}
	trid = stream_of(child, 0);
	EQUAL(posix_trace_start(trid), 0);
	reach(&step[0], 1);
	join(child);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 1);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 2);
	EQUAL(got.info.posix_pid, child);
}
#endif
