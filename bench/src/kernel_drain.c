/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_drain.c: the least that a reader of the kernel's rings can do: takes each CPU's sub-buffers as they are and
 * appends them to a file, unread. The floor under every collector, and what captures pages for decode_speed.
 *
 *	kernel_drain INSTANCE OUT PAGE_BYTES POLL_US
 *
 * One thread for all CPUs, looks every POLL_US. Writes OUT/cpuN.raw. On SIGINT or SIGTERM it takes what is left (the
 * caller has switched tracing off) and prints "pages N bytes N".
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 256

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
	(void)number;
	ending = 1;
}

struct ring {
	int from, to;
};

static int ring_open(struct ring *ring, const char *instance, const char *out, int cpu)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/trace_pipe_raw", instance, cpu);
	ring->from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (ring->from < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/cpu%d.raw", out, cpu);
	ring->to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (ring->to < 0) {
		perror(path);
		exit(1);
	}
	return 0;
}

/*
 * Takes what the ring has, until LIVE finds the sub-buffer that the kernel is writing to: the calls that take a few records
 * from there would be the next few records. Returns the sub-buffers taken.
 */
static uint64_t ring_look(const struct ring *ring, char *page, size_t page_bytes, int live)
{
	uint64_t pages = 0;
	uint32_t commit;

	for (;;) {
		ssize_t n = read(ring->from, page, page_bytes);

		if (n <= 0)
			return pages;
		memset(page + n, 0, page_bytes - (size_t)n);
		if (write(ring->to, page, page_bytes) != (ssize_t)page_bytes) {
			perror("kernel_drain: write");
			exit(1);
		}
		pages++;
		memcpy(&commit, page + 8, sizeof(commit));
		if (live && (commit & 0xFFFFFF) < page_bytes / 2)
			return pages;
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct ring rings[CPUS_MAX];
	uint64_t pages = 0;
	int count = 0;

	if (argc != 5)
		return 2;

	size_t page_bytes = strtoul(argv[3], NULL, 10);
	long poll_us = atol(argv[4]);
	struct timespec pause = {poll_us / 1000000, poll_us % 1000000 * 1000};
	char *page = malloc(page_bytes);

	if (!page || !page_bytes)
		return 2;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		if (ring_open(&rings[count], argv[1], argv[2], cpu) == 0)
			count++;
	if (!count) {
		fprintf(stderr, "kernel_drain: no ring below %s\n", argv[1]);
		return 1;
	}
	for (int last = 0; !last;) {
		last = ending;
		for (int i = 0; i < count; i++)
			pages += ring_look(&rings[i], page, page_bytes, !last);
		if (!last)
			nanosleep(&pause, NULL);
	}
	printf("pages %llu bytes %llu\n", (unsigned long long)pages, (unsigned long long)(pages * page_bytes));
	free(page);
	return 0;
}
