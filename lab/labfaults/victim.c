// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A program with delays of known causes, to be recorded and explained. Prints when each delay was, and whose:
 * `FROM TO TID` (ns since 1970).
 *
 *     victim sleep MS [US]         a real-time thread that sleeps so long at a time (2000 us); others do something to it
 *     victim burn MS               runs for that time, real-time, from SIGUSR1 on
 *     victim work MS               the same, of a normal class
 *     victim throttled COUNT [MS [PRIORITY]]
 *                                  runs, real-time, until it was kept from that so often for so long; 10 s at most
 *     victim served COUNT [MS [PRIORITY]]
 *                                  the same, beside a thread of a normal class on its CPU
 *     victim faults COUNT [MIB]    touches so much memory that is not there (16 MiB)
 *     victim majors COUNT [MIB]    reads so much of a file that is mapped and not in memory (2 MiB)
 *     victim owners COUNT [MS]     a lock whose owner waits for a lock, whose owner works for that time (15 ms)
 *     victim inherit COUNT [MS]    a lock with priority inheritance, whose owner works for that time
 *     victim plain COUNT [MS]      a lock without, whose owner cannot run while a third thread works; on one CPU
 *     victim pipes COUNT [MS]      a reader at the end of three pipes; the first writer works that long in pieces
 *     victim compute COUNT [MS]    works itself
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define GAPS_NS_MAX 10000000000LL

