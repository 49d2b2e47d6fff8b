/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kernel.c: events of the kernel [posix.md 10], an extension: what is recorded, and what is not. */
#define _GNU_SOURCE
#include "kernel.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#if WITH_KERNEL

TEST("kernel events (extension)", kernel_attribute,
	"the attribute is 0 at first; types that there are not: EINVAL")
{
	trace_attr_t attr;
	int events = -1;

	EQUAL(posix_trace_attr_init(&attr), 0);
	EQUAL(posix_trace_attr_getkernelevents(&attr, &events), 0);
	EQUAL(events, 0);
	EQUAL(posix_trace_attr_setkernelevents(&attr, ALL), 0);
	EQUAL(posix_trace_attr_getkernelevents(&attr, &events), 0);
	EQUAL(events, ALL);
	EQUAL(posix_trace_attr_setkernelevents(&attr, 8), EINVAL);
	EQUAL(posix_trace_attr_setkernelevents(&attr, -1), EINVAL);
	EQUAL(posix_trace_attr_destroy(&attr), 0);
	EQUAL(posix_trace_attr_setkernelevents(&attr, ALL), EINVAL);
	EQUAL(posix_trace_attr_getkernelevents(&attr, &events), EINVAL);
}

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS
#define SLEEPS 50

/* How often a process has gone to sleep, as the kernel counts it. */
static long sleeps_of(pid_t pid)
{
	char path[64], line[128];
	long count = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	file = fopen(path, "r");
	EXPECT(file);
	while (count < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	fclose(file);
	EXPECT(count >= 0);
	return count;
}

/* Whether a process sleeps in read(). */
static bool is_reading(pid_t pid)
{
	char path[64];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/syscall", (long)pid);
	file = fopen(path, "r");
	EXPECT(file);
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_read;
}

/* Lets a process that reads from a pipe go on, when it has gone to sleep there once more. */
static void wake_sleeper(pid_t pid, int pipe_end, long *sleeps)
{
	while (sleeps_of(pid) == *sleeps || !is_reading(pid))
		usleep(100);
	*sleeps = sleeps_of(pid);
	EQUAL(write(pipe_end, "", 1), 1);
}

TEST("kernel events (extension)", kernel_switches,
	"a thread of another process that sleeps is switched away from, between its user events and in the order of time")
{
	trace_event_id_t step;
	int go[2], away = 0, last = -1;
	long sleeps = 0;
	struct got got;
	trace_id_t trid;
	pid_t child;
	char byte;

	have_tracefs();
	step = event_named("step");
	EXPECT(!pipe(go));
	child = fork();
	if (!child) {
		EQUAL(read(go[0], &byte, 1), 1);
		for (int i = 0; i < SLEEPS; i++) {
			emit_number(step, i);
			EQUAL(read(go[0], &byte, 1), 1);
		}
		emit_number(step, SLEEPS);
		_exit(0);
	}
	trid = stream_of(child, POSIX_TRACE_KERNEL_SWITCH);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i <= SLEEPS; i++)
		wake_sleeper(child, go[1], &sleeps);
	join(child);
	while (take_any(trid, &got)) {
		EQUAL(got.info.posix_pid, child);
		if (!is_kernel(&got)) {
			EQUAL(number_of(&got), last + 1);
			/* Whether a switch from a CPU's idle thread is recorded, the kernel decides [posix.md 10.4]. */
			EXPECT(last < 0 || away);
			last = number_of(&got);
			away = 0;
			continue;
		}
		EQUAL(got.info.posix_event_id, POSIX_TRACE_CONTEXT_SWITCH);
		EQUAL((long)got.info.posix_thread_id, child);
		EXPECT(!got.info.posix_prog_address);
		DATA_OF(posix_trace_context_switch, change, &got);
		EXPECT(change.posix_from == child || change.posix_to == child);
		away += change.posix_from == child && !strcmp(change.posix_from_state, "S");
	}
	EQUAL(last, SLEEPS);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	end(trid);
}

#define CALLS 1000

