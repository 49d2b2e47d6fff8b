/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_rings.c: two ways to read the kernel's rings, over the same load: a read per sub-buffer (trace_pipe_raw), and
 * the sub-buffers where they are mapped (Linux 6.10). Neither decodes: both walk the heads of all records and add up
 * their words, so that each byte is looked at once.
 *
 *	kernel_rings INSTANCE LOAD_CPU READER_CPU ROUNDS TRIPS
 *
 * Each round records TRIPS round trips between two processes on LOAD_CPU, stops the instance and reads all rings by one
 * way, then the same by the other; every second round the other way round. The events of INSTANCE are on, its rings
 * are large enough and its clock does not matter. Prints a line for each reading:
 *
 *	ROUND WAY EVENTS PAGES CPU_NS CALL_NS CALL_NS_MAX
 *
 * CPU_NS is the thread's CPU time, CALL_NS the time within the calls, CALL_NS_MAX the longest of them. Mapping is not
 * counted: a session does it once. Exit code: 3 where the kernel does not map rings; 1 where what was read is not what
 * the kernel counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ticks.h"

#define CPUS_MAX 256
#define HEAD_BYTES 16
#define GET_READER _IO('R', 0x20)
#define CALLS_PER_TRIP 10

struct meta {
	uint32_t begin, bytes, subbuf_bytes, count;
	uint64_t lost;
	uint32_t id, read;
};

struct found {
	uint64_t events, pages, sum, call_ns, call_ns_max;
};

static const char *instance;
static int cpus[CPUS_MAX], cpu_count;
static char *page;
static size_t page_bytes;

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int open_file(int cpu, const char *name, int flags)
{
	char path[4096];

	if (cpu < 0)
		snprintf(path, sizeof(path), "%s/%s", instance, name);
	else
		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/%s", instance, cpu, name);
	return open(path, flags | O_CLOEXEC);
}

static void set(const char *name, const char *value, int flags)
{
	int fd = open_file(-1, name, O_WRONLY | flags);

	if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		fail(name);
	close(fd);
}

/* The sum of a count of all rings: "read events", "overrun", ... */
static uint64_t counted(const char *name)
{
	uint64_t sum = 0;

	for (int i = 0; i < cpu_count; i++) {
		char text[1024], *at;
		int fd = open_file(cpus[i], "stats", O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		if (n <= 0)
			fail("stats");
		text[n] = 0;
		close(fd);
		for (at = text; (at = strstr(at, name)); at++)
			if (at == text || at[-1] == '\n')
				break;
		if (!at)
			fail(name);
		sum += strtoull(at + strlen(name), NULL, 10);
	}
	return sum;
}

static void walk(const char *data, size_t bytes, struct found *found)
{
	size_t at = 0;

	while (bytes - at >= 4) {
		uint32_t head, word, length, type;

		memcpy(&head, data + at, 4);
		at += 4;
		type = head & 31;
		length = type * 4;
		if (type == 29 && !(head >> 5))
			return;
		if (type == 0 || type > 28) {
			if (bytes - at < 4)
				return;
			memcpy(&word, data + at, 4);
			at += 4;
			if (type >= 30)
				continue;
			if (word < 4)
				return;
			length = word - 4;
		}
		if (length > bytes - at)
			return;
		if (type != 29) {
			found->events++;
			for (uint32_t i = 0; i + 4 <= length; i += 4) {
				memcpy(&word, data + at + i, 4);
				found->sum += word;
			}
		}
		at += length;
	}
}

static void took(struct found *found, uint64_t from)
{
	uint64_t ns = now_ns(CLOCK_MONOTONIC_RAW) - from;

	found->call_ns += ns;
	if (ns > found->call_ns_max)
		found->call_ns_max = ns;
}

static void read_copied(int fd, struct found *found)
{
	for (;;) {
		uint64_t from = now_ns(CLOCK_MONOTONIC_RAW);
		ssize_t n = read(fd, page, page_bytes);
		uint32_t commit;

		took(found, from);
		if (n <= HEAD_BYTES)
			return;
		memcpy(&commit, page + 8, sizeof(commit));
		commit &= 0x3fffffff;
		if (commit > (size_t)n - HEAD_BYTES)
			fail("a page that is none");
		found->pages++;
		walk(page + HEAD_BYTES, commit, found);
	}
}

static void read_mapped(int fd, const volatile struct meta *meta, const char *data,
			struct found *found)
{
	uint32_t id = meta->id, done = meta->read;
	uint32_t count = meta->count, subbuf = meta->subbuf_bytes;

	for (;;) {
		uint64_t from = now_ns(CLOCK_MONOTONIC_RAW);
		int error = ioctl(fd, GET_READER);
		uint32_t new_id = meta->id, read = meta->read;

		took(found, from);
		if (error)
			fail("TRACE_MMAP_IOCTL_GET_READER");
		if (new_id >= count || read > subbuf - HEAD_BYTES)
			fail("a description that is none");
		if (new_id != id)
			done = 0;
		else if (read <= done)
			return;
		id = new_id;
		found->pages++;
		walk(data + (size_t)id * subbuf + HEAD_BYTES + done, read - done, found);
		done = read;
	}
}

/* Maps a ring as it is now, reads it, unmaps it. Adds the CPU time of reading. Returns -1 where mapping is refused. */
static int read_ring(int cpu, int mapped, struct found *found, uint64_t *cpu_ns)
{
	int fd = open_file(cpu, "trace_pipe_raw", O_RDONLY | O_NONBLOCK);
	size_t first = (size_t)sysconf(_SC_PAGESIZE), bytes = 0;
	struct meta *meta = MAP_FAILED;
	char *data = MAP_FAILED;
	int result = -1;

	if (fd < 0)
		fail("trace_pipe_raw");
	if (mapped) {
		meta = mmap(NULL, first, PROT_READ, MAP_SHARED, fd, 0);
		if (meta == MAP_FAILED)
			goto out;
		if (meta->subbuf_bytes != page_bytes || meta->count < 2)
			fail("a description that is none");
		bytes = (size_t)meta->subbuf_bytes * meta->count;
		data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, meta->begin);
		if (data == MAP_FAILED)
			goto out;
	}
	*cpu_ns -= now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (mapped)
		read_mapped(fd, meta, data, found);
	else
		read_copied(fd, found);
	*cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID);
	result = 0;
