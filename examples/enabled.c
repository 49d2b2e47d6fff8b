/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * enabled.c: kymo_trace_enabled, for arguments that are dear to prepare. (Plain arguments need no
 * such guard: kymo_trace evaluates them only when somebody listens.)
 *
 *	cc enabled.c -lkymo -o enabled
 *	kymo record -o trace -- ./enabled && kymo read trace
 */
#include <kymo/tracepoint.h>
#include <stdio.h>

KYMO_EVENT(enabled, table, (u32, rows), (str, text))

static void describe(char *to, size_t bytes)
{
	size_t used = 0;

	for (int i = 0; i < 5 && used < bytes; i++)
		used += (size_t)snprintf(to + used, bytes - used, "%srow %d", i ? ", " : "", i);
}

int main(void)
{
	if (kymo_trace_enabled(enabled, table)) {
		char text[200];

		describe(text, sizeof(text));
		kymo_trace(enabled, table, 5, text);
	}
	return 0;
}
