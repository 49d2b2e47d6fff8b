#include <kymo/tracepoint.h>

int number(void);
KYMO_ENUM(motor, state, u8, (idle, number()))
