/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * single.c: times single executions, one by one, cold and hot. Blocks of the kinds alternate. Each sample is one
 * pair of fenced clock reads around one body; the kind "empty" gives the floor of that timer. Nothing is
 * subtracted and nothing is averaged; samples go to files, for the reader to judge.
 *
 *	single [--cpu N] [--rounds N] [--cold N] [--hot N] [--block N] [--evict-mb N] --out PREFIX KIND...
 *
 * Writes PREFIX.KIND.cold and PREFIX.KIND.hot: uint32 ticks in the order of time, ROUNDS x N of them.
 */
#include <string.h>

#include "evict.h"
#include "kinds.h"
#include "peek.h"
#include "ready.h"

#define KINDS_MAX 8
#define WARM 64

struct series {
	const struct kind *kind;
	uint32_t *samples[2]; /* hot, cold */
	size_t count[2];
	uint64_t next;
};

static struct series series[KINDS_MAX];
static int series_count;
static int cpu = 1, rounds = 9, block = 50;
static size_t per_round[2] = {20000, 2500}; /* hot, cold */
static size_t evict_mb = 8;
static const char *out;

static void block_hot(struct series *s, size_t n)
{
	for (size_t i = 0; i < WARM; i++)
		s->kind->single(s->next++);
	for (size_t i = 0; i < n; i++)
		s->samples[0][s->count[0]++] = s->kind->single(s->next++);
}

static void block_cold(struct series *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		evict();
		s->samples[1][s->count[1]++] = s->kind->single(s->next++);
	}
}

static void one_round(int round)
{
	size_t hot_left = per_round[0], cold_left = per_round[1];

	for (int turn = round; hot_left || cold_left; turn++) {
		size_t cold = cold_left < (size_t)block ? cold_left : (size_t)block;
		size_t hot = hot_left < (size_t)block * 8 ? hot_left : (size_t)block * 8;

		for (int i = 0; cold && i < series_count; i++)
			block_cold(&series[(i + turn) % series_count], cold);
		for (int i = 0; hot && i < series_count; i++)
			block_hot(&series[(i + turn) % series_count], hot);
		cold_left -= cold;
		hot_left -= hot;
	}
}

static int save(const struct series *s, int cold)
{
	char path[4096];
	FILE *file;
	int ok;

	snprintf(path, sizeof(path), "%s.%s.%s", out, s->kind->name, cold ? "cold" : "hot");
	file = fopen(path, "w");
	ok = file && fwrite(s->samples[cold], sizeof(uint32_t), s->count[cold], file) == s->count[cold];
	if (file && fclose(file) != 0)
		ok = 0;
	if (!ok)
		perror(path);
	return ok ? 0 : -1;
}

static int parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strncmp(argv[i], "--", 2) != 0) {
			if (series_count == KINDS_MAX || !(series[series_count].kind = kind_find(argv[i]))) {
				fprintf(stderr, "single: no kind %s in this build\n", argv[i]);
				return -1;
			}
			series_count++;
			continue;
		}
		if (!strcmp(argv[i], "--cpu"))
			cpu = atoi(value);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = atoi(value);
		else if (!strcmp(argv[i], "--cold"))
			per_round[1] = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--hot"))
			per_round[0] = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--block"))
			block = atoi(value);
		else if (!strcmp(argv[i], "--evict-mb"))
			evict_mb = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--out"))
			out = value;
		else
			return -1;
		i++;
	}
	return series_count && out && block > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct ticks_mark from, to;
	struct peek before, after;
	uint64_t kymo_executions = 0;

	if (parse(argc, argv) != 0)
		return 2;
	pin_to(cpu);
	if (evict_init(evict_mb << 20) != 0)
		return 2;
	for (int i = 0; i < series_count; i++) {
		struct series *s = &series[i];

		if (ready_wait(s->kind) != 0)
			return 3;
		for (int c = 0; c < 2; c++) {
			size_t bytes = per_round[c] * rounds * sizeof(uint32_t);

			s->samples[c] = malloc(bytes + 1);
			if (!s->samples[c])
				return 2;
			memset(s->samples[c], 0xff, bytes); /* no page fault while measuring */
		}
		s->kind->loop(0, WARM);
	}
	peek_find();
	peek_read(&before);

	from = ticks_mark();
	for (int r = 0; r < rounds; r++)
		one_round(r);
	to = ticks_mark();

	peek_read(&after);
	for (int i = 0; i < series_count; i++) {
		if (series[i].kind->tracer == TRACER_KYMO)
			kymo_executions += series[i].next;
		if (save(&series[i], 0) != 0 || save(&series[i], 1) != 0)
			return 2;
	}
	printf("tsc_hz %.0f\n", ticks_hz(from, to));
	printf("kymo produced %llu recorded %llu lost %llu\n", (unsigned long long)kymo_executions,
	       (unsigned long long)(after.recorded - before.recorded), (unsigned long long)(after.lost - before.lost));
	return 0;
}
