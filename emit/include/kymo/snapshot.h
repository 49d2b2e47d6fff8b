/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * snapshot.h: a program asks the flight recorders that watch it for a snapshot [spec/flight.md 3].
 */
#ifndef KYMO_SNAPSHOT_H
#define KYMO_SNAPSHOT_H

#include "tracepoint.h"

KYMO_EVENT(kymo, snapshot, (str, why))

/*
 * kymo_snapshot: asks for a snapshot, with the reason why (a string). It is a record like any other, so
 * it stands in the trace at its own place.
 * Context: any, signal handlers included: no system call, no lock. The collector sees it when it polls
 * next (1 ms), so the moment itself is still in the rings.
 */
#define kymo_snapshot(why) kymo_trace(kymo, snapshot, why)

/*
 * kymo_snapshot_above: the same where value > bound: a trigger that the program decides itself, with one
 * compare, for what is computed anyway and not worth a record each time. why is evaluated only then.
 */
#define kymo_snapshot_above(value, bound, why)                                                      \
	do {                                                                                       \
		if (KYMO__UNLIKELY((value) > (bound)))                                             \
			kymo_snapshot(why);                                                        \
	} while (0)

#endif
