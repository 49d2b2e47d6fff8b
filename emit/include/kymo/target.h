/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * target.h: what libkymo-posix asks of a program that runs without an operating system, and what
 * such a program calls besides <trace.h> [target.md]. One core; interrupts and tasks may trace.
 */
#ifndef KYMO_TARGET_H
#define KYMO_TARGET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program defines these. */

/*
 * kymo_target_clock: a counter that does not go back, of 48 bits at least, and how often it counts
 * in a second. Context: any, interrupts included; may be interrupted by itself.
 */
uint64_t kymo_target_clock(void);
extern const uint32_t kymo_target_hz;

/*
 * kymo_target_write: takes as many of the bytes as the line has room for now, and returns how many:
 * 0 is no error. Only builds with trace to log ask for it. Context: whoever flushes.
 */
size_t kymo_target_write(const void *bytes, size_t count);

/* The program may define these; what stands behind each is done otherwise. */

/* A number that another start of the target does not have, e.g. a count in RAM that is not cleared
 * [target.md 4]. 0. */
uint32_t kymo_target_boot(void);
/* Who is running: a task, or an interrupt. Context: any. 0. */
uint32_t kymo_target_thread(void);
/* A while, of whoever waits for an event or for the line: sleep, or let others run. Nothing. */
void kymo_target_pause(void);
/* Keeps other tasks out of what is in between; only for programs whose tasks call functions other
 * than posix_trace_event() at the same time. Nothing. */
void kymo_target_lock(void);
void kymo_target_unlock(void);

/* The program calls these. */

/*
 * kymo_target_idle: sends what is recorded in streams with a log, until the line takes no more or
 * there is no more. Returns: whether something is left.
 * Context: a task, e.g. the one that runs when no other has to; one at a time.
 */
int kymo_target_idle(void);

/*
 * kymo_target_asked: a byte has come from the host: 'h', who and what this is shall be said again
 * [target.md 5]. Context: any, interrupts included.
 */
void kymo_target_asked(uint8_t byte);

#ifdef __cplusplus
}
#endif
#endif
