/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * version.c: kymo_version, of the library that the program runs with.
 *
 *	cc version.c -lkymo -o version && ./version
 */
#include <kymo/tracepoint.h>
#include <stdio.h>

int main(void)
{
	printf("libkymo %s\n", kymo_version());
	return 0;
}
