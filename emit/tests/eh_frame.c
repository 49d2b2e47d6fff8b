/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * eh_frame.c: the reader of .eh_frame [context.md 4] against bytes that are wrong. The tables of the files of
 * this process are copied, a few bytes are changed, and rows are made of them: in bounded time, from nothing but
 * the copy, into nothing but the rows, which are in order. The reader is compiled into this program, with
 * checks of addresses where the compiler has them. KYMO_STRESS=1: a hundred times as many.
 */
#define _GNU_SOURCE
#include "../src/eh_frame.c"

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond);                 \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define IMAGES_MAX 8
#define ROUNDS 4000
/* Functions of one round: a file has thousands, all of which read alike. */
#define ENTRIES 300u
#define ROWS_FIRST 64u

/* A copy of the segment that a file's tables are in. */
struct image {
	uintptr_t at, begin, end, search_table;
	size_t bytes, search_table_bytes;
	uint8_t *copy;
};

static struct image images[IMAGES_MAX];
static uint32_t image_count;
static uint64_t random_state = 88172645463325252ull;
static uint64_t rows_made, reads;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static bool read_image(void *of, uintptr_t at, void *to, size_t bytes)
{
	const struct image *image = of;

	reads++;
	if (at < image->at || at - image->at > image->bytes || bytes > image->bytes - (at - image->at))
		return false;
	memcpy(to, image->copy + (at - image->at), bytes);
	return true;
}

static int take_image(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	struct image image = { .begin = UINTPTR_MAX };

	(void)bytes, (void)unused;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			image.begin = at < image.begin ? at : image.begin;
			image.end = at + part->p_memsz > image.end ? at + part->p_memsz : image.end;
		} else if (part->p_type == PT_GNU_EH_FRAME) {
			image.search_table = at;
			image.search_table_bytes = part->p_memsz;
		}
	}
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || image.search_table < at || image.search_table - at >= part->p_memsz)
			continue;
		image.at = image.search_table;
		image.bytes = part->p_memsz - (image.search_table - at);
	}
	if (!image.bytes || image_count == IMAGES_MAX)
		return 0;
	image.copy = malloc(image.bytes);
	memcpy(image.copy, (const void *)image.at, image.bytes);
	images[image_count++] = image;
	return 0;
}

/* Rows of so many functions, as unwind.c makes them. Returns how many. */
static uint32_t make(const struct image *image, uint32_t first, uint32_t entries, struct kymo_unwind_row **rows)
{
	static struct kymo_eh eh;
	enum kymo_eh_progress progress = KYMO_EH_DONE;

	eh.read = read_image;
	eh.of = (void *)(uintptr_t)image;
	eh.begin = image->begin;
	eh.end = image->end;
	eh.search_table = image->search_table;
	eh.capacity = ROWS_FIRST;
	eh.rows = *rows = malloc(eh.capacity * sizeof(**rows));
	if (!kymo_eh_begin(&eh, image->search_table_bytes))
		return 0;
	eh.entry = first < eh.entry_count ? first : 0;
	while (entries) {
		uint32_t before = eh.entry;

		progress = kymo_eh_continue(&eh, entries < 50 ? entries : 50);
		CHECK(eh.entry >= before && eh.count <= eh.capacity, "rows have room");
		if (progress == KYMO_EH_DONE)
			break;
		entries -= eh.entry - before;
		if (progress != KYMO_EH_FULL)
			continue;
		eh.capacity *= 2;
		eh.rows = *rows = realloc(*rows, eh.capacity * sizeof(**rows));
	}
	for (uint32_t i = 0; i < eh.count; i++) {
		CHECK(!i || eh.rows[i].at > eh.rows[i - 1].at, "row %u is behind the one before", i);
		CHECK(eh.rows[i].at < eh.end - eh.begin, "row %u is in the code", i);
		CHECK(KYMO_RULE_KIND(eh.rows[i].rule) <= KYMO_RULE_SIGNAL, "row %u has a rule", i);
	}
	rows_made += eh.count;
	return eh.count;
}

