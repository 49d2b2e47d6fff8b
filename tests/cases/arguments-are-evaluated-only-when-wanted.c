/* read: --fields event,n */
/* record: -u lazy:wanted */
#include "common.h"

KYMO_EVENT(lazy, wanted, (u32, n))
KYMO_EVENT(lazy, unwanted, (u32, n))

static uint32_t calls;

static uint32_t call(void)
{
	return ++calls;
}

int main(void)
{
	kymo_trace(lazy, wanted, call());
	kymo_trace(lazy, unwanted, call());
	kymo_trace(lazy, wanted, call());
	if (kymo_trace_enabled(lazy, unwanted))
		return 1;
	return kymo_trace_enabled(lazy, wanted) ? 0 : 2;
}
