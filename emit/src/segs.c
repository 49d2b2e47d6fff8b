/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * segs.c: the pieces of a payload, one behind the other, into a ring. Out of line: who writes a payload of
 * one session by a sequence, or in one attempt on the portable ring, does not come here.
 */
#include <string.h>

#include "internal.h"

void kymo_copy_segs(uint8_t *to, const struct kymo_seg *segs, const struct kymo_seg *segs_end)
{
	for (; segs < segs_end; segs++) {
		size_t bytes = (size_t)(segs->bytes & ~KYMO_SEG_STAGED);

		memcpy(to, segs->at, bytes);
		to += bytes;
	}
}
