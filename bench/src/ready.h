/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ready.h: before anything is timed, makes sure that the sessions really want the kinds that write records and
 * do not want those that must be off. A tracepoint that is off by accident would look very fast.
 */
#ifndef BENCH_READY_H
#define BENCH_READY_H

#include <time.h>

#include "kinds.h"

/* Waits 5 s at most. Returns 0, or -1 after a message that names the kind. */
static inline int ready_wait(const struct kind *kind)
{
	const struct timespec pause = {0, 1000000};

	if (!kind->enabled)
		return 0;
	if (!kind->records) {
		if (kind->enabled())
			fprintf(stderr, "bench: %s is enabled and must not be\n", kind->name);
		return kind->enabled() ? -1 : 0;
	}
	for (int i = 0; i < 5000; i++) {
		if (kind->enabled())
			return 0;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "bench: no session enabled %s within 5 s\n", kind->name);
	return -1;
}

#endif