static int64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void rest(int64_t ns)
{
	struct timespec time = { ns / 1000000000LL, ns % 1000000000LL };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Of the thread's own time: others may be in between. */
static void work(int64_t ns)
{
	int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void become(const char *name, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (priority && pthread_setschedparam(pthread_self(), SCHED_FIFO, &param)) {
		fprintf(stderr, "SCHED_FIFO is not allowed here\n");
		exit(3);
	}
	/* Last: who waits for a thread of this name finds it ready. */
	prctl(PR_SET_NAME, name);
}

static void told(int64_t from)
{
	printf("%lld %lld %d\n", (long long)from, (long long)now(CLOCK_REALTIME), getpid());
	fflush(stdout);
}

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, held, inner, end;
static int rounds, size;

static void *outer_owner(void *unused)
{
	(void)unused;
	become("v-outer", 60);
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&inner);
		pthread_mutex_lock(&first);
		pthread_barrier_wait(&held);
		pthread_mutex_lock(&second);
		pthread_mutex_unlock(&second);
		pthread_mutex_unlock(&first);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void *inner_owner(void *unused)
{
	(void)unused;
	become("v-inner", 50);
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&second);
		pthread_barrier_wait(&inner);
		pthread_barrier_wait(&held);
		work(size * MS);
		pthread_mutex_unlock(&second);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

/* A file without a name, on a disk. */
static int file_of(size_t bytes)
{
	static char block[1 << 16];
	int fd = open("/var/tmp", O_TMPFILE | O_RDWR, 0600);

	memset(block, 1, sizeof(block));
	for (size_t at = 0; fd >= 0 && at < bytes; at += sizeof(block))
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			exit(3);
	if (fd < 0 || fsync(fd))
		exit(3);
	return fd;
}

/* Tells only of rounds in which the kernel counted that it slept in most of the faults. */
static void majors(void)
{
	size_t bytes = (size_t)size << 20;
	int fd = file_of(bytes);

	for (int i = 0; i < rounds; i++) {
		struct rusage before, after;
		volatile char *file;
		int64_t from;

		rest(100 * MS);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		file = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
		if (file == MAP_FAILED || madvise((void *)file, bytes, MADV_RANDOM))
			exit(3);
		getrusage(RUSAGE_SELF, &before);
		from = now(CLOCK_REALTIME);
		for (size_t at = 0; at < bytes; at += 4096)
			(void)file[at];
		getrusage(RUSAGE_SELF, &after);
		if (after.ru_majflt - before.ru_majflt > (long)(bytes / 4096 / 2))
			told(from);
		munmap((void *)file, bytes);
	}
	close(fd);
}

static void owners(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&begin, NULL, 3);
	pthread_barrier_init(&inner, NULL, 2);
	pthread_barrier_init(&held, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	pthread_create(&threads[0], NULL, outer_owner, NULL);
	pthread_create(&threads[1], NULL, inner_owner, NULL);
	for (int i = 0; i < rounds; i++) {
		int64_t from;

		rest(100 * MS);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&held);
		rest(MS);
		from = now(CLOCK_REALTIME);
		pthread_mutex_lock(&first);
		pthread_mutex_unlock(&first);
		told(from);
		pthread_barrier_wait(&end);
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void *owner(void *unused)
{
	(void)unused;
	become("v-owner", 10);
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&first);
		pthread_barrier_wait(&held);
		work(size * MS);
		pthread_mutex_unlock(&first);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

/* The same, with the lock of a middle thread's round. */
static void *short_owner(void *unused)
{
	(void)unused;
	become("v-owner", 10);
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&first);
		pthread_barrier_wait(&held);
		work(MS);
		pthread_mutex_unlock(&first);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void *middle(void *unused)
{
	(void)unused;
	become("v-middle", 40);
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&held);
		work(size * MS);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void plain(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&held, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	pthread_create(&threads[0], NULL, short_owner, NULL);
	pthread_create(&threads[1], NULL, middle, NULL);
	for (int i = 0; i < rounds; i++) {
		int64_t from;

		rest(50 * MS);
		pthread_barrier_wait(&held);
		from = now(CLOCK_REALTIME);
		pthread_mutex_lock(&first);
		pthread_mutex_unlock(&first);
		told(from);
		pthread_barrier_wait(&end);
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void compute(void)
{
	for (int i = 0; i < rounds; i++) {
		int64_t from;

		rest(50 * MS);
		from = now(CLOCK_REALTIME);
		work(size * MS);
		told(from);
	}
}

static void inherit(void)
{
	pthread_mutexattr_t attr;
	pthread_t thread;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&first, &attr);
	pthread_barrier_init(&held, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	pthread_create(&thread, NULL, owner, NULL);
	for (int i = 0; i < rounds; i++) {
		int64_t from;

		rest(50 * MS);
		pthread_barrier_wait(&held);
		rest(MS);
		from = now(CLOCK_REALTIME);
		pthread_mutex_lock(&first);
		pthread_mutex_unlock(&first);
		told(from);
		pthread_barrier_wait(&end);
	}
	pthread_join(thread, NULL);
}

static void pass_on(const char *name, int from, int to)
{
	char byte;

	become(name, 50);
	while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
		;
	_exit(0);
}

static void pipes(void)
{
	int ask[2], one[2], two[2], three[2];
	char byte = 0;
	pid_t children[3];

	if (pipe(ask) || pipe(one) || pipe(two) || pipe(three))
		exit(2);
	children[0] = fork();
	if (!children[0]) {
		become("v-first", 50);
		close(ask[1]);
		while (read(ask[0], &byte, 1) == 1) {
			for (int piece = 0; piece < size; piece++) {
				work(MS);
				rest(50000);
			}
			if (write(one[1], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
	children[1] = fork();
	if (!children[1])
		pass_on("v-second", one[0], two[1]);
	children[2] = fork();
	if (!children[2])
		pass_on("v-third", two[0], three[1]);
	for (int i = 0; i < rounds; i++) {
		int64_t from;

		rest(50 * MS);
		from = now(CLOCK_REALTIME);
		if (write(ask[1], &byte, 1) != 1 || read(three[0], &byte, 1) != 1)
			exit(2);
		told(from);
	}
	for (int i = 0; i < 3; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
}

static void faults(void)
{
	size_t bytes = (size_t)size << 20;

	for (int i = 0; i < rounds; i++) {
		int64_t from;
		char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			exit(2);
		madvise(memory, bytes, MADV_NOHUGEPAGE);
		rest(50 * MS);
		from = now(CLOCK_REALTIME);
		for (size_t at = 0; at < bytes; at += 4096)
			((volatile char *)memory)[at] = 1;
		told(from);
		munmap(memory, bytes);
	}
}

/* Switches that this thread did not want: it was kept from running. */
static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

/* Nothing else shows when a limit of the kernel takes the CPU from a thread that never sleeps. */
static void throttled(void)
{
	int64_t end = now(CLOCK_MONOTONIC) + GAPS_NS_MAX, last = now(CLOCK_REALTIME), at;
	long before, after = switches();

	for (int found = 0; found < rounds && now(CLOCK_MONOTONIC) < end; last = at) {
		at = now(CLOCK_REALTIME);
		if (at - last < size * MS)
			continue;
		before = after;
		after = switches();
		/* Of a machine whose host does not run it, a clock jumps, too. */
		if (after > before) {
			told(last);
			found++;
		}
		at = now(CLOCK_REALTIME);
	}
}

static void served(void)
{
	struct sched_param param = { 0 };
	pid_t parent = getpid(), child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "v-normal");
		while (getppid() == parent)
			;
		_exit(0);
	}
	if (child < 0 || sched_setscheduler(child, SCHED_OTHER, &param))
		exit(3);
	throttled();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Runs for that time of the clock. */
static void run_for(int64_t ns)
{
	for (int64_t until = now(CLOCK_MONOTONIC) + ns; now(CLOCK_MONOTONIC) < until;)
		;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{ "faults", faults }, { "majors", majors }, { "owners", owners }, { "inherit", inherit },
		{ "plain", plain },   { "pipes", pipes },   { "compute", compute },
		{ "throttled", throttled }, { "served", served },
	};
	const char *what = argc >= 3 ? argv[1] : "";
	int64_t from;
	sigset_t begin_set;
	int number;

	sigemptyset(&begin_set);
	sigaddset(&begin_set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &begin_set, NULL);
	rounds = argc >= 3 ? atoi(argv[2]) : 0;
	size = argc >= 4 ? atoi(argv[3]) : !strcmp(what, "sleep") ? 2000 : !strcmp(what, "faults") ? 16 : !strcmp(what, "majors") ? 2 : 15;
	become("victim", strcmp(what, "work") ? (argc >= 5 ? atoi(argv[4]) : 80) : 0);
	from = now(CLOCK_REALTIME);
	if (!strcmp(what, "sleep")) {
		for (int64_t until = now(CLOCK_MONOTONIC) + rounds * MS; now(CLOCK_MONOTONIC) < until;)
			rest(size * 1000LL);
		told(from);
		return 0;
	}
	if (!strcmp(what, "burn") || !strcmp(what, "work")) {
		/* It is put somewhere first: a real-time thread that runs may keep whoever does that from the CPU. */
		sigwait(&begin_set, &number);
		run_for(rounds * MS);
		told(from);
		return 0;
	}
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(what, all[i].name)) {
			all[i].run();
			return 0;
		}
	fprintf(stderr, "victim sleep MS [US], burn|work MS, or faults|majors|owners|inherit|plain|pipes|compute|throttled|served "
			"COUNT [SIZE]\n");
	return 2;
}
