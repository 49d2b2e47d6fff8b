#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u32, axis))
KYMO_EVENT(motor, step, (u32, axis))
