/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel.h: events of the kernel of one stream [posix.md 10]: kernel.c makes and ends what records
 * them, kernel_read.c merges the rings and makes the stream's records of the kernel's.
 */
#ifndef KYMO_POSIX_KERNEL_H
#define KYMO_POSIX_KERNEL_H

#include "tracefs.h"

#if KYMOP_KERNEL
#pragma GCC visibility push(hidden)

/* What the kernel records for us: the types of the stream, and new threads. */
enum point { SWITCH, ENTRY, EXIT, WAIT_BEGIN, WAIT_END, NEW_TASK, POINTS };
#define FIELDS 6
struct kymop_point {
	const char *path;
	uint16_t id; /* 0: is not given */
	uint16_t kind;
	const char *fields[FIELDS];
};
extern const struct kymop_point kymop_points[POINTS];

struct format {
	uint32_t type;
	bool is_known, is_enabled;
	struct kymop_field field[FIELDS];
};

struct cpu {
	int fd; /* trace_pipe_raw */
	uint32_t number;
	uint8_t *page;
	struct kymop_pages pages;
	bool has_next, is_empty, has_missed;
	uint64_t stamp_last; /* of the last event that was in front of pages.data */
};

struct kymop_kernel {
	size_t alloc_bytes;
	struct kymop_instance instance;
	struct kymop_tasks tasks;
	struct kymop_page_layout layout;
	struct format formats[POINTS];
	struct kymop_field type, thread;
	uint32_t kinds;
	uint32_t page_bytes;
	uint32_t cpu_count;
	struct cpu *cpus;
	uint8_t *pages;
	int switch_fd; /* tracing_on */
	uint64_t clear_before;
	bool has_loss;
	uint64_t loss_before, loss_behind;
	uint32_t reading; /* a thread of ours that is about to read a ring, as the records say */
};

/* By number of the slot; and threads of the library, which are not recorded. Under kymop_lock. */
extern struct kymop_kernel *kymop_kernels[KYMO_POSIX_STREAMS];
extern uint32_t kymop_hidden[KYMO_POSIX_STREAMS];

#pragma GCC visibility pop
#endif
#endif
