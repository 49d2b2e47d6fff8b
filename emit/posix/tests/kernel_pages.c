/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kernel_pages.c: pages of the kernel's rings [kernel.md 4] that are made here, whole and damaged. */
#define _GNU_SOURCE
#include "kernel.h"

#include "../../platform/linux/tracefs.h"

#if WITH_KERNEL && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

static const struct kymop_page_layout layout = { .commit = { 8, 8 }, .data = { 16, 1 } };

/* A page under way. */
struct page {
	uint8_t bytes[512];
	uint32_t used;
};

static void add_word(struct page *page, uint32_t word)
{
	memcpy(page->bytes + 16 + page->used, &word, 4);
	page->used += 4;
}

static void add_head(struct page *page, uint32_t type_len, uint32_t delta)
{
	add_word(page, type_len | delta << 5);
}

static void finish(struct page *page, uint64_t time, uint64_t flags)
{
	uint64_t commit = page->used | flags;

	memcpy(page->bytes, &time, 8);
	memcpy(page->bytes + 8, &commit, 8);
}

/* Every kind of entry: an event, a long one, a discarded one, more time, a time, and the end. */
static void fill(struct page *page, uint64_t flags)
{
	memset(page, 0, sizeof(*page));
	add_head(page, 1, 10);
	add_word(page, 1);
	add_head(page, 0, 5);
	add_word(page, 4 + 120);
	for (int i = 0; i < 30; i++)
		add_word(page, 2);
	add_head(page, 29, 3);
	add_word(page, 4 + 4);
	add_word(page, 99);
	add_head(page, 30, 7);
	add_word(page, 2);
	add_head(page, 2, 1);
	add_word(page, 3);
	add_word(page, 3);
	add_head(page, 31, 6);
	add_word(page, 1000);
	add_head(page, 1, 4);
	add_word(page, 4);
	add_head(page, 29, 0);
	add_head(page, 1, 1);
	add_word(page, 5);
	finish(page, (1ull << 60) + 100, flags);
}

static void expect(struct kymop_pages *pages, uint64_t time, uint32_t bytes, uint32_t word)
{
	uint32_t got;

	EXPECT(kymop_page_next(pages));
	EXPECT(pages->time == time);
	EQUAL(pages->bytes, bytes);
	memcpy(&got, pages->data, 4);
	EQUAL(got, word);
}

TEST("kernel events (extension)", kernel_pages,
	"a page of the kernel's ring: events of each length, discarded ones, times, missed events, the end")
{
	const uint64_t begin = (1ull << 60) + 100, more = begin + 10 + 5 + 3 + 7 + (2ull << 27);
	struct kymop_pages pages;
	struct page page;
	bool has_missed;

	for (int is_missed = 0; is_missed < 2; is_missed++) {
		fill(&page, is_missed ? 3ull << 30 : 0);
		kymop_page_begin(&pages, &layout, page.bytes, sizeof(page.bytes), &has_missed);
		EQUAL(has_missed, is_missed);
		expect(&pages, begin + 10, 4, 1);
		expect(&pages, begin + 15, 120, 2);
		expect(&pages, more + 1, 8, 3);
		/* The upper five bits of an absolute time are those of the time before. */
		expect(&pages, (1ull << 60) + 6 + (1000ull << 27) + 4, 4, 4);
		EXPECT(!kymop_page_next(&pages));
		EXPECT(!kymop_page_next(&pages));
	}
}

TEST("kernel events (extension)", kernel_pages_damaged,
	"a page that is cut anywhere, or has anything in it, gives no event that is not within it")
{
	struct kymop_pages pages;
	struct page page;
	bool has_missed;
	uint32_t seed = 1;

	for (uint32_t round = 0; round < 200000; round++) {
		size_t bytes = round % (sizeof(page.bytes) + 1);
		uint8_t *copy;

		fill(&page, 0);
		for (int i = 0; round > sizeof(page.bytes) && i < 4; i++) {
			seed = seed * 1664525 + 1013904223;
			page.bytes[(seed >> 8) % sizeof(page.bytes)] = (uint8_t)(seed >> 24);
		}
		copy = malloc(bytes + 1);
		EXPECT(copy);
		memcpy(copy, page.bytes, bytes);
		kymop_page_begin(&pages, &layout, copy, bytes, &has_missed);
		while (kymop_page_next(&pages))
			EXPECT(pages.data >= copy + 16 && pages.data + pages.bytes <= copy + bytes);
		free(copy);
	}
}

TEST("kernel events (extension)", kernel_fields,
	"where fields are, by the kernel's text; a name within another name is not meant")
{
	static const char text[] = "name: x\nID: 12\nformat:\n"
				   "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
				   "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
				   "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n"
				   "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
				   "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n";
	static const struct {
		const char *name;
		int offset, bytes;
	} cases[] = { { "common_type", 0, 2 }, { "pid", 24, 4 }, { "next_pid", 56, 4 },
		      { "lock_addr", 8, 8 }, { "args", 16, 48 }, { "arg", 0, 0 }, { "id", 0, 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kymop_field field = kymop_field_of(text, cases[i].name);

		EQUAL(field.offset, cases[i].offset);
		EQUAL(field.bytes, cases[i].bytes);
	}
}
#endif
