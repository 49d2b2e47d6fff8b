/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * plugin.c: a library with an event of its own; built several times with another TAG, always with the same
 * event.
 */
#include "common.h"

KYMO_EVENT(plug, rec, (u32, tag), (u64, n))

static uint64_t next;

void plug_run(uint64_t count);
void plug_run(uint64_t count)
{
	for (uint64_t end = next + count; next < end; next++)
		kymo_trace(plug, rec, TAG, next);
}
