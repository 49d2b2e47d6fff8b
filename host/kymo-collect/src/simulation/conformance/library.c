/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* library.c: a library with one event, whose name is EVENT. */
#include <kymo/tracepoint.h>

#define DECLARE(name) KYMO_EVENT(sim, name, (u64, n))
#define TRACE(name, n) kymo_trace(sim, name, n)

#line 1 "sim.c"
DECLARE(EVENT)

void record(unsigned long long n);
void record(unsigned long long n)
{
	TRACE(EVENT, n);
}
