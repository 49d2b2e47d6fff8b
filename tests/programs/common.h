/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * common.h: what the programs of the tests share: talking with the test over standard input and
 * output, waiting until an event is switched on, and an end of their own should the test forget them.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kymo/tracepoint.h>

/* Seconds after which a program ends by SIGALRM, whatever it does. */
#define LIFE_S 400

static inline void live_shortly(void)
{
	alarm(LIFE_S);
}

static inline void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

/* Waits for a line from the test. */
static inline void hear(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static inline uint32_t tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static inline void nap_us(long us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

/* Waits until a session wants the event, or no longer wants it. */
#define until_enabled(provider, name)                 \
	do {                                          \
		while (!kymo_trace_enabled(provider, name)) \
			nap_us(500);                  \
	} while (0)
#define until_disabled(provider, name)                \
	do {                                          \
		while (kymo_trace_enabled(provider, name))  \
			nap_us(500);                  \
	} while (0)

#define die(what)                                     \
	do {                                          \
		perror(what);                         \
		exit(99);                             \
	} while (0)

/* A value that depends on all the rest of a record, so that a torn one shows. */
static inline uint64_t check_of(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15ull ^ (b + 0x1234567890abcdefull) * 0xbf58476d1ce4e5b9ull;

	return z ^ z >> 29;
}

#endif