TEST("kernel events (extension)", kernel_calls,
	"a process that traces itself: every system call between two user events, once, with arguments and result; "
	"reading the stream adds none, and comes to an end")
{
	int entries = 0, exits = 0, others = 0, last = 0;
	trace_event_id_t step;
	/* No system call of the test itself while it reads: the stream would have no end. */
	long self = getpid(), parent = getppid();
	struct got got;
	trace_id_t trid;

	have_tracefs();
	step = event_named("step");
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(step, 0);
	emit_number(step, 1);
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	close(12345);
	emit_number(step, 2);
	while (take_any(trid, &got)) {
		EQUAL(got.info.posix_pid, self);
		if (!is_kernel(&got)) {
			EQUAL(number_of(&got), last++);
			continue;
		}
		EQUAL((long)got.info.posix_thread_id, self);
		if (last != 2) {
			others += last == 3;
			continue;
		}
		if (is_entry(&got, SYS_getppid)) {
			EQUAL(entries++, exits);
		} else if (is_exit(&got, SYS_getppid)) {
			DATA_OF(posix_trace_system_call_exit, done, &got);
			EQUAL(done.posix_result, parent);
			EQUAL(++exits, entries);
		} else if (is_entry(&got, SYS_close)) {
			DATA_OF(posix_trace_system_call_entry, entry, &got);
			EQUAL(entry.posix_arguments[0], 12345);
		} else {
			DATA_OF(posix_trace_system_call_exit, done, &got);
			EXPECT(is_exit(&got, SYS_close));
			EQUAL(done.posix_result, -EBADF);
		}
	}
	EQUAL(last, 3);
	EQUAL(entries, CALLS);
	EQUAL(exits, CALLS);
	EQUAL(others, 0);
	end(trid);
}

TEST("kernel events (extension)", kernel_stopped,
	"nothing is recorded before the start and after the stop, or of what the attribute does not ask for")
{
	struct got got;
	trace_id_t trid;
	bool is_running = false;

	have_tracefs();
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	for (int round = 0; round < 3; round++) {
		syscall(SYS_getppid);
		EQUAL(posix_trace_start(trid), 0);
		syscall(SYS_getpgrp);
		EQUAL(posix_trace_stop(trid), 0);
		usleep(1000);
	}
	for (int calls = 0; take(trid, &got);) {
		EXPECT(got.info.posix_event_id != POSIX_TRACE_CONTEXT_SWITCH);
		EXPECT(!is_entry(&got, SYS_getppid) && !is_exit(&got, SYS_getppid));
		if (is_kernel(&got))
			EXPECT(is_running);
		calls += is_entry(&got, SYS_getpgrp);
		if (got.info.posix_event_id == POSIX_TRACE_START)
			is_running = true;
		if (got.info.posix_event_id == POSIX_TRACE_STOP) {
			EQUAL(calls, 1);
			calls = 0;
			is_running = false;
		}
	}
	end(trid);
}

#if KYMO_POSIX_FILTER
TEST("kernel events (extension)", kernel_filter,
	"types of the kernel are filtered as others are; all of them are among the system's events")
{
	trace_event_set_t set, system;
	int entries = 0, exits = 0, is_member;
	struct got got;
	trace_id_t trid;

	have_tracefs();
	EQUAL(posix_trace_eventset_fill(&system, POSIX_TRACE_SYSTEM_EVENTS), 0);
	for (trace_event_id_t id = POSIX_TRACE_CONTEXT_SWITCH; id <= POSIX_TRACE_LOCK_WAIT_END; id++) {
		EQUAL(posix_trace_eventset_ismember(id, &system, &is_member), 0);
		EQUAL(is_member, 1);
	}
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(posix_trace_get_filter(trid, &set), 0);
	EQUAL(posix_trace_eventset_ismember(POSIX_TRACE_SYSTEM_CALL_ENTRY, &set, &is_member), 0);
	EQUAL(is_member, 0);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(posix_trace_eventset_empty(&set), 0);
	EQUAL(posix_trace_eventset_add(POSIX_TRACE_SYSTEM_CALL_EXIT, &set), 0);
	EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), 0);
	syscall(SYS_getppid);
	EQUAL(posix_trace_set_filter(trid, &system, POSIX_TRACE_SET_EVENTSET), 0);
	syscall(SYS_getppid);
	EQUAL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SUB_EVENTSET), 0);
	syscall(SYS_getppid);
	EQUAL(posix_trace_stop(trid), 0);
	while (take(trid, &got)) {
		entries += is_entry(&got, SYS_getppid);
		exits += is_exit(&got, SYS_getppid);
	}
	EQUAL(entries, 1);
	EQUAL(exits, 1);
	end(trid);
}
#endif

TEST("kernel events (extension)", kernel_clear, "a stream that is cleared has no event of before")
{
	struct got got;
	trace_id_t trid;
	int before = 0, behind = 0;

	have_tracefs();
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(posix_trace_start(trid), 0);
	for (int i = 0; i < 100; i++)
		syscall(SYS_getppid);
	EQUAL(posix_trace_clear(trid), 0);
	syscall(SYS_getpgrp);
	EQUAL(posix_trace_stop(trid), 0);
	while (take(trid, &got)) {
		before += is_entry(&got, SYS_getppid);
		behind += is_entry(&got, SYS_getpgrp);
	}
	EQUAL(before, 0);
	EQUAL(behind, 1);
	end(trid);
}

static pthread_barrier_t barrier;
static pthread_barrier_t all_there;
static long threads[3];

static void *call_once(void *index)
{
	threads[(intptr_t)index] = thread_here();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&all_there);
	syscall(SYS_getppid);
	return NULL;
}

