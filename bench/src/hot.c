/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hot.c: times blocks of hot loops. The kinds given alternate block by block on one core, in an order that
 * rotates, so that whatever the machine does in a given millisecond it does to all of them. Prints raw ticks;
 * draws no conclusion.
 *
 *	hot [--cpu N] [--rounds N] [--cycles N] [--from ROUND] KIND:EXECUTIONS...
 *
 * Output, one line a block:
 *	block ROUND CYCLE KIND EXECUTIONS TICKS RECORDED LOST
 * RECORDED and LOST are what kymo's rings say of this block (warm-up included in neither); -1 for other kinds.
 */
#include <string.h>

#include "kinds.h"
#include "peek.h"
#include "ready.h"

#define WARM 256
#define KINDS_MAX 16

struct work {
	const struct kind *kind;
	uint64_t n;
	uint64_t next; /* value of the next record */
};

static struct work work[KINDS_MAX];
static int work_count;
static int cpu = 1, rounds = 9, cycles = 9, from_round;
static int peeking;

/* A block must find room for all its records; the collector is given 200 ms to make some. */
static void wait_for_room(void)
{
	const struct timespec pause = {0, 200000};
	struct peek peek;

	for (int i = 0; i < 1000; i++) {
		peek_read(&peek);
		if (peek.waiting_bytes <= peek.ring_bytes / 8)
			return;
		nanosleep(&pause, NULL);
	}
}

static void block(struct work *w, int round, int cycle)
{
	int peek_this = peeking && w->kind->tracer == TRACER_KYMO;
	struct peek before, after;
	uint64_t from, to;

	if (peek_this)
		wait_for_room();
	w->kind->loop(w->next, WARM);
	w->next += WARM;
	peek_read(&before);
	from = ticks_begin();
	w->kind->loop(w->next, w->n);
	to = ticks_end();
	peek_read(&after);
	w->next += w->n;
	printf("block %d %d %s %llu %llu %lld %lld\n", round, cycle, w->kind->name, (unsigned long long)w->n,
	       (unsigned long long)(to - from), peek_this ? (long long)(after.recorded - before.recorded) : -1,
	       peek_this ? (long long)(after.lost - before.lost) : -1);
}

static int parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *colon = strchr(argv[i], ':');

		if (!strcmp(argv[i], "--cpu") && i + 1 < argc)
			cpu = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--cycles") && i + 1 < argc)
			cycles = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--from") && i + 1 < argc)
			from_round = atoi(argv[++i]);
		else if (colon && work_count < KINDS_MAX) {
			*colon = 0;
			work[work_count].kind = kind_find(argv[i]);
			work[work_count].n = strtoull(colon + 1, NULL, 10);
			if (!work[work_count].kind || !work[work_count].n) {
				fprintf(stderr, "hot: no kind %s in this build\n", argv[i]);
				return -1;
			}
			work_count++;
		} else {
			fprintf(stderr, "hot: %s?\n", argv[i]);
			return -1;
		}
	}
	return work_count ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct ticks_mark from, to;
	struct peek peek;

	if (parse(argc, argv) != 0)
		return 2;
	pin_to(cpu);
	for (int i = 0; i < work_count; i++)
		if (ready_wait(work[i].kind) != 0)
			return 3;
	for (int i = 0; i < work_count; i++) /* first records: page faults, thread registration, code */
		work[i].kind->loop(0, WARM);
	peeking = peek_find();
	peek_read(&peek);
	printf("rings %d kind %u lanes %u ring_bytes %llu\n", peeking, peek.kind, peek.lane_count,
	       (unsigned long long)peek.ring_bytes);

	from = ticks_mark();
	for (int r = 0; r < rounds; r++)
		for (int c = 0; c < cycles; c++)
			for (int i = 0; i < work_count; i++)
				block(&work[(i + c + r) % work_count], from_round + r, c);
	to = ticks_mark();
	printf("tsc_hz %.0f\n", ticks_hz(from, to));
	return 0;
}
