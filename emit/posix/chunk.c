/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* chunk.c: the checksum of a log's chunks. Unit: trace to log, and log retrieval. */
#define _GNU_SOURCE
#include "chunk.h"

#if KYMOP_WITH_LOG

/*
 * CRC-32 as of IEEE 802.3. For logs four bits at a time, by a table of 64 bytes; where a line is
 * slow and memory small, bit by bit.
 */
uint32_t kymop_crc(uint32_t crc, const void *bytes, size_t count)
{
#if KYMO_POSIX_HOSTED
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
#endif
	const uint8_t *at = bytes;

	crc = ~crc;
	for (size_t i = 0; i < count; i++) {
		crc ^= at[i];
#if KYMO_POSIX_HOSTED
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
#else
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
#endif
	}
	return ~crc;
}

#if KYMO_POSIX_HOSTED
static uint32_t crc_of(const struct kymop_chunk *chunk)
{
	struct kymop_chunk head = *chunk;

	head.crc = 0;
	return kymop_crc(kymop_crc(0, &head, sizeof(head)), chunk + 1, chunk->used);
}

void kymop_chunk_seal(struct kymop_chunk *chunk)
{
	chunk->crc = crc_of(chunk);
}

/* Whether a whole chunk begins here. */
bool kymop_chunk_is_good(const struct kymop_chunk *chunk, size_t bytes_left)
{
	return bytes_left >= sizeof(*chunk) && chunk->magic == KYMOP_CHUNK_MAGIC &&
	       chunk->bytes >= sizeof(*chunk) && chunk->bytes <= KYMOP_CHUNK_BYTES_MAX &&
	       chunk->bytes <= bytes_left && !(chunk->bytes % 8) &&
	       chunk->used <= chunk->bytes - sizeof(*chunk) && chunk->crc == crc_of(chunk);
}
#endif
#else
typedef int kymop_no_chunks; /* a file must not be empty */
#endif
