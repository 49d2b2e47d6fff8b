/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * evict.h: makes the next instructions run cold: data out of L1 and L2, address translations out of the TLB,
 * code out of L1i. It cannot empty a shared L3 of hundreds of megabytes, so "cold" means "from L3 or farther".
 */
#ifndef BENCH_EVICT_H
#define BENCH_EVICT_H

#include <stddef.h>

/* Sets up a buffer of bytes of data (several times L2) in 4 KiB pages, and 256 KiB of jumps. Returns 0 or -1. */
int evict_init(size_t bytes);
void evict(void);

#endif
