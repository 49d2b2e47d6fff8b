/* read: --fields event */
#include "common.h"

KYMO_EVENT(tick, tock)

int main(void)
{
	kymo_trace(tick, tock);
	kymo_trace(tick, tock);
	return 0;
}
