/* read: --fields event */
/* record: -u motor -x motor:tick */
#include "common.h"

KYMO_EVENT(motor, step)
KYMO_EVENT(motor, tick)
KYMO_EVENT(pump, step)

int main(void)
{
	kymo_trace(motor, step);
	kymo_trace(motor, tick);
	kymo_trace(pump, step);
	kymo_trace(motor, step);
	return 0;
}
