/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wakeup.c: how long after it should a thread runs. Timers: from the expiration that was asked
 * for to the first reading of the clock behind the call. futex and signal: from the reading in
 * front of the waker's call. What cyclictest measures, and the same for other ways of waking
 * up.
 */
#include "probe.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <kymo/tracepoint.h>

KYMO_EVENT(lab, wakeup, (u32, cpu), (u64, sample), (u64, latency_ns))

/* A late thread does not run after its missed expirations: they are counted as lost, and it goes on. */
struct schedule {
	uint64_t next_ns, interval_ns;
};

/* For the pairs: the waker's clock and the word that is waited on. */
struct pair {
	_Alignas(64) uint32_t word;
	uint64_t woken_at; /* cycles */
	uint32_t stop;
	const struct options *options;
	pthread_t wakee;
};

/* Memory that is not there before each so many samples: what a page fault costs, for tests of its being found. */
struct fresh {
	char *memory;
	size_t bytes;
	uint64_t every;
};

static void fresh_make(struct fresh *fresh, const struct options *options)
{
	void *memory;

	*fresh = (struct fresh){ .every = options->fault_every, .bytes = options->fault_bytes };
	if (!fresh->every || !fresh->bytes)
		return;
	memory = mmap(NULL, fresh->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("memory to be touched");
	/* Whatever the process locks, this is not; and single pages: a huge one is one fault. */
	munlock(memory, fresh->bytes);
	madvise(memory, fresh->bytes, MADV_NOHUGEPAGE);
	fresh->memory = memory;
	madvise(memory, fresh->bytes, MADV_DONTNEED);
}

/* In a sample: touches all of it. */
static inline void fresh_touch(const struct fresh *fresh, uint64_t taken)
{
	if (!fresh->memory || taken % fresh->every)
		return;
	for (size_t at = 0; at < fresh->bytes; at += 4096)
		*(volatile char *)(fresh->memory + at) = 1;
}

/* Between samples. */
static inline void fresh_drop(const struct fresh *fresh, uint64_t taken)
{
	if (fresh->memory && !(taken % fresh->every))
		madvise(fresh->memory, fresh->bytes, MADV_DONTNEED);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) };
}

static bool goes_on(const struct worker *self, uint64_t taken, uint64_t end_ns)
{
	const struct options *options = self->options;

	return !probe_stop && (!options->count || taken < options->count + options->warmup) &&
	       monotonic_ns() < end_ns;
}

static void sample(struct worker *self, uint64_t taken, uint64_t latency_ns)
{
	if (taken < self->options->warmup)
		return;
	series_add(self->series, latency_ns, clock_cycles());
	kymo_trace(lab, wakeup, (uint32_t)self->cpu, self->series->count - 1, latency_ns);
}

/* The next expiration that lies ahead; those that were missed are lost samples. */
static void step(struct worker *self, struct schedule *schedule, uint64_t now_ns, uint64_t taken)
{
	schedule->next_ns += schedule->interval_ns;
	if (schedule->next_ns > now_ns)
		return;
	uint64_t missed = (now_ns - schedule->next_ns) / schedule->interval_ns + 1;

	schedule->next_ns += missed * schedule->interval_ns;
	if (taken >= self->options->warmup) {
		self->series->lost += missed;
		self->series->count += missed;
	}
}

static void by_nanosleep(struct worker *self, struct schedule *schedule, uint64_t end_ns)
{
	struct fresh fresh;

	fresh_make(&fresh, self->options);
	for (uint64_t taken = 0; goes_on(self, taken, end_ns); taken++) {
		const struct timespec at = timespec_of(schedule->next_ns);
		uint64_t now;

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
			continue; /* a signal */
		fresh_touch(&fresh, taken);
		now = monotonic_ns();
		sample(self, taken, now > schedule->next_ns ? now - schedule->next_ns : 0);
		fresh_drop(&fresh, taken);
		step(self, schedule, now, taken);
	}
}

static void by_timerfd(struct worker *self, struct schedule *schedule, uint64_t end_ns)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd < 0)
		die("timerfd_create");
	for (uint64_t taken = 0; goes_on(self, taken, end_ns); taken++) {
		const struct itimerspec at = { .it_value = timespec_of(schedule->next_ns) };
		uint64_t expired, now;

		if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL))
			die("timerfd_settime");
		if (read(fd, &expired, sizeof(expired)) != sizeof(expired))
			continue;
		now = monotonic_ns();
		sample(self, taken, now > schedule->next_ns ? now - schedule->next_ns : 0);
		step(self, schedule, now, taken);
	}
	close(fd);
}

