/*
 * A thread `spinner` on CPU 0 that spins, then writes and reads a file of its own. What the kernel has counted of it is
 * printed: its CPU time, and what the hypervisor took from the CPU meanwhile. Argument: the file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_MS = 1000, WRITES = 10, BYTES = 1000 };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* User and system time of this thread in ticks, as /proc has them. */
static long long ticks(void)
{
	char text[1024];
	unsigned long long user = 0, system = 0;
	FILE *file = fopen("/proc/thread-self/stat", "r");
	size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	text[size] = 0;
	/* The name of `spinner` has neither a blank nor a bracket. */
	sscanf(text, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
	if (file)
		fclose(file);
	return (long long)(user + system);
}

/* Ticks that the hypervisor took from CPU 0. */
static long long stolen_ticks(void)
{
	char line[512];
	unsigned long long stolen = 0;
	FILE *file = fopen("/proc/stat", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "cpu0 %*u %*u %*u %*u %*u %*u %*u %llu", &stolen) == 1)
			break;
	if (file)
		fclose(file);
	return (long long)stolen;
}

/* Almost all of the CPU time is spent here. */
__attribute__((noinline)) static uint64_t burn(uint64_t seed)
{
	for (int i = 0; i < 100000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(seed));
	}
	return seed;
}

static void move_bytes(const char *path)
{
	char buffer[BYTES] = { 0 };
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	long long written = 0, got = 0;

	for (int i = 0; i < WRITES; i++)
		written += write(fd, buffer, sizeof(buffer));
	for (int i = 0; i < WRITES / 2; i++)
		got += pread(fd, buffer, sizeof(buffer), i * BYTES);
	/* Nothing is written by a call that fails. */
	if (write(-1, buffer, sizeof(buffer)) >= 0)
		written = -1;
	close(fd);
	printf("fd=%d\nwritten=%lld\nread=%lld\n", fd, written, got);
}

static void *spin(void *path)
{
	int64_t from, until;
	uint64_t seed = 1;
	long long stolen = stolen_ticks();

	pthread_setname_np(pthread_self(), "spinner");
	from = now_ns();
	until = from + SPIN_MS * INT64_C(1000000);
	while (now_ns() < until)
		seed = burn(seed);
	move_bytes(path);
	printf("tid=%d\nhz=%ld\nstolen=%lld\n", (int)gettid(), sysconf(_SC_CLK_TCK), stolen_ticks() - stolen);
	printf("ticks=%lld\n", ticks());
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t cpus;

	if (argc < 2)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	pthread_create(&thread, &attr, spin, argv[1]);
	pthread_join(thread, NULL);
	return 0;
}
