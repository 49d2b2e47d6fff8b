/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lttng.c RECORDS: writes that many records with LTTng-UST, of several kinds and sizes. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long records = argc > 1 ? atol(argv[1]) : 100;
	static const char texts[2][16] = { "even", "odd, \"quoted\"" };
	uint16_t row[8] = { 1, 2, 3, 65535, 0, 7, 8, 9 };

	for (long n = 0; n < records; n++) {
		row[0] = (uint16_t)n;
		if (n % 3 == 0)
			lttng_ust_tracepoint(foreign, numbers, n * 1000003 - 77, (double)n / 7.0);
		else if (n % 3 == 1)
			lttng_ust_tracepoint(foreign, texts, texts[n % 2], row, (unsigned)(1 + n % 8));
		else
			lttng_ust_tracepoint(foreign, nothing, 0);
	}
	printf("records=%ld\n", records);
	return 0;
}
