#include <kymo/tracepoint.h>

KYMO_ENUM(motor, state, f32, (idle, 0))
KYMO_EVENT(motor, step, (enum(motor, state), state))
