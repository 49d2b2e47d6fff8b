#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u128, axis))
