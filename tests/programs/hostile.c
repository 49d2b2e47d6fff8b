/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hostile.c WHERE SEED ROUNDS: traces, and writes rubbish into the memory that it shares with the
 * collector: h the header page, c the control blocks, d the rings' bytes, z zeros in place of rubbish.
 * It may well die of that itself.
 */
#include "common.h"

KYMO_EVENT(hostile, rec, (u64, n), (str, text), (seq(u32), numbers))

static uint64_t state;

static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

struct span {
	uint8_t *at;
	size_t bytes;
};

/* Writable mappings of the collector's memory. */
static size_t find(struct span *spans, size_t most)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	size_t count = 0;

	while (maps && count < most && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char rights[5];

		if (strstr(line, "memfd:kymo") && sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && rights[1] == 'w')
			spans[count++] = (struct span){ (uint8_t *)from, to - from };
	}
	if (maps)
		fclose(maps);
	/* The one with header and control blocks first. */
	for (size_t at = 0; at < count; at++)
		if (*(const uint64_t *)(const void *)spans[at].at == KYMO_MEM_MAGIC) {
			struct span first = spans[at];

			spans[at] = spans[0];
			spans[0] = first;
			return count;
		}
	return 0;
}

int main(int argc, char **argv)
{
	struct span spans[64];
	uint64_t rounds, written = 0;
	uint32_t numbers[4] = { 1, 2, 3, 4 };
	size_t count;

	live_shortly();
	if (argc != 4)
		die("usage");
	state = strtoull(argv[2], NULL, 10);
	rounds = strtoull(argv[3], NULL, 10);
	for (uint64_t n = 0; n < 100; n++)
		kymo_trace(hostile, rec, n, "before", numbers, 4);
	count = find(spans, 64);
	for (uint64_t round = 0; count && round < rounds; round++) {
		const struct span *span = &spans[next() % count];
		size_t first = 0, last = span->bytes;

		if (strchr(argv[1], 'h') && next() % 2) {
			span = &spans[0];
			last = 72;
		} else if (strchr(argv[1], 'c')) {
			span = &spans[0];
			first = 4096;
			last = 4096 + 128 * 4;
		} else if (!strchr(argv[1], 'd')) {
			continue;
		}
		if (last > span->bytes)
			last = span->bytes;
		for (int i = 0; i < 4 && last >= first + 8; i++) {
			uint64_t value = strchr(argv[1], 'z') ? 0 : next() >> next() % 64;

			memcpy(span->at + first + next() % (last - first - 7) / 8 * 8, &value, 8);
			written++;
		}
		kymo_trace(hostile, rec, round, "among", numbers, 4);
		if (round % 64 == 63)
			nap_us(300);
	}
	printf("written=%" PRIu64 "\n", written);
	fflush(stdout);
	return 0;
}
