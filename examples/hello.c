/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hello.c: KYMO_EVENT and kymo_trace, the two calls that most programs need.
 *
 *	cc hello.c -lkymo -o hello
 *	kymo record -o trace -- ./hello && kymo read trace
 */
#include <kymo/tracepoint.h>
#include <stdio.h>

/* Once, at file scope: provider, name, then (type, field) pairs. */
KYMO_EVENT(hello, greeting, (u32, number), (f64, temperature), (str, whom))

int main(void)
{
	for (uint32_t i = 0; i < 10; i++)
		kymo_trace(hello, greeting, i, 20.0 + i / 10.0, i % 2 ? "Ada" : "Grace");
	puts("Traced ten greetings, if somebody listened.");
	return 0;
}
