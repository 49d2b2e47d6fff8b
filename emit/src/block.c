/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * block.c: waiting for room in a full ring, for programs that have agreed to it [session.md 12].
 * Who waits holds no lock and no lane, and no memory but that of its contexts. Every try behind a
 * pause is a fresh one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "settings.h"

#define PAUSE_NS_MIN 50000u
#define PAUSE_NS_MAX 1000000u
#define SECOND_NS 1000000000u

/* A flag that sched_getscheduler may add to the class. */
#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif
#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

static bool has_agreed;

/*
 * kymo_block_init: the program's word. Without a helper thread nobody would learn that a session
 * is over, and each record would wait for a collector that is gone.
 */
void kymo_block_init(void)
{
	has_agreed = kymo_settings.may_block && !kymo_settings.without_thread;
}

/*
 * kymo_block_agree: takes from a memory's header how long its writers wait, and says there that
 * this process does. Rings that are overwritten have always room.
 * Returns: 0; EINVAL for a time beyond the bound.
 */
int kymo_block_agree(struct kymo_memory *memory)
{
	struct kymo_mem *header = kymo_memory_header(memory);
	uint64_t block_ns = __atomic_load_n(&header->block_ns, __ATOMIC_RELAXED);

	if (!(__atomic_load_n(&header->flags, __ATOMIC_RELAXED) & KYMO_MEM_BLOCK))
		return 0;
	if (block_ns > KYMO_BLOCK_NS_MAX)
		return EINVAL;
	if (!has_agreed || memory->marks)
		return 0;
	memory->block_ns = block_ns;
	__atomic_add_fetch(&header->block_agreed, 1, __ATOMIC_RELAXED);
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Looked up for each record that has to wait: a thread may change its class. */
static bool is_real_time(void)
{
	long class = syscall(SYS_sched_getscheduler, 0) & ~(long)SCHED_RESET_ON_FORK;

	return class == SCHED_FIFO || class == SCHED_RR || class == SCHED_DEADLINE;
}

/*
 * kymo_may_wait: whether a record that found its ring full may be tried again behind a pause. The
 * first time in a record it counts the wait and sets its end.
 * Context: any, the memory is held; system calls.
 */
bool kymo_may_wait(const struct kymo_self *self, struct kymo_wait *wait,
		   const struct kymo_memory *memory)
{
	if (!memory->block_ns || self->busy > 1 || wait->is_over)
		return false;
	if (wait->pause_ns)
		return true;
	if (is_real_time())
		return false;
	__atomic_add_fetch(&kymo_memory_header(memory)->block_waits, 1, __ATOMIC_RELAXED);
	wait->end_ns = now_ns() + memory->block_ns;
	wait->pause_ns = PAUSE_NS_MIN;
	return true;
}

/*
 * kymo_wait: one pause, longer from one to the next. A bare system call: nanosleep(3) is a place
 * where threads are cancelled, and a tracepoint is none.
 * Context: any, no lock and no lane is held.
 */
void kymo_wait(struct kymo_wait *wait)
{
	uint64_t now = now_ns();
	uint64_t left = wait->end_ns > now ? wait->end_ns - now : 0;
	struct timespec pause = { 0, (long)(wait->pause_ns < left ? wait->pause_ns : left) };

	if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL) && errno != EINTR)
		wait->is_over = true; /* a sandbox that forbids it */
	wait->is_over |= left <= wait->pause_ns;
	if (wait->pause_ns < PAUSE_NS_MAX)
		wait->pause_ns *= 2;
}
