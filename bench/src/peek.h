/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * peek.h: looks into kymo's shared memory from inside the traced program, to prove block by block that what was
 * timed was written: records published, records lost, bytes that wait for the collector. Reads only. It finds the
 * memory by its magic word in /proc/self/maps and relies on the layout of kymo/abi/ring.h, nothing else.
 */
#ifndef BENCH_PEEK_H
#define BENCH_PEEK_H

#include <stdint.h>

struct peek {
	uint64_t recorded;	/* published so far, all lanes, modulo 2^32 per lane */
	uint64_t lost;		/* counted so far, all causes, all lanes */
	uint64_t waiting_bytes; /* published and not taken yet, of the fullest lane */
	uint64_t ring_bytes;	/* of one lane */
	uint32_t kind;		/* KYMO_KIND_RSEQ or _PORTABLE */
	uint32_t lane_count;
};

/* Returns the number of memories found: 0 when no session is attached. */
int peek_find(void);
/* All zero when nothing was found. Between two calls at most 2^32 - 1 records a lane. */
void peek_read(struct peek *peek);

#endif
