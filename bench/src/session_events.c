/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_events: a program with 500 events (-DWITH_EVENTS), or the same without libkymo. Writes the time at which main begins to
 * descriptor 3; with an argument it then sleeps until a signal ends it.
 */
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_EVENTS
#include <kymo/tracepoint.h>
#define ONE(n) KYMO_EVENT(events, e##n, (u64, value), (u32, axis), (str, text))
#define TRACE(n) kymo_trace(events, e##n, 1, 2, "three");
#else
#define ONE(n)
#define TRACE(n)
#endif
#define TEN(of, n) of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7) of(n##8) of(n##9)
#define HUNDRED(of, n) \
	TEN(of, n##0) TEN(of, n##1) TEN(of, n##2) TEN(of, n##3) TEN(of, n##4) \
	TEN(of, n##5) TEN(of, n##6) TEN(of, n##7) TEN(of, n##8) TEN(of, n##9)
#define ALL(of) HUNDRED(of, 1) HUNDRED(of, 2) HUNDRED(of, 3) HUNDRED(of, 4) HUNDRED(of, 5)

ALL(ONE)

int main(int argc, char **argv)
{
	struct timespec time;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &time);
	now = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	if (argc > 2) {
		ALL(TRACE)
	}
	if (write(3, &now, sizeof(now)) != sizeof(now))
		return 1;
	while (argc > 1)
		pause();
	(void)argv;
	return 0;
}
