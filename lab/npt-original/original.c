/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * original.c: the measuring loop of the Non-Preempt Test of 2013 as its paper and its users
 * describe it, to hold the floor of `kymo npt` against: one reading of the TSC a turn without a
 * fence, the gap as a double, smallest, largest and sum, Welford's mean and variance with their
 * division, and a million linear bins. Prints what npt prints, which `kymo import` reads. Not
 * the program: no tracepoints, no interrupts off, no options but these.
 *
 *	npt-original CPU LOOPS PRIORITY
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BINS 1000000
#define WARMUP 5

static uint64_t bins[BINS], beyond;

struct moments {
	double min, max, sum, mean, squares;
};

static inline uint64_t tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static uint64_t raw_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of a tick, over 100 ms. */
static double period(void)
{
	uint64_t ns = raw_ns(), ticks = tsc(), end = ns + 100000000, now;

	while ((now = raw_ns()) < end)
		;
	return (double)(now - ns) / (double)(tsc() - ticks);
}

static inline void keep(struct moments *moments, double ns, uint64_t number)
{
	double from_mean = ns - moments->mean;

	if (ns < moments->min)
		moments->min = ns;
	if (ns > moments->max)
		moments->max = ns;
	moments->sum += ns;
	moments->mean += from_mean / (double)number;
	moments->squares += from_mean * (ns - moments->mean);
	if (ns < BINS)
		bins[(int)ns]++;
	else
		beyond++;
}

/* `turn` lives in memory, as the original's counter does. */
static void loop(struct moments *moments, uint64_t loops, double ns_per_tick)
{
	static volatile uint64_t turn;
	uint64_t now = tsc(), before = now;

	while (turn < loops + WARMUP) {
		double ns = now < before ? 0 : (double)(now - before) * ns_per_tick;

		turn++;
		if (turn > WARMUP)
			keep(moments, ns, turn - WARMUP);
		before = now;
		now = tsc();
	}
}

static void place(int cpu, int priority)
{
	const struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fprintf(stderr, "npt-original: CPU %d: %s\n", cpu, strerror(errno));
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		fprintf(stderr, "npt-original: SCHED_FIFO: %s\n", strerror(errno));
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fprintf(stderr, "npt-original: mlockall: %s\n", strerror(errno));
	printf("# CPU affinity set on CPU %d\n# Application priority set to %d\n", cpu, priority);
}

static void say(const struct moments *moments, uint64_t loops)
{
	double variance = moments->squares / (double)loops;

	printf("%" PRIu64 " loops done.\nLoops duration:\n", loops);
	printf("\tmin:\t\t%f ns\n\tmax:\t\t%f ns\n\tmean:\t\t%f ns\n", moments->min, moments->max,
	       moments->mean);
	printf("\tsum:\t\t%f ns\n\tvariance:\t%g ns\n\tstd dev:\t%f ns\n", moments->sum, variance,
	       sqrt(variance));
	printf("--------------------------\nduration (ns)\tnb. loops\n--------------------------\n");
	for (int i = 0; i < BINS; i++)
		if (bins[i])
			printf("%d\t\t%" PRIu64 "\n", i, bins[i]);
	printf("--------------------------\nOverruns (%d+): %" PRIu64 "\n", BINS, beyond);
}

int main(int argc, char **argv)
{
	static struct moments moments = { .min = 99999 };
	uint64_t loops;
	double ns_per_tick;

	if (argc != 4) {
		fprintf(stderr, "npt-original CPU LOOPS PRIORITY\n");
		return 2;
	}
	loops = strtoull(argv[2], NULL, 10);
	if (!loops) {
		fprintf(stderr, "npt-original: LOOPS is a number above 0\n");
		return 2;
	}
	place(atoi(argv[1]), atoi(argv[3]));
	ns_per_tick = period();
	loop(&moments, loops, ns_per_tick);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	say(&moments, loops);
	return 0;
}