out:
	if (data != MAP_FAILED)
		munmap(data, bytes);
	if (meta != MAP_FAILED)
		munmap(meta, first);
	close(fd);
	return result;
}

/* TRIPS bytes go from one process to another and back, with system calls between. */
static void trips(int from, int to, long count, int is_first)
{
	char byte = 0;

	for (long i = 0; i < count; i++) {
		if (is_first && write(to, &byte, 1) != 1)
			_exit(1);
		if (read(from, &byte, 1) != 1)
			_exit(1);
		for (int call = 0; call < CALLS_PER_TRIP; call++)
			syscall(SYS_getppid);
		if (!is_first && write(to, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void load(int cpu, long count)
{
	int there[2], back[2], status;

	if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
		fail("pipe");
	set("trace", "\n", O_TRUNC);
	set("tracing_on", "1", 0);
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (child)
			continue;
		pin_to(cpu);
		trips(i ? there[0] : back[0], i ? back[1] : there[1], count, !i);
	}
	for (int i = 0; i < 2; i++)
		close(there[i]), close(back[i]);
	for (int i = 0; i < 2; i++)
		if (wait(&status) < 0 || status)
			fail("the load");
	set("tracing_on", "0", 0);
}

static int measure(int round, int mapped)
{
	struct found found = {0};
	uint64_t cpu_ns = 0, before = counted("read events:"), entries = counted("entries:");
	uint64_t lost = counted("overrun:") + counted("commit overrun:") +
			counted("dropped events:");

	for (int i = 0; i < cpu_count; i++)
		if (read_ring(cpus[i], mapped, &found, &cpu_ns) < 0) {
			fprintf(stderr, "kernel_rings: this kernel does not map its rings: %s\n",
				strerror(errno));
			exit(3);
		}
	printf("%d %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", round,
	       mapped ? "mapped" : "copied", found.events, found.pages, cpu_ns, found.call_ns,
	       found.call_ns_max);
	fflush(stdout);
	if (found.events == entries && counted("read events:") - before == entries && !lost)
		return 0;
	fprintf(stderr,
		"kernel_rings: %" PRIu64 " events read, the kernel had %" PRIu64 ", lost %" PRIu64
		" (sum %" PRIx64 ")\n",
		found.events, entries, lost, found.sum);
	return 1;
}

/* Bytes of a sub-buffer: what one read gives at most. */
static size_t subbuf_bytes(void)
{
	char text[64];
	int fd = open_file(-1, "buffer_subbuf_size_kb", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return (size_t)sysconf(_SC_PAGESIZE);
	text[n] = 0;
	return strtoul(text, NULL, 10) * 1024;
}

int main(int argc, char **argv)
{
	int wrong = 0;

	if (argc != 6)
		return 2;
	instance = argv[1];
	page_bytes = subbuf_bytes();
	page = malloc(page_bytes);
	if (!page || page_bytes <= HEAD_BYTES)
		return 2;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		int fd = open_file(cpu, "stats", O_RDONLY);

		if (fd >= 0) {
			close(fd);
			cpus[cpu_count++] = cpu;
		}
	}
	if (!cpu_count)
		fail(instance);
	pin_to(atoi(argv[3]));
	/* The first round warms up. */
	for (int round = -1; round < atoi(argv[4]); round++)
		for (int i = 0; i < 2; i++) {
			load(atoi(argv[2]), atol(argv[5]));
			wrong |= measure(round, i ^ (round & 1));
		}
	return wrong;
}