TEST("kernel events (extension)", kernel_threads,
	"threads that were there before, that came while the stream was stopped, and later are recorded, each under its "
	"number")
{
	int calls[3] = { 0 };
	long self = getpid();
	pthread_t thread[3];
	struct got got;
	trace_id_t trid;

	have_tracefs();
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_barrier_init(&all_there, NULL, 4);
	EQUAL(pthread_create(&thread[0], NULL, call_once, (void *)0), 0);
	pthread_barrier_wait(&barrier);
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(pthread_create(&thread[1], NULL, call_once, (void *)1), 0);
	pthread_barrier_wait(&barrier);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(pthread_create(&thread[2], NULL, call_once, (void *)2), 0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	EQUAL(posix_trace_stop(trid), 0);
	while (take_any(trid, &got)) {
		EQUAL(got.info.posix_pid, self);
		for (int i = 0; i < 3; i++)
			calls[i] += is_exit(&got, SYS_getppid) &&
				    (long)got.info.posix_thread_id == threads[i];
	}
	for (int i = 0; i < 3; i++)
		EQUAL(calls[i], 1);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	end(trid);
}

/* System calls of a child that was forked while the stream ran, or stood. */
static void count_children(bool is_inherited, bool is_running, int *calls)
{
	trace_attr_t attr = attr_of(POSIX_TRACE_KERNEL_CALL, 0);
	long self = getpid();
	int go[2], done[2];
	struct got got;
	trace_id_t trid;
	pid_t child;
	char byte;

	EXPECT(!pipe(go) && !pipe(done));
#if KYMO_POSIX_INHERIT
	if (is_inherited)
		EQUAL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), 0);
#else
	(void)is_inherited;
#endif
	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	if (is_running)
		EQUAL(posix_trace_start(trid), 0);
	child = fork();
	if (!child) {
		EQUAL(read(go[0], &byte, 1), 1);
		for (int i = 0; i < 10; i++)
			syscall(SYS_getpgrp);
		EQUAL(write(done[1], "", 1), 1);
		EQUAL(read(go[0], &byte, 1), 1);
		_exit(0);
	}
	if (!is_running)
		EQUAL(posix_trace_start(trid), 0);
	EQUAL(write(go[1], "", 1), 1);
	EQUAL(read(done[0], &byte, 1), 1);
	*calls = 0;
	while (take_any(trid, &got)) {
		EXPECT(got.info.posix_pid == child || got.info.posix_pid == self);
		if (is_exit(&got, SYS_getpgrp)) {
			EQUAL(got.info.posix_pid, child);
			++*calls;
		}
	}
	EQUAL(write(go[1], "", 1), 1);
	EQUAL(posix_trace_shutdown(trid), 0);
	EQUAL(count_instances(getpid()), 0); /* although the child lives */
	join(child);
}

