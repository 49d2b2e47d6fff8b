/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * short.c COUNT [kill]: COUNT numbered records with the process id, and the end; by SIGKILL if it is asked for.
 */
#include "common.h"

KYMO_EVENT(brief, rec, (u32, pid), (u32, n))

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 10;

	live_shortly();
	for (uint32_t n = 0; n < count; n++)
		kymo_trace(brief, rec, (uint32_t)getpid(), n);
	if (argc > 2)
		kill(getpid(), SIGKILL);
	return 0;
}
