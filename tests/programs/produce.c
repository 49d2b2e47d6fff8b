/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * produce.c THREADS RECORDS [BYTES] [PACE_US]: each thread writes RECORDS numbered records with BYTES
 * bytes of filler, and naps PACE_US after each hundred. Prints how many records it made. Nothing waits
 * for a session.
 */
#include "common.h"

KYMO_EVENT(produce, rec, (u32, writer), (u64, n), (bytes, filler), (u64, check))

static uint64_t records, bytes;
static long pace_us;
static uint8_t filler[1 << 16];

static void *writer(void *argument)
{
	uint32_t self = (uint32_t)(uintptr_t)argument;

	for (uint64_t n = 0; n < records; n++) {
		kymo_trace(produce, rec, self, n, filler, bytes, check_of(n, self));
		if (pace_us && n % 100 == 99)
			nap_us(pace_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
	pthread_t *thread = calloc(threads, sizeof(*thread));

	live_shortly();
	records = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
	bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	pace_us = argc > 4 ? atol(argv[4]) : 0;
	for (size_t at = 0; at < sizeof(filler); at++)
		filler[at] = (uint8_t)(at * 31);
	for (uint32_t at = 0; at < threads; at++)
		if (pthread_create(&thread[at], NULL, writer, (void *)(uintptr_t)at))
			die("pthread_create");
	for (uint32_t at = 0; at < threads; at++)
		pthread_join(thread[at], NULL);
	free(thread);
	printf("produced=%" PRIu64 "\n", threads * records);
	return 0;
}
