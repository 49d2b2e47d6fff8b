/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * count.c: counts the records of a kymo trace by its own reading of spec/trace.md, so that "no loss" rests on the
 * bytes in the files and not on what the tracer says of itself. For traces of one event of one u64 field, written by
 * one pinned thread with values 0, 1, 2, ...
 *
 *	count DIR
 *
 * Prints: records N gaps G disorder D discarded E bytes B        gaps: values that are missing between two records
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKET_MAGIC 0xC1FC1FC1u
#define PACKET_HEAD 108
#define AT_CONTENT_BITS 48
#define AT_PACKET_BITS 56
#define AT_DISCARDED 72
#define RECORD_BYTES 20
#define AT_VALUE 12
#define PROBE UINT64_MAX /* kinds.h BENCH_PROBE */

static uint64_t records, gaps, disorder, discarded, bytes;

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int packet(const uint8_t *at, uint64_t *expected)
{
	uint64_t payload = u64_at(at + AT_CONTENT_BITS) / 8 - PACKET_HEAD;

	if (payload % RECORD_BYTES != 0)
		return -1;
	for (uint64_t i = 0; i < payload; i += RECORD_BYTES) {
		uint64_t value = u64_at(at + PACKET_HEAD + i + AT_VALUE);

		if (value == PROBE)
			continue;
		if (value < *expected)
			disorder++;
		else
			gaps += value - *expected;
		*expected = value + 1;
		records++;
	}
	return 0;
}

static int stream(const uint8_t *at, uint64_t size, const char *name)
{
	uint64_t expected = 0, left = size, last_discarded = 0;

	while (left >= PACKET_HEAD) {
		uint64_t packet_bytes = u64_at(at + AT_PACKET_BITS) / 8;
		uint32_t magic;

		memcpy(&magic, at, sizeof(magic));
		if (magic != PACKET_MAGIC || packet_bytes < PACKET_HEAD || packet_bytes > left)
			break;
		if (packet(at, &expected) != 0)
			break;
		last_discarded = u64_at(at + AT_DISCARDED);
		at += packet_bytes;
		left -= packet_bytes;
	}
	discarded += last_discarded;
	bytes += size;
	if (left)
		fprintf(stderr, "count: %s: %llu bytes at the end do not make a packet of %d-byte records\n", name,
			(unsigned long long)left, RECORD_BYTES);
	return left ? -1 : 0;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	int bad = 0;

	if (!dir || chdir(argv[1]) != 0) {
		fprintf(stderr, "usage: count DIR\n");
		return 2;
	}
	while ((entry = readdir(dir))) {
		struct stat st;
		int fd;

		if (entry->d_name[0] == '.' || strcmp(entry->d_name, "metadata") == 0)
			continue;
		fd = open(entry->d_name, O_RDONLY);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
			void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);

			if (at == MAP_FAILED || stream(at, (uint64_t)st.st_size, entry->d_name) != 0)
				bad = 1;
			if (at != MAP_FAILED)
				munmap(at, (size_t)st.st_size);
		}
		if (fd >= 0)
			close(fd);
	}
	printf("records %llu gaps %llu disorder %llu discarded %llu bytes %llu\n", (unsigned long long)records,
	       (unsigned long long)gaps, (unsigned long long)disorder, (unsigned long long)discarded,
	       (unsigned long long)bytes);
	return bad ? 1 : 0;
}
