/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * motor.c: writes as many records of motor:step as it is told to, with values that the tests know.
 */
#include <kymo/tracepoint.h>
#include <stdlib.h>

KYMO_EVENT(motor, step, (u32, number), (i32, axis), (f64, position), (str, state))

int main(int argc, char **argv)
{
	uint32_t steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10;

	for (uint32_t i = 0; i < steps; i++)
		kymo_trace(motor, step, i, (int32_t)(i % 5) - 2, i / 4.0, i % 3 ? "moves" : "rests");
	return 0;
}
