/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * late.c WHEN RECORDS RING_BYTES: starts on CPU 0, hears a line, moves to CPU 1 and writes RECORDS there
 * when the ring of that CPU is ready: WHEN is "before" (it must be so before the first record) or "first"
 * (its first record is what makes it so). Says by how much its counters of page faults moved.
 */
#include "common.h"

#include <sys/resource.h>

KYMO_EVENT(late, rec, (u64, n))

/* Bytes of kymo's memories that are mapped and there. Each ring is mapped twice. */
static uint64_t rings_rss(void)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	uint64_t all = 0, kib;
	bool is_ring = false;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (strchr(line, '-') && strchr(line, ':') && strchr(line, '-') < strchr(line, ':'))
			is_ring = strstr(line, "memfd:kymo") != NULL;
		else if (is_ring && sscanf(line, "Rss: %" SCNu64, &kib) == 1)
			all += kib << 10;
	}
	if (file)
		fclose(file);
	return all;
}

int main(int argc, char **argv)
{
	uint64_t records = strtoull(argv[2], NULL, 10), ring_bytes = strtoull(argv[3], NULL, 10), n = 0;
	struct rusage before, after;
	cpu_set_t second;

	live_shortly();
	until_enabled(late, rec);
	say(argc == 4 ? "ready" : "usage");
	hear();
	CPU_ZERO(&second);
	CPU_SET(1, &second);
	if (!strcmp(argv[1], "first")) {
		if (sched_setaffinity(0, sizeof(second), &second))
			die("CPU 1");
		kymo_trace(late, rec, n++);
	}
	while (rings_rss() < 4 * ring_bytes)
		nap_us(1000);
	if (sched_setaffinity(0, sizeof(second), &second))
		die("CPU 1");
	/* The code that reads the counters is touched before. */
	getrusage(RUSAGE_THREAD, &before);
	kymo_trace(late, rec, n++);
	getrusage(RUSAGE_THREAD, &before);
	for (; n < records; n++)
		kymo_trace(late, rec, n);
	getrusage(RUSAGE_THREAD, &after);
	printf("produced=%" PRIu64 " minor=%ld major=%ld\n", n, after.ru_minflt - before.ru_minflt,
	       after.ru_majflt - before.ru_majflt);
	fflush(stdout);
	hear();
	return 0;
}
