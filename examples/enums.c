/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * enums.c: KYMO_ENUM gives names to the values of an integer field; the trace shows state =
 * moving(1).
 *
 *	cc enums.c -lkymo -o enums
 *	kymo record -o trace -- ./enums && kymo read trace
 */
#include <kymo/tracepoint.h>

enum motor_state { IDLE, MOVING, FAULT = 9 };

KYMO_ENUM(motor, state, u8, (idle, IDLE), (moving, MOVING), (fault, FAULT))
KYMO_EVENT(motor, step, (u32, axis), (enum(motor, state), state))

int main(void)
{
	kymo_trace(motor, step, 2, IDLE);
	kymo_trace(motor, step, 2, MOVING);
	kymo_trace(motor, step, 2, FAULT);
	kymo_trace(motor, step, 2, 77); /* no label: shown as the number */
	return 0;
}
