/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * paced.c: one writer at a given rate, for the sustained rate and for the collectors' CPU. Writes small batches on
 * a TSC schedule, so that pacing costs no clock read per record. A writer that falls more than 1 ms behind (stolen
 * CPU) drops that part of the schedule instead of catching up in a burst: the rate printed is what was reached.
 *
 *	paced [--cpu N] KIND RATE SECONDS        RATE in records/s; 0: as fast as it goes
 *
 * Values run from 0 without a gap, so that the trace can be counted.
 */
#include <string.h>

#include "kinds.h"
#include "peek.h"
#include "ready.h"

/* Of this thread: what is missing to the wall clock was taken by other programs or by the hypervisor. */
static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint64_t batch_for(double rate)
{
	double batch = rate / 100000.0; /* a batch every 10 us */

	return rate <= 0 || batch > 256 ? 256 : batch < 1 ? 1 : (uint64_t)batch;
}

int main(int argc, char **argv)
{
	int cpu = 1, at = 1;
	struct peek before, after;

	if (argc > 3 && !strcmp(argv[1], "--cpu")) {
		cpu = atoi(argv[2]);
		at = 3;
	}
	if (argc - at != 3)
		return 2;

	const struct kind *kind = kind_find(argv[at]);
	double rate = atof(argv[at + 1]), seconds = atof(argv[at + 2]);

	if (!kind || kind->records != 1) {
		fprintf(stderr, "paced: no kind %s in this build\n", argv[at]);
		return 2;
	}
	pin_to(cpu);
	if (ready_wait(kind) != 0)
		return 3;
	peek_find();

	double hz = ticks_hz_now();
	uint64_t batch = batch_for(rate), produced = 0, late_max = 0, dropped_ticks = 0;
	uint64_t step = rate > 0 ? (uint64_t)(hz * (double)batch / rate) : 0, slack = (uint64_t)(hz / 1000);
	uint64_t from, now, next, end;
	double cpu_from;

	cpu_from = cpu_seconds();
	peek_read(&before);
	from = next = ticks_begin();
	end = from + (uint64_t)(seconds * hz);
	for (now = from; now < end; now = __rdtsc()) {
		if (now < next)
			continue;
		if (now - next > late_max)
			late_max = now - next;
		if (step && now - next > slack) {
			dropped_ticks += now - next;
			next = now;
		}
		kind->loop(produced, batch);
		produced += batch;
		next += step;
	}
	now = ticks_end();
	cpu_from = cpu_seconds() - cpu_from;
	peek_read(&after);
	printf("produced %llu seconds %.6f cpu_s %.6f rate %.0f late_us_max %.1f skipped_us %.1f recorded %lld lost %lld\n",
	       (unsigned long long)produced, (double)(now - from) / hz, cpu_from, (double)produced * hz / (double)(now - from),
	       step ? (double)late_max / hz * 1e6 : 0.0, (double)dropped_ticks / hz * 1e6,
	       (long long)(after.recorded - before.recorded), (long long)(after.lost - before.lost));
	return 0;
}
