#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u32, axis))

struct axis {
	int number;
};

void f(struct axis axis);
void f(struct axis axis)
{
	kymo_trace(motor, step, axis);
}
