/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * load.h: what kymo-load's loads share. A load is a function that a worker process runs until it
 * is killed; what it did is in counters that the guard reads afterwards [spec/lab.md 11].
 */
#ifndef KYMO_LOAD_H
#define KYMO_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKERS_MAX 1024
#define COUNTERS 64 /* of one worker: one for each of its processes, so that none is shared */

/* Counters of a worker: pages of its own, in memory that all processes share. */
struct counters {
	uint64_t done[COUNTERS];
};

struct load {
	const char *name;
	const char *unit; /* of operations */
	void (*work)(unsigned number, struct counters *counters);
};

/* Directory for a load's files, which the guard removes; NULL where none was given. */
extern const char *load_dir;

void hackbench(unsigned number, struct counters *counters);
void net(unsigned number, struct counters *counters);
void compile(unsigned number, struct counters *counters);

/* fork_tied: as fork, but the child gets `signal` when its parent dies. */
pid_t fork_tied(int signal);

/* trouble: one line of JSON that says why a load cannot go on; ends the calling process. */
_Noreturn void trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* stress_ng_operations: sum of bogo-ops in the YAML that stress-ng leaves; -1 where there is none. */
int64_t stress_ng_operations(const char *path);

#endif
