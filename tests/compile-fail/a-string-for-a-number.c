#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u32, axis))

void f(void);
void f(void)
{
	kymo_trace(motor, step, "one");
}
