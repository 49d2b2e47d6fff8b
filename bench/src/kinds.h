/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kinds.h: what can be measured. A kind is one body (a clock read, a tracepoint, nothing) in two forms: a hot
 * loop, and a single fenced execution. Bodies are inlined into both; nothing is called per record but what
 * the tracer itself calls.
 */
#ifndef BENCH_KINDS_H
#define BENCH_KINDS_H

#include <stdint.h>

#include "ticks.h"

enum tracer { TRACER_NONE, TRACER_KYMO, TRACER_LTTNG };

struct kind {
	const char *name;
	enum tracer tracer;
	int records;				   /* records written per execution: 0 or 1 */
	void (*loop)(uint64_t first, uint64_t n);  /* n executions with values first, first + 1, ... */
	uint32_t (*single)(uint64_t value);	   /* ticks of one execution, the timer's floor included */
	int (*enabled)(void);			   /* 1 when a session wants it; null: there is nothing to enable */
};

extern const struct kind kinds_bare[], kinds_kymo[], kinds_lttng[]; /* end with a null name */

const struct kind *kind_find(const char *name);

/*
 * The same loop for all kinds. The empty statement makes the counter opaque and stands for memory that
 * somebody else may change, so that no body can be hoisted out of the loop or merged with its neighbour.
 */
#define BENCH_KIND(name, body)                                                                                         \
	__attribute__((noinline, aligned(64))) static void loop_##name(uint64_t first, uint64_t n)                     \
	{                                                                                                              \
		for (uint64_t v = first, end = first + n; v != end; v++) {                                             \
			__asm__ __volatile__("" : "+r"(v) : : "memory");                                               \
			body;                                                                                          \
		}                                                                                                      \
	}                                                                                                              \
	__attribute__((noinline, aligned(64))) static uint32_t single_##name(uint64_t v)                               \
	{                                                                                                              \
		__asm__ __volatile__("" : "+r"(v) : : "memory");                                                       \
		uint64_t from = ticks_begin();                                                                         \
		body;                                                                                                  \
		__asm__ __volatile__("" : "+r"(v) : : "memory");                                                       \
		return (uint32_t)(ticks_end() - from);                                                                 \
	}

/* The 12 bytes of the record with a string. Read through a volatile pointer: its length is not a constant. */
extern const char *volatile bench_text;

/* Value of records that only try whether an event is enabled. */
#define BENCH_PROBE UINT64_MAX

#endif
