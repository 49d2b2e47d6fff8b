/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * evict.c: see evict.h.
 */
#include "evict.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 64
#define CODE_BYTES (256 * 1024)

static volatile uint64_t *data;
static size_t data_bytes;
static void (*code)(void);

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_NOHUGEPAGE); /* small pages, so that the walk also empties the TLB */
	return at;
}

int evict_init(size_t bytes)
{
	uint8_t *jumps = map(CODE_BYTES);

	data = map(bytes);
	data_bytes = bytes;
	if (!data || !jumps)
		return -1;
	memset((void *)data, 1, bytes);
	/* In each line: jmp to the next line (e9, 32-bit displacement). In the last: ret. */
	for (size_t at = 0; at < CODE_BYTES; at += LINE) {
		const int32_t displacement = LINE - 5;

		jumps[at] = 0xe9;
		memcpy(jumps + at + 1, &displacement, sizeof(displacement));
	}
	jumps[CODE_BYTES - LINE] = 0xc3;
	if (mprotect(jumps, CODE_BYTES, PROT_READ | PROT_EXEC) != 0)
		return -1;
	code = (void (*)(void))(uintptr_t)jumps;
	return 0;
}

void evict(void)
{
	for (size_t i = 0; i < data_bytes / sizeof(*data); i += LINE / sizeof(*data))
		data[i] += 1; /* a store: a line that is only read may be kept beside others */
	code();
}
