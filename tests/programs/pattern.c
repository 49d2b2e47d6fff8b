/*
 * Threads with a known pattern, for findings to be held against: `sleeper` sleeps 20 times, `waiter` waits for a mutex that
 * `owner` holds, `hog_a` and `hog_b` share a CPU. What the program has measured itself is printed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPS = 20, SLEEP_MS = 5, HOLD_MS = 60, HOG_MS = 200 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;
static pid_t waiter_tid; /* 0: it does not wait yet */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_ms(int ms)
{
	struct timespec time = { .tv_nsec = ms * 1000000L };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void *sleeper(void *unused)
{
	for (int i = 0; i < SLEEPS; i++)
		sleep_ms(SLEEP_MS);
	return unused;
}

/* Whether the waiter sleeps. It announces itself right before it locks, so that is where it does. */
static int is_waiting(void)
{
	pid_t tid = __atomic_load_n(&waiter_tid, __ATOMIC_ACQUIRE);
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	file = tid ? fopen(path, "r") : NULL;
	if (!file)
		return 0;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'S';
}

static void *owner(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_barrier_wait(&held);
	/* On a busy machine the waiter may come late. */
	while (!is_waiting())
		sched_yield();
	sleep_ms(HOLD_MS);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *waiter(void *unused)
{
	int64_t from;

	pthread_barrier_wait(&held);
	from = now_ns();
	__atomic_store_n(&waiter_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	pthread_mutex_lock(&mutex);
	printf("waited_ns=%lld\n", (long long)(now_ns() - from));
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *hog(void *unused)
{
	int64_t until = now_ns() + HOG_MS * INT64_C(1000000);

	while (now_ns() < until)
		;
	return unused;
}

struct part {
	const char *name;
	void *(*what)(void *);
	int cpu; /* -1: any */
};

/* A thread of the pattern: takes its name before it does anything that is measured. */
static void *run(void *arg)
{
	struct part *part = arg;

	pthread_setname_np(pthread_self(), part->name);
	return part->what(NULL);
}

static pthread_t start(struct part *part)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t cpus;

	pthread_attr_init(&attr);
	if (part->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(part->cpu, &cpus);
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	}
	pthread_create(&thread, &attr, run, part);
	return thread;
}

int main(void)
{
	struct part parts[] = {
		{ "sleeper", sleeper, -1 }, { "owner", owner, -1 }, { "waiter", waiter, -1 },
		{ "hog_a", hog, 0 },	    { "hog_b", hog, 0 },
	};
	enum { PARTS = sizeof(parts) / sizeof(parts[0]) };
	pthread_t threads[PARTS];

	pthread_barrier_init(&held, NULL, 2);
	for (int i = 0; i < PARTS; i++)
		threads[i] = start(&parts[i]);
	for (int i = 0; i < PARTS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
