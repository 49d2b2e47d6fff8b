/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * types.h: the types that <trace.h> takes from the system, where there is no system. A C library
 * that has them defines KYMO_POSIX_SYSTEM_TYPES, and its own headers are taken.
 */
#ifndef KYMO_POSIX_TYPES_H
#define KYMO_POSIX_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Sizes in an attributes object: the same for programs of 32 and of 64 bits, where both may run. */
#if KYMO_POSIX_HOSTED
typedef uint64_t kymo__bytes_t;
#else
typedef uint32_t kymo__bytes_t;
#endif

#if KYMO_POSIX_HOSTED || defined(KYMO_POSIX_SYSTEM_TYPES)
#include <limits.h>
#include <pthread.h> /* pthread_t, also in strict C11 */
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#else
typedef int32_t pid_t;
typedef uintptr_t pthread_t;
typedef int64_t time_t;

struct timespec {
	time_t tv_sec;
	long tv_nsec;
};
#endif

#endif
