/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* shared_2.c: the other one. */
#include "shared_events.h"

void second_part(void);
void second_part(void)
{
	for (uint64_t n = 0; n < 100; n++)
		kymo_trace(shared, work, 2, n);
	kymo_trace(shared, note, "second");
}
