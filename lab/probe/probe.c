/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * probe.c: placing threads and saying how they are placed; the clock; the tool's own floor.
 */
#include "probe.h"
#include "tsc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLOOR_ROUNDS 1001

volatile bool probe_stop;
bool clock_is_tsc;
double clock_cycles_per_ns = 1;
uint64_t clock_mult = 1ull << 32;

static pthread_barrier_t placed, go;

_Noreturn void die(const char *what)
{
	fprintf(stderr, "kymo-probe: %s: %s\n", what, strerror(errno));
	exit(2);
}

void say_trouble(const char *id, const char *format, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char text[256];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	pthread_mutex_lock(&lock);
	printf("{\"say\":\"trouble\",\"id\":\"%s\",\"text\":\"%s\"}\n", id, text);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

#if defined(__x86_64__)
/* Cycles per nanosecond over 100 ms, each end read between two readings of the counter. */
static double evaluate(void)
{
	const struct timespec pause = { 0, 100000000 };
	uint64_t cycles[2], ns[2];

	for (int end = 0; end < 2; end++) {
		uint64_t best = UINT64_MAX;

		for (int round = 0; round < 20; round++) {
			struct timespec now;
			uint64_t before = clock_cycles(), after;

			clock_gettime(CLOCK_MONOTONIC_RAW, &now);
			after = clock_cycles();
			if (after - before >= best)
				continue;
			best = after - before;
			cycles[end] = before + best / 2;
			ns[end] = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
		}
		if (!end)
			nanosleep(&pause, NULL);
	}
	return (double)(cycles[1] - cycles[0]) / (double)(ns[1] - ns[0]);
}
#endif

void clock_prepare(const struct options *options)
{
#if defined(__x86_64__)
	const char *wish = secure_getenv("KYMO_CLOCK");

	clock_is_tsc = kymo_tsc_is_clock(wish ? wish : "");
	if (clock_is_tsc)
		clock_cycles_per_ns = options->cycles_per_ns > 0 ? options->cycles_per_ns : evaluate();
#endif
	(void)options;
	clock_mult = (uint64_t)(4294967296.0 / clock_cycles_per_ns);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* Medians: of one clock reading (differences of two), and of one turn of an empty measuring loop. */
void floor_measure(double *clock_read_ns, double *loop_ns)
{
	static uint64_t reads[FLOOR_ROUNDS], turns[FLOOR_ROUNDS];
	struct series *series = series_new("floor", -1);

	for (int round = 0; round < FLOOR_ROUNDS; round++) {
		uint64_t start = clock_cycles(), last = start;

		for (int i = 0; i < 16; i++)
			last = clock_cycles();
		reads[round] = last - start;
		start = clock_cycles();
		for (int i = 0; i < 16; i++) {
			uint64_t now = clock_cycles();

			series_add(series, clock_ns_of(now - last), now);
			last = now;
		}
		turns[round] = last - start;
	}
	free(series);
	qsort(reads, FLOOR_ROUNDS, sizeof(*reads), by_number);
	qsort(turns, FLOOR_ROUNDS, sizeof(*turns), by_number);
	*clock_read_ns = (double)reads[FLOOR_ROUNDS / 2] / 16 / clock_cycles_per_ns;
	*loop_ns = (double)turns[FLOOR_ROUNDS / 2] / 16 / clock_cycles_per_ns;
}

static const char *policy_name(int policy)
{
	switch (policy & ~SCHED_RESET_ON_FORK) {
	case SCHED_OTHER:
		return "SCHED_OTHER";
	case SCHED_FIFO:
		return "SCHED_FIFO";
	case SCHED_RR:
		return "SCHED_RR";
	case SCHED_BATCH:
		return "SCHED_BATCH";
	case SCHED_IDLE:
		return "SCHED_IDLE";
	case 6:
		return "SCHED_DEADLINE";
	default:
		return "unknown";
	}
}

void place(struct worker *self, int policy, int priority)
{
	/* The kernel takes no priority with a class that has none. */
	const struct sched_param param = { .sched_priority = policy == SCHED_OTHER ? 0 : priority };
	cpu_set_t set;
	int error;

	self->tid = (int)syscall(SYS_gettid);
	if (self->cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(self->cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			say_trouble("affinity", "thread %u cannot run on CPU %d: %s", self->number, self->cpu,
				    strerror(errno));
	}
	error = pthread_setschedparam(pthread_self(), policy, &param);
	if (error)
		say_trouble("not-fifo", "thread %u cannot have %s priority %d: %s", self->number,
			    policy_name(policy), priority, strerror(error));
}

void unplace(void)
{
	const struct sched_param normal = { 0 };

	pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
}

static void say_thread(const struct worker *worker, bool locked)
{
	int policy = sched_getscheduler(worker->tid);
	struct sched_param param = { 0 };
	const char *comma = "";
	cpu_set_t set;

	sched_getparam(worker->tid, &param);
	printf("%s{\"tid\":%d,\"cpu\":%d,\"policy\":\"%s\",\"priority\":%d,\"locked\":%s,\"affinity\":[",
	       worker->number ? "," : "", worker->tid, worker->cpu, policy_name(policy),
	       param.sched_priority, locked ? "true" : "false");
	if (!sched_getaffinity(worker->tid, sizeof(set), &set))
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &set)) {
				printf("%s%d", comma, cpu);
				comma = ",";
			}
	printf("]}");
}

void wait_for_go(struct worker *self)
{
	(void)self;
	pthread_barrier_wait(&placed);
	pthread_barrier_wait(&go);
}

static void *start(void *argument)
{
	struct worker *self = argument;

	return self->body(self);
}

/* Until somebody lets us go: a recorder may have to be started first, which knows the threads by now. */
static void wait_to_be_let_go(const struct options *options)
{
	char byte;

	while (options->wait && read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR && !probe_stop)
		;
}

/* Whether a thread has come to a new worst sample since it was asked last. */
static bool has_new_worst(struct worker *worker)
{
	uint64_t watched = worker->series ? __atomic_load_n(&worker->series->watched, __ATOMIC_RELAXED) : 0;
	bool is_new = watched != worker->watched;

	worker->watched = watched;
	return is_new;
}

static void say_worst(struct worker *workers, unsigned count)
{
	uint64_t longest = 0;
	bool any = false;

	for (unsigned i = 0; i < count; i++)
		if (has_new_worst(&workers[i])) {
			uint64_t max = __atomic_load_n(&workers[i].series->max, __ATOMIC_RELAXED);

			any = true;
			longest = max > longest ? max : longest;
		}
	if (!any)
		return;
	printf("{\"say\":\"worst\",\"longest_ns\":%" PRIu64 "}\n", longest);
	fflush(stdout);
}

/* Waits for all; meanwhile says now and then that there are new worst samples. */
static void join_workers(const struct options *options, struct worker *workers, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		for (;;) {
			uint64_t ns = (uint64_t)until.tv_nsec + options->watch_ns;

			until.tv_sec += (time_t)(ns / SECOND_NS);
			until.tv_nsec = (long)(ns % SECOND_NS);
			if (!options->watch_ns) {
				pthread_join(workers[i].thread, NULL);
				break;
			}
			if (!pthread_timedjoin_np(workers[i].thread, NULL, &until))
				break;
			say_worst(workers, count);
		}
	}
	if (options->watch_ns)
		say_worst(workers, count);
}

