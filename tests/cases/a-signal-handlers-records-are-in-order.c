/* read: --fields event,n */
#include "common.h"

KYMO_EVENT(handler, main, (u32, n))
KYMO_EVENT(handler, signal, (u32, n))

static void handle(int number)
{
	kymo_trace(handler, signal, (uint32_t)number);
}

int main(void)
{
	signal(SIGUSR1, handle);
	kymo_trace(handler, main, 1);
	raise(SIGUSR1);
	kymo_trace(handler, main, 2);
	return 0;
}
