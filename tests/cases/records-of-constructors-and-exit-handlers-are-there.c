/* read: --fields event,at */
#include "common.h"

KYMO_EVENT(life, at, (str, at))

static void __attribute__((constructor)) begin(void)
{
	kymo_trace(life, at, "constructor");
}

static void __attribute__((destructor)) end(void)
{
	kymo_trace(life, at, "destructor");
}

static void leave(void)
{
	kymo_trace(life, at, "atexit");
}

int main(void)
{
	atexit(leave);
	kymo_trace(life, at, "main");
	return 0;
}