/* The waker: a thread of the same class that is not measured, and not bound to the wakee's CPU. */
static void *waker(void *argument)
{
	struct pair *pair = argument;
	const struct options *options = pair->options;
	const struct sched_param param = {
		.sched_priority = options->policy == SCHED_OTHER ? 0 : options->priority,
	};
	bool by_signal = !strcmp(options->method, "signal");
	uint64_t next = monotonic_ns();

	pthread_setschedparam(pthread_self(), options->policy, &param);
	while (!__atomic_load_n(&pair->stop, __ATOMIC_ACQUIRE)) {
		struct timespec at;

		next += options->interval_ns;
		at = timespec_of(next);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		__atomic_store_n(&pair->woken_at, clock_cycles(), __ATOMIC_RELAXED);
		__atomic_add_fetch(&pair->word, 1, __ATOMIC_RELEASE);
		if (by_signal)
			pthread_kill(pair->wakee, SIGUSR1);
		else
			syscall(SYS_futex, &pair->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

/* A thread with the process's affinity, not with that of the one that makes it. */
static int start_unbound(pthread_t *thread, void *(*run)(void *), void *argument)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	if (!sched_getaffinity(getpid(), sizeof(set), &set))
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	error = pthread_create(thread, &attr, run, argument);
	pthread_attr_destroy(&attr);
	return error;
}

static void by_pair(struct worker *self, uint64_t end_ns)
{
	bool by_signal = !strcmp(self->options->method, "signal");
	struct pair *pair = self->own;
	uint32_t seen = 0;
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pair->options = self->options;
	pair->wakee = pthread_self();
	if (start_unbound(&thread, waker, pair))
		die("cannot make a thread");
	for (uint64_t taken = 0; goes_on(self, taken, end_ns);) {
		const struct timespec patience = { 1, 0 };
		uint32_t word;

		if (by_signal)
			sigtimedwait(&set, NULL, &patience);
		else
			syscall(SYS_futex, &pair->word, FUTEX_WAIT_PRIVATE, seen, &patience, NULL, 0);
		uint64_t now = clock_cycles();

		word = __atomic_load_n(&pair->word, __ATOMIC_ACQUIRE);
		if (word == seen)
			continue;
		if (word - seen > 1 && taken >= self->options->warmup) {
			self->series->lost += word - seen - 1;
			self->series->count += word - seen - 1;
		}
		seen = word;
		uint64_t woken = __atomic_load_n(&pair->woken_at, __ATOMIC_RELAXED);

		sample(self, taken, now > woken ? clock_ns_of(now - woken) : 0);
		taken++;
	}
	__atomic_store_n(&pair->stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

/* The thread's class for SCHED_DEADLINE, which glibc of these days has no function for. */
static bool become_deadline(const struct worker *self)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .policy = 6 };

	attr.period = attr.deadline = self->options->interval_ns;
	attr.runtime = attr.period / 4;
	if (!syscall(SYS_sched_setattr, 0, &attr, 0))
		return true;
	say_trouble("not-deadline",
		    "thread %u cannot have SCHED_DEADLINE: %s (it may not be bound to some CPUs of a root domain)",
		    self->number, strerror(errno));
	return false;
}

static void *body(struct worker *self)
{
	const struct options *options = self->options;
	struct schedule schedule = { 0 };
	uint64_t end_ns;

	if (options->policy == 6) {
		self->tid = (int)syscall(SYS_gettid);
		become_deadline(self);
	} else {
		place(self, options->policy, options->priority);
	}
	kymo_thread_init();
	wait_for_go(self);
	schedule.interval_ns = options->interval_ns + self->number * options->distance_ns;
	schedule.next_ns = monotonic_ns() + schedule.interval_ns;
	end_ns = options->duration_ns ? monotonic_ns() + options->duration_ns : UINT64_MAX;
	if (!strcmp(options->method, "timerfd"))
		by_timerfd(self, &schedule, end_ns);
	else if (self->own)
		by_pair(self, end_ns);
	else
		by_nanosleep(self, &schedule, end_ns);
	unplace();
	return NULL;
}

void test_wakeup(const struct options *options)
{
	static struct worker workers[THREADS_MAX];
	static struct pair pairs[THREADS_MAX];
	unsigned count = options->cpu_count ? options->cpu_count : 1;
	bool paired = !strcmp(options->method, "futex") || !strcmp(options->method, "signal");
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (unsigned i = 0; i < count; i++) {
		int cpu = options->cpu_count ? options->cpus[i] : -1;

		workers[i] = (struct worker){ .options = options,
					      .number = i,
					      .cpu = cpu,
					      .series = series_new("wakeup", cpu),
					      .own = paired ? &pairs[i] : NULL,
					      .body = body };
	}
	run_workers(workers, count);
}