static bool lock_memory(const struct options *options)
{
	if (!options->lock)
		return false;
	if (!mlockall(MCL_CURRENT | MCL_FUTURE))
		return true;
	say_trouble("not-locked", "memory cannot be locked: %s (ulimit -l, CAP_IPC_LOCK)", strerror(errno));
	return false;
}

void run_workers(struct worker *workers, unsigned count)
{
	bool locked = lock_memory(workers->options);
	double clock_read_ns, loop_ns;
	pthread_attr_t attr;

	for (unsigned i = 0; i < count; i++)
		if (workers[i].series)
			workers[i].series->watch_above_ns = workers->options->watch_above_ns;

	pthread_barrier_init(&placed, NULL, count + 1);
	pthread_barrier_init(&go, NULL, count + 1);
	pthread_attr_init(&attr);
	/* Locked memory is touched memory: the default of 8 MiB a thread is not. */
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (unsigned i = 0; i < count; i++) {
		int error = pthread_create(&workers[i].thread, &attr, start, &workers[i]);

		if (error) {
			errno = error;
			die("cannot make a thread");
		}
	}
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(&placed);
	printf("{\"say\":\"ready\",\"pid\":%d,\"clock\":\"%s\",\"cycles_per_ns\":%.9f,\"threads\":[",
	       (int)getpid(), clock_is_tsc ? "tsc" : "monotonic", clock_cycles_per_ns);
	for (unsigned i = 0; i < count; i++)
		say_thread(&workers[i], locked);
	printf("]}\n");
	floor_measure(&clock_read_ns, &loop_ns);
	printf("{\"say\":\"floor\",\"clock_read_ns\":%.2f,\"loop_ns\":%.2f}\n", clock_read_ns, loop_ns);
	fflush(stdout);
	wait_to_be_let_go(workers->options);
	pthread_barrier_wait(&go);
	join_workers(workers->options, workers, count);
	for (unsigned i = 0; i < count; i++)
		if (workers[i].series)
			series_say(workers[i].series, workers[i].tid);
}

void run_on_each_cpu(const struct options *options, const char *name,
		     void *(*body)(struct worker *self))
{
	static struct worker workers[THREADS_MAX];
	unsigned count = options->cpu_count ? options->cpu_count : 1;

	for (unsigned i = 0; i < count; i++) {
		int cpu = options->cpu_count ? options->cpus[i] : -1;

		workers[i] = (struct worker){ .options = options,
					      .number = i,
					      .cpu = cpu,
					      .series = series_new(name, cpu),
					      .body = body };
	}
	run_workers(workers, count);
}

bool rounds_go_on(const struct options *options, uint64_t round, uint64_t end_ns)
{
	return !probe_stop && monotonic_ns() < end_ns &&
	       (!options->count || round < options->count + options->warmup);
}

void busy_for(uint64_t ns)
{
	uint64_t end = clock_cycles() + (uint64_t)((double)ns * clock_cycles_per_ns);

	while (clock_cycles() < end)
		;
}
