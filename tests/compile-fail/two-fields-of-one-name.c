#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u32, axis), (u64, axis))
