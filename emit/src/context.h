/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * context.h: what a session's records have between thread id and payload [context.md]: which
 * contexts, and what of them a process or a thread finds out once.
 */
#ifndef KYMO_CONTEXT_H
#define KYMO_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "kymo/abi/ring.h"

/* Return addresses of a call stack. */
#define KYMO_STACK_MAX 32u
/* All contexts of one record, bytes: vpid, prio, cgroup, procname, counters, call stack. */
#define KYMO_CONTEXT_BYTES_MAX (4 + 4 + 8 + 16 + 8 * KYMO_PERF_MAX + 2 + 8 * KYMO_STACK_MAX)

/* The contexts of one memory, as its header asked for when it was mapped. */
struct kymo_contexts {
	uint32_t bits; /* enum kymo_context; 0: records have none */
	uint32_t perf_count;
	struct kymo_perf perf[KYMO_PERF_MAX];
	uint64_t cgroup; /* 0: not known */
	char procname[16];
};

/* Contexts that do not change while a thread records, of a session that has no others, and few bytes of them. */
#define KYMO_FIXED_BYTES_MAX 8u
/* So many sessions with such contexts have a short path at once, if their slots do not collide. */
#define KYMO_FIXED_MAX 2u
struct kymo_fixed_contexts {
	uint64_t serial; /* of the memory that they are for; 0: none. Written last, after it was 0 */
	uint64_t bytes;
	uint64_t block; /* as they stand in a record */
};
KYMO_CHECK_OFFSET(struct kymo_fixed_contexts, block, 16);

/* What a thread knows for one session, from its first record in it on. */
struct kymo_thread_contexts {
	uint64_t key; /* of the memory's serial; in the low 16 bits the number of a set of counters */
	int32_t prio; /* as in the trace */
};

/* Where a thread's stack is, by its mapping; found once. */
struct kymo_stack_bounds {
	uintptr_t low, high; /* high 0: not known */
	uint32_t looks;	     /* at /proc/self/maps */
};

struct kymo_self;

/* context.c */
int kymo_contexts_read(struct kymo_contexts *contexts, const struct kymo_mem *header);
bool kymo_contexts_agree(const struct kymo_contexts *one, const struct kymo_contexts *other);
void kymo_contexts_thread(struct kymo_self *self, uint32_t slot);
uint32_t kymo_contexts_put(struct kymo_self *self, uint32_t slot, const void *frame, uint8_t *to);

/* counters.c */
void kymo_counters_prepare(void);
uint16_t kymo_counters_open(struct kymo_self *self, uint32_t slot);
void kymo_counters_close(uint16_t number, uint32_t tid);
void kymo_counters_read(uint16_t number, uint32_t count, uint64_t *values);
void kymo_counters_end(uint32_t slot);
void kymo_counters_forget(void);

/* stack.c */
void kymo_stack_learn(void);
bool kymo_stack_is_own(struct kymo_self *self, uintptr_t at, uintptr_t *end);
bool kymo_stack_end(struct kymo_self *self, uintptr_t at, uintptr_t *end);

/* callstack.c */
uint32_t kymo_callstack(struct kymo_self *self, const void *frame, uint64_t *to);

#endif
