/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tasks.c: which process a thread belongs to, for events of the kernel, which name threads only
 * [posix.md 10]. Threads come from /proc once, then from the kernel's own records of new ones.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracefs.h"

#if KYMOP_KERNEL

#define ROOM_MIN 1024u

static struct kymop_task *table_of(uint32_t room)
{
	void *got = mmap(NULL, room * sizeof(struct kymop_task), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

/* Where a thread is, or where it would be. The table is never full. */
static struct kymop_task *place(const struct kymop_tasks *tasks, uint32_t thread)
{
	uint32_t at = thread * 2654435761u & (tasks->room - 1);

	while (tasks->table[at].thread && tasks->table[at].thread != thread)
		at = (at + 1) & (tasks->room - 1);
	return &tasks->table[at];
}

int kymop_tasks_make(struct kymop_tasks *tasks, uint32_t target, bool is_inherited)
{
	*tasks = (struct kymop_tasks){ .table = table_of(ROOM_MIN), .room = ROOM_MIN, .target = target,
				       .is_inherited = is_inherited };
	return tasks->table ? 0 : ENOMEM;
}

void kymop_tasks_free(struct kymop_tasks *tasks)
{
	if (tasks->table)
		munmap(tasks->table, tasks->room * sizeof(*tasks->table));
	tasks->table = NULL;
}

static bool grow(struct kymop_tasks *tasks)
{
	struct kymop_tasks larger = *tasks;

	larger.room *= 2;
	larger.table = table_of(larger.room);
	if (!larger.table)
		return false;
	for (uint32_t i = 0; i < tasks->room; i++)
		if (tasks->table[i].thread)
			*place(&larger, tasks->table[i].thread) = tasks->table[i];
	kymop_tasks_free(tasks);
	*tasks = larger;
	return true;
}

/* False: there is no memory. A number that is given again has the new process. */
bool kymop_tasks_set(struct kymop_tasks *tasks, uint32_t thread, uint32_t process)
{
	struct kymop_task *at;

	if (!thread || (tasks->count >= tasks->room / 4 * 3 && !grow(tasks)))
		return false;
	at = place(tasks, thread);
	tasks->count += !at->thread;
	*at = (struct kymop_task){ thread, process };
	return true;
}

bool kymop_tasks_know(const struct kymop_tasks *tasks, uint32_t thread, uint32_t *process)
{
	const struct kymop_task *at = place(tasks, thread);

	*process = at->process;
	return !thread || at->thread;
}

/* The process of a thread that is there now; 0: it is gone. */
static uint32_t process_of(uint32_t thread)
{
	char path[40], text[2048];
	ssize_t got;
	char *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/status", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	at = strstr(text, "\nTgid:\t");
	return at ? (uint32_t)strtoul(at + 7, NULL, 10) : 0;
}

/* Threads that were made while the stream was stopped. */
bool kymop_tasks_ask(struct kymop_tasks *tasks, uint32_t thread, bool is_followed, uint32_t *process)
{
	*process = process_of(thread);
	if (!*process)
		return false;
	if (*process != tasks->target && !(tasks->is_inherited && is_followed))
		*process = 0;
	kymop_tasks_set(tasks, thread, *process);
	return true;
}

int kymop_tasks_list(struct kymop_tasks *tasks, int (*found)(void *context, uint32_t thread),
		     void *context)
{
	struct dirent *entry;
	char path[40];
	int error = 0;
	DIR *stream;

	snprintf(path, sizeof(path), "/proc/%u/task", tasks->target);
	stream = opendir(path);
	if (!stream)
		return errno == ENOENT ? ESRCH : errno == ENOMEM ? ENOMEM : EMFILE;
	while (!error && (entry = readdir(stream))) {
		uint32_t thread = (uint32_t)strtoul(entry->d_name, NULL, 10), process;

		if (!thread || (kymop_tasks_know(tasks, thread, &process) && process == tasks->target))
			continue;
		error = kymop_tasks_set(tasks, thread, tasks->target) ? 0 : ENOMEM;
		if (!error && found)
			error = found(context, thread);
	}
	closedir(stream);
	return error;
}
#else
typedef int kymop_no_tasks; /* a file must not be empty */
#endif
