#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (str, note))

void f(int number);
void f(int number)
{
	kymo_trace(motor, step, number);
}
