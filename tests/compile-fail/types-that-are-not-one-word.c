#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (unsigned int, axis), (const char *, note), (u8, right), (seq(char), text))

void step(void);
void step(void)
{
	kymo_trace(motor, step, 1, "note", 2, "text", 4);
}
