/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* shared_1.c: one of two files with the events of shared_events.h. */
#include "shared_events.h"

void second_part(void);

int main(void)
{
	live_shortly();
	for (uint64_t n = 0; n < 100; n++)
		kymo_trace(shared, work, 1, n);
	kymo_trace(shared, note, "first");
	second_part();
	return 0;
}
