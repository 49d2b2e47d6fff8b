// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A program with delays of known causes, to be recorded and explained. Prints for each delay when it was, and whose:
 * `FROM TO TID` (ns since 1970).
 *
 *     victim sleep MS          a real-time thread that sleeps 2 ms at a time; others do something to it
 *     victim burn MS           runs for that time, real-time
 *     victim work MS           the same, of a normal class
 *     victim faults COUNT      touches 16 MiB that are not there
 *     victim owners COUNT      a lock whose owner waits for a lock, whose owner works for 15 ms
 *     victim inherit COUNT     a lock with priority inheritance, whose owner works for 15 ms
 *     victim pipes COUNT       a reader at the end of three pipes; the first writer works 15 ms in pieces
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define FAULT_BYTES (16 << 20)

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

	prctl(PR_SET_NAME, name);
	if (priority && pthread_setschedparam(pthread_self(), SCHED_FIFO, &param)) {
		fprintf(stderr, "SCHED_FIFO is not allowed here\n");
		exit(3);
	}
}

static void told(int64_t from)
{
	printf("%lld %lld %d\n", (long long)from, (long long)now(CLOCK_REALTIME), getpid());
	fflush(stdout);
}

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, held, inner, end;
static int rounds;

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
		work(15 * MS);
		pthread_mutex_unlock(&second);
		pthread_barrier_wait(&end);
	}
	return NULL;
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
		work(15 * MS);
		pthread_mutex_unlock(&first);
		pthread_barrier_wait(&end);
	}
	return NULL;
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
			for (int piece = 0; piece < 15; piece++) {
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
	for (int i = 0; i < rounds; i++) {
		int64_t from;
		char *memory = mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			exit(2);
		madvise(memory, FAULT_BYTES, MADV_NOHUGEPAGE);
		rest(50 * MS);
		from = now(CLOCK_REALTIME);
		for (size_t at = 0; at < FAULT_BYTES; at += 4096)
			((volatile char *)memory)[at] = 1;
		told(from);
		munmap(memory, FAULT_BYTES);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[1] : "";
	int64_t from;

	rounds = argc == 3 ? atoi(argv[2]) : 0;
	become("victim", strcmp(what, "work") ? 80 : 0);
	from = now(CLOCK_REALTIME);
	if (!strcmp(what, "sleep")) {
		for (int64_t until = now(CLOCK_MONOTONIC) + rounds * MS; now(CLOCK_MONOTONIC) < until;)
			rest(2 * MS);
		told(from);
	} else if (!strcmp(what, "burn") || !strcmp(what, "work")) {
		for (int64_t until = now(CLOCK_MONOTONIC) + rounds * MS; now(CLOCK_MONOTONIC) < until;)
			;
		told(from);
	} else if (!strcmp(what, "faults")) {
		faults();
	} else if (!strcmp(what, "owners")) {
		owners();
	} else if (!strcmp(what, "inherit")) {
		inherit();
	} else if (!strcmp(what, "pipes")) {
		pipes();
	} else {
		fprintf(stderr, "victim sleep|burn|work MS, or faults|owners|inherit|pipes COUNT\n");
		return 2;
	}
	return 0;
}
