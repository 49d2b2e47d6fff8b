/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tracefs.h: what the files for events of the kernel share [posix.md 10]: tracefs.c has instances,
 * pages.c their bytes, tasks.c the threads of the target; kernel.c makes events of a stream of it.
 */
#ifndef KYMO_POSIX_TRACEFS_H
#define KYMO_POSIX_TRACEFS_H

#include "linux.h"

#if KYMOP_KERNEL
#pragma GCC visibility push(hidden)

/* tracefs.c: an instance of our own. int: 0 or an error number. */
struct kymop_instance {
	int root; /* directory of tracefs */
	int directory; /* with its lock, which ends with the last copy of the descriptor */
	int guard; /* free_buffer: when it is closed, the kernel stops recording and frees the rings */
	char name[40]; /* below instances */
};
/* Of an errno: why something of tracefs cannot be had, as functions of streams say it. */
int kymop_tracefs_reason(int error);
int kymop_instance_make(struct kymop_instance *instance);
void kymop_instance_remove(struct kymop_instance *instance);
/* In a new child: it stays the parent's. */
void kymop_instance_leave(struct kymop_instance *instance);
int kymop_instance_open(const struct kymop_instance *instance, const char *file, int flags);
int kymop_instance_write(const struct kymop_instance *instance, const char *file, const char *text);
/* The text of a file, cut to bytes, with a NUL. */
int kymop_instance_read(const struct kymop_instance *instance, const char *file, char *text,
			size_t bytes);

/* pages.c: where a field is in what the kernel writes. bytes 0: there is none. */
struct kymop_field {
	uint16_t offset, bytes;
};
struct kymop_field kymop_field_of(const char *format, const char *name);
uint64_t kymop_field_get(struct kymop_field field, const uint8_t *data, uint32_t bytes);

/* A page of a CPU's ring, and the place in it. */
struct kymop_page_layout {
	struct kymop_field commit, data;
};
struct kymop_pages {
	const uint8_t *at, *end;
	uint64_t time;
	/* The next event; null: there is none in this page. */
	const uint8_t *data;
	uint32_t bytes;
};
void kymop_page_begin(struct kymop_pages *pages, const struct kymop_page_layout *layout,
		      const uint8_t *page, size_t bytes, bool *has_missed);
bool kymop_page_next(struct kymop_pages *pages);

/* tasks.c: which process a thread belongs to. */
struct kymop_task {
	uint32_t thread;  /* 0: free */
	uint32_t process; /* 0: one that is not traced */
};
struct kymop_tasks {
	struct kymop_task *table;
	uint32_t room, count; /* room: a power of two */
	uint32_t target;
	bool is_inherited;
};
int kymop_tasks_make(struct kymop_tasks *tasks, uint32_t target, bool is_inherited);
void kymop_tasks_free(struct kymop_tasks *tasks);
bool kymop_tasks_set(struct kymop_tasks *tasks, uint32_t thread, uint32_t process);
bool kymop_tasks_know(const struct kymop_tasks *tasks, uint32_t thread, uint32_t *process);
/*
 * Of a thread that nothing was recorded of: as /proc says now. is_followed: the kernel records it,
 * because it, or who made it, is of the target. False: it is gone.
 */
bool kymop_tasks_ask(struct kymop_tasks *tasks, uint32_t thread, bool is_followed, uint32_t *process);
/* Each thread that the target has now: those that are new are given to found. */
int kymop_tasks_list(struct kymop_tasks *tasks, int (*found)(void *context, uint32_t thread),
		     void *context);

#pragma GCC visibility pop
#endif
#endif
