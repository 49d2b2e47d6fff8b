#include <kymo/tracepoint.h>

KYMO_EVENT(motor, step, (array(str, 4), notes))
