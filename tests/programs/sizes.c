/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sizes.c: records of all sizes up to what is allowed and beyond, with small ones between them that
 * say whether the rest came through. KYMO_RECORD_MAX bytes hold the header, the thread id, n, the
 * length and 65,518 bytes.
 */
#include "common.h"

KYMO_EVENT(sizes, big, (u32, n), (bytes, data))
KYMO_EVENT(sizes, small, (u32, n))

static uint8_t data[1 << 17];

int main(void)
{
	static const size_t bytes[] = { 0, 1, 3000, 4096, 60000, 65517, 65518, 65519, 65535, 65536, 100000, 70000, 60000, 12 };
	uint32_t produced = 0;

	live_shortly();
	for (size_t at = 0; at < sizeof(data); at++)
		data[at] = (uint8_t)(at * 13);
	for (uint32_t n = 0; n < sizeof(bytes) / sizeof(*bytes); n++) {
		kymo_trace(sizes, big, n, data, bytes[n]);
		kymo_trace(sizes, small, n);
		produced += 2;
	}
	printf("produced=%u\n", produced);
	return 0;
}
