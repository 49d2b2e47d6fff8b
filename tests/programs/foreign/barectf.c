/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* barectf.c RECORDS FILE: writes that many records with barectf's generated functions, in packets of 256 bytes. */
#include "barectf.h"

#include <stdio.h>
#include <stdlib.h>

#define PACKET_BYTES 256

static struct barectf_default_ctx context;
static uint8_t packet[PACKET_BYTES];
static FILE *out;
static uint64_t now;

/* Steps that make the 27 bits of a time stamp wrap now and then. */
static uint64_t clock_value(void *data)
{
	(void)data;
	return now += 7000001;
}

static int is_full(void *data)
{
	(void)data;
	return 0;
}

static void open_packet(void *data)
{
	(void)data;
	barectf_default_open_packet(&context, 3);
}

static void close_packet(void *data)
{
	(void)data;
	barectf_default_close_packet(&context);
	if (fwrite(packet, 1, sizeof(packet), out) != sizeof(packet))
		abort();
}

int main(int argc, char **argv)
{
	const struct barectf_platform_callbacks callbacks = {
		.default_clock_get_value = clock_value,
		.is_backend_full = is_full,
		.open_packet = open_packet,
		.close_packet = close_packet,
	};
	const char *texts[] = { "a", "bc", "def" };
	uint16_t three[] = { 1, 1023, 512 };

	if (argc != 3 || !(out = fopen(argv[2], "wb")))
		return 2;
	barectf_init(&context, packet, sizeof(packet), callbacks, NULL);
	open_packet(NULL);
	for (long n = 0; n < atol(argv[1]); n++) {
		uint8_t state = n % 4 == 3 ? 100 : (uint8_t)(n % 4);

		three[0] = (uint16_t)(n % 1024);
		if (n % 2)
			barectf_default_trace_texts(&context, "name", three, (uint32_t)(n % 3), texts);
		else
			barectf_default_trace_numbers(&context, n % 8, (int16_t)(n % 8000 - 4000), (uint64_t)n << 40 | 5,
						      (double)n / 3.0, (float)n / 7.0f, state);
	}
	if (barectf_packet_is_open(&context) && !barectf_packet_is_empty(&context))
		close_packet(NULL);
	return fclose(out) ? 1 : 0;
}