/* As they are: most of it can be said. */
static void make_all(void)
{
	for (uint32_t i = 0; i < image_count; i++) {
		struct kymo_unwind_row *rows;
		uint32_t count = make(&images[i], 0, UINT32_MAX, &rows), stops = 0;

		for (uint32_t row = 0; row < count; row++)
			stops += KYMO_RULE_KIND(rows[row].rule) == KYMO_RULE_STOP;
		CHECK(count > 4 && stops <= count / 20 + 4, "file %u: %u of %u rows stop", i, stops, count);
		printf("file %u: %u rows, of which %u stop\n", i, count, stops);
		free(rows);
	}
}

/* Bytes that lead far. */
static uint8_t odd_byte(void)
{
	static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, 0x0f, 0x10, 0x16, 0x0a, 0x0b, 0x40, 0xc6 };

	return next_random() % 2 ? odd[next_random() % sizeof(odd)] : (uint8_t)next_random();
}

/* Where a change matters: in the search table's head, a pair of it, or the entry that a pair leads to. */
static size_t odd_place(const struct image *image, uint32_t first)
{
	size_t pair = SEARCH_HEAD_BYTES + (size_t)(first + next_random() % ENTRIES) * SEARCH_PAIR_BYTES;
	int32_t entry;

	switch (next_random() % 8) {
	case 0:
		return next_random() % SEARCH_HEAD_BYTES;
	case 1:
		return next_random() % image->bytes;
	case 2:
		return pair + next_random() % SEARCH_PAIR_BYTES;
	default:
		if (pair + SEARCH_PAIR_BYTES > image->bytes)
			return 0;
		memcpy(&entry, image->copy + pair + 4, sizeof(entry));
		return (size_t)entry + next_random() % 40;
	}
}

static void make_wrong(const struct image *image)
{
	uint32_t count, first, changes = 1 + (uint32_t)next_random() % 30;
	struct { size_t at; uint8_t was; } changed[30];
	struct kymo_unwind_row *rows;

	memcpy(&count, image->copy + 8, sizeof(count));
	first = count > ENTRIES ? (uint32_t)next_random() % (count - ENTRIES) : 0;
	for (uint32_t i = 0; i < changes; i++) {
		size_t at = odd_place(image, first);

		at = at < image->bytes ? at : 0;
		changed[i].at = at;
		changed[i].was = image->copy[at];
		image->copy[at] = odd_byte();
	}
	make(image, first, ENTRIES, &rows);
	free(rows);
	while (changes--)
		image->copy[changed[changes].at] = changed[changes].was;
}

/* Nothing but noise, behind a head that is believed. */
static void make_noise(void)
{
	uint8_t bytes[4096] = { 1, 0x1b, 0x03, 0x3b };
	struct image image = { .at = 0x10000, .begin = 0x20000, .end = 0x30000, .search_table = 0x10000,
			       .bytes = sizeof(bytes), .search_table_bytes = 2048, .copy = bytes };
	struct kymo_unwind_row *rows;
	uint32_t count = 200;

	for (size_t i = SEARCH_HEAD_BYTES; i < sizeof(bytes); i++)
		bytes[i] = odd_byte();
	memcpy(bytes + 8, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++) {
		int32_t pair[2] = { (int32_t)(0x10000 + i * 64), (int32_t)(2048 + next_random() % 2000) };

		memcpy(bytes + SEARCH_HEAD_BYTES + i * sizeof(pair), pair, sizeof(pair));
	}
	make(&image, 0, UINT32_MAX, &rows);
	free(rows);
}

int main(void)
{
	uint32_t rounds = ROUNDS * (getenv("KYMO_STRESS") ? 100 : 1);

	dl_iterate_phdr(take_image, NULL);
	CHECK(image_count >= 2, "%u files have tables", image_count);
	make_all();
	for (uint32_t round = 0; round < rounds; round++) {
		make_wrong(&images[round % image_count]);
		make_noise();
	}
	printf("%u wrong tables, %" PRIu64 " rows, %" PRIu64 " reads: no harm\n", 2 * rounds, rows_made, reads);
	return 0;
}