TEST("kernel events (extension)", kernel_children,
	"processes that the target forks are recorded if the stream is inherited, under their own numbers, else not")
{
	int calls;

	have_tracefs();
	for (int is_running = 0; is_running < 2; is_running++) {
		count_children(false, is_running, &calls);
		EQUAL(calls, 0);
#if KYMO_POSIX_INHERIT
		count_children(true, is_running, &calls);
		EQUAL(calls, 10);
#endif
	}
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *lock_once(void *number)
{
	/* Behind the barrier, in which it may sleep as well. */
	pthread_barrier_wait(&barrier);
	__atomic_store_n((long *)number, thread_here(), __ATOMIC_RELEASE);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* Whether a thread of this process, which it has by now, sleeps. */
static bool is_asleep(const long *number)
{
	long thread = __atomic_load_n(number, __ATOMIC_ACQUIRE);
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", thread);
	file = thread ? fopen(path, "r") : NULL;
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'S';
}

TEST("kernel events (extension)", kernel_futex,
	"a thread that waits for a mutex of the process shows as a futex call on it that lasts until the mutex is free")
{
	struct posix_trace_system_call_entry entry;
	bool is_free = false, waits = false, has_waited = false;
	trace_event_id_t unlock;
	pthread_t thread;
	struct got got;
	trace_id_t trid;
	long number = 0;

	have_tracefs();
	unlock = event_named("unlock");
	pthread_barrier_init(&barrier, NULL, 2);
	trid = stream_of(0, POSIX_TRACE_KERNEL_CALL);
	EQUAL(posix_trace_start(trid), 0);
	pthread_mutex_lock(&mutex);
	EQUAL(pthread_create(&thread, NULL, lock_once, &number), 0);
	pthread_barrier_wait(&barrier);
	while (!is_asleep(&number))
		sched_yield();
	emit_number(unlock, 0);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	EQUAL(posix_trace_stop(trid), 0);
	while (take_any(trid, &got)) {
		if (!is_kernel(&got)) {
			EXPECT(waits);
			is_free = true;
		}
		if (!is_kernel(&got) || (long)got.info.posix_thread_id != number)
			continue;
		memcpy(&entry, got.data, sizeof(entry));
		if (is_entry(&got, SYS_futex) && entry.posix_arguments[0] == (uintptr_t)&mutex && !is_free)
			waits = true;
		else if (waits && is_exit(&got, SYS_futex) && !has_waited)
			has_waited = is_free;
	}
	EXPECT(waits && has_waited);
	end(trid);
}

static int pipe_ends[2];
static volatile int is_over;

static void *write_pipe(void *unused)
{
	static const char bytes[512];

	while (!is_over)
		EXPECT(write(pipe_ends[1], bytes, sizeof(bytes)) > 0);
	return unused;
}

static void *read_pipe(void *unused)
{
	char bytes[4096];

	while (read(pipe_ends[0], bytes, sizeof(bytes)) > 0)
		;
	return unused;
}

/* Whether a thread waits for a lock is chance: threads that use one pipe do, sooner or later. */
TEST("kernel events (extension)", kernel_locks,
	"threads that wait for a lock of the kernel: the begin and the end of it, of the same thread and lock")
{
	struct posix_trace_lock_wait wait;
	/* Who waits for a sleeping lock may have to wait for a spinning one meanwhile. */
	uint64_t locks[8];
	int depth = 0;
	long waiting = 0;
	int pairs = 0;
	pthread_t thread[4], reader;
	struct got got;
	trace_id_t trid;

	have_tracefs();
	EXPECT(!pipe(pipe_ends));
	trid = stream_of(0, POSIX_TRACE_KERNEL_LOCK);
	EQUAL(posix_trace_start(trid), 0);
	EQUAL(pthread_create(&reader, NULL, read_pipe, NULL), 0);
	for (int i = 0; i < 4; i++)
		EQUAL(pthread_create(&thread[i], NULL, write_pipe, NULL), 0);
	for (int round = 0; round < 2000 && pairs < 3; round++) {
		usleep(10000);
		while (take_any(trid, &got)) {
			memcpy(&wait, got.data, sizeof(wait));
			EQUAL(got.bytes, sizeof(wait));
			EXPECT(wait.posix_lock);
			if (got.info.posix_event_id == POSIX_TRACE_LOCK_WAIT_BEGIN && !depth)
				waiting = (long)got.info.posix_thread_id;
			if (waiting != (long)got.info.posix_thread_id)
				continue;
			if (got.info.posix_event_id == POSIX_TRACE_LOCK_WAIT_BEGIN) {
				EXPECT(depth < 8);
				locks[depth++] = wait.posix_lock;
			} else if (got.info.posix_event_id == POSIX_TRACE_LOCK_WAIT_END && depth) {
				EQUAL(wait.posix_lock, locks[--depth]);
				pairs++;
			}
		}
	}
	is_over = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	close(pipe_ends[1]);
	pthread_join(reader, NULL);
	EXPECT(pairs >= 3);
	end(trid);
}

/* More than the rings hold, and then a little. */
static void overflow(int policy, struct got *got)
{
	trace_attr_t attr = attr_of(POSIX_TRACE_KERNEL_CALL, 4096);
	int overflows = 0, resumes = 0, calls = 0, last = -1, first = -1;
	trace_event_id_t step = event_named("step");
	trace_id_t trid;

	EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, policy), 0);
	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(step, 0);
	for (int i = 0; i < 20000; i++)
		syscall(SYS_getppid);
	emit_number(step, 1);
	EQUAL(posix_trace_stop(trid), 0);
	while (take(trid, got)) {
		overflows += got->info.posix_event_id == POSIX_TRACE_OVERFLOW;
		if (got->info.posix_event_id == POSIX_TRACE_RESUME) {
			EQUAL(overflows, ++resumes);
			EQUAL(calls, 0);
		}
		calls += is_exit(got, SYS_getppid);
		if (got->info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT) {
			last = number_of(got);
			first = first < 0 ? last : first;
		}
	}
	EXPECT(overflows && resumes == overflows);
	EXPECT(calls > 100 && calls < 20000);
	EQUAL(last, 1);
	/* With LOOP what is kept is the end, of all that was recorded. */
	EQUAL(first, policy == POSIX_TRACE_LOOP);
	EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
	EQUAL(posix_trace_shutdown(trid), 0);
}

TEST("kernel events (extension)", kernel_overflow,
	"events of the kernel that were overwritten are reported: OVERFLOW, RESUME and the status, with each policy")
{
	struct got got;

	have_tracefs();
	overflow(POSIX_TRACE_LOOP, &got);
	overflow(POSIX_TRACE_UNTIL_FULL, &got);
}

#endif
#endif
