#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (u32), u8, (u8, a, b), (array(u8), c), (enum(motor), d))
