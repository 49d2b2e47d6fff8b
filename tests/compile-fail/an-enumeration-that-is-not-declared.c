#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (enum(motor, state), state))
