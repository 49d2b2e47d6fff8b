/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fields.c: KYMO_EVENT with each kind of field that there is.
 *
 *	cc fields.c -lkymo -o fields
 *	kymo record -o trace -- ./fields && kymo read trace
 */
#include <kymo/tracepoint.h>

KYMO_EVENT(fields, integers, (u8, a), (i16, b), (u32, c), (i64, d), (x32, flags))
KYMO_EVENT(fields, others, (f32, ratio), (f64, position), (bool, ready), (str, name))
/*
 * A bytes field takes a pointer and a size; a seq takes a pointer and a count; an array takes a
 * pointer to N elements.
 */
KYMO_EVENT(fields, many, (bytes, packet), (seq(u16), samples), (array(f32, 3), xyz))

int main(void)
{
	const uint8_t packet[] = { 0xde, 0xad, 0xbe, 0xef };
	const uint16_t samples[] = { 100, 200, 300 };
	const float xyz[3] = { 0.5f, -1.0f, 2.0f };

	kymo_trace(fields, integers, 1, -2, 3, -4, 0xff00u);
	kymo_trace(fields, others, 0.25f, 1.5, true, "left arm");
	kymo_trace(fields, many, packet, sizeof(packet), samples, 3, xyz);
	return 0;
}
