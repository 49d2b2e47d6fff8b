/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel.c: what records events of the kernel for a stream [posix.md 10]: an instance of tracefs with
 * the stream's clock, the tracepoints that are asked for, and the threads of the target. Does not look
 * into what was recorded: that is kernel_read.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#if KYMOP_KERNEL

#define FORMAT_BYTES 8192
#define PAGE_BYTES_MIN 4096u
#define PAGE_BYTES_MAX 65536u
#define RING_KB_MIN 64u
#define CPUS_MAX 4096
/* The first pid namespace, in every kernel. The kernel's numbers of threads are those of it. */
#define FIRST_PID_NAMESPACE 0xeffffffcu
#define POLL_COUNT 64
#define LISTS_MAX 100

const struct kymop_point kymop_points[POINTS] = {
	[SWITCH] = { "sched/sched_switch", KYMOP_CONTEXT_SWITCH, KYMOP_KERNEL_SWITCH,
		     { "prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio" } },
	[ENTRY] = { "raw_syscalls/sys_enter", KYMOP_SYSTEM_CALL_ENTRY, KYMOP_KERNEL_CALL, { "id", "args" } },
	[EXIT] = { "raw_syscalls/sys_exit", KYMOP_SYSTEM_CALL_EXIT, KYMOP_KERNEL_CALL, { "id", "ret" } },
	[WAIT_BEGIN] = { "lock/contention_begin", KYMOP_LOCK_WAIT_BEGIN, KYMOP_KERNEL_LOCK,
			 { "lock_addr", "flags" } },
	[WAIT_END] = { "lock/contention_end", KYMOP_LOCK_WAIT_END, KYMOP_KERNEL_LOCK,
		       { "lock_addr", "ret" } },
	[NEW_TASK] = { "task/task_newtask", 0, 0, { "pid", "clone_flags" } },
};

struct kymop_kernel *kymop_kernels[KYMO_POSIX_STREAMS];
uint32_t kymop_hidden[KYMO_POSIX_STREAMS];

static int read_format(struct kymop_kernel *kernel, enum point point, char *text)
{
	struct format *format = &kernel->formats[point];
	char path[64], *id;
	int error;

	snprintf(path, sizeof(path), "events/%s/format", kymop_points[point].path);
	error = kymop_instance_read(&kernel->instance, path, text, FORMAT_BYTES);
	if (error)
		return error;
	id = strstr(text, "\nID: ");
	format->type = id ? (uint32_t)strtoul(id + 5, NULL, 10) : 0;
	kernel->type = kymop_field_of(text, "common_type");
	kernel->thread = kymop_field_of(text, "common_pid");
	format->is_known = format->type && kernel->type.bytes == 2 && kernel->thread.bytes == 4;
	for (unsigned i = 0; i < FIELDS && kymop_points[point].fields[i]; i++) {
		format->field[i] = kymop_field_of(text, kymop_points[point].fields[i]);
		format->is_known &= format->field[i].bytes != 0;
	}
	return format->is_known ? 0 : ENOTSUP;
}

static int read_formats(struct kymop_kernel *kernel)
{
	char text[FORMAT_BYTES];
	int error = kymop_instance_read(&kernel->instance, "events/header_page", text, sizeof(text));

	kernel->layout.commit = kymop_field_of(text, "commit");
	kernel->layout.data = kymop_field_of(text, "data");
	if (!error && (!kernel->layout.commit.bytes || kernel->layout.data.offset < 12))
		error = ENOTSUP;
	for (enum point point = 0; !error && point < POINTS; point++)
		if (!kymop_points[point].kind || (kymop_points[point].kind & kernel->kinds))
			error = read_format(kernel, point, text);
	return error;
}

static int enable(struct kymop_kernel *kernel, enum point point, bool is_wanted)
{
	char path[64];
	int error;

	if (kernel->formats[point].is_enabled == is_wanted)
		return 0;
	snprintf(path, sizeof(path), "events/%s/enable", kymop_points[point].path);
	error = kymop_instance_write(&kernel->instance, path, is_wanted ? "1" : "0");
	if (!error)
		kernel->formats[point].is_enabled = is_wanted;
	return error;
}

int kymop_kernel_filter(struct kymop_kernel *kernel, const uint32_t *filter)
{
	int error = 0;

	for (enum point point = 0; !error && point < POINTS; point++) {
		uint16_t id = kymop_points[point].id;

		if (kernel->formats[point].is_known)
			error = enable(kernel, point, !id || !(filter[id / 32] >> id % 32 & 1));
	}
	return error;
}

static int write_number(struct kymop_kernel *kernel, const char *file, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", number);
	return kymop_instance_write(&kernel->instance, file, text);
}

static uint32_t found_count;

static int follow(void *context, uint32_t thread)
{
	found_count++;
	return write_number(context, "set_event_pid", thread);
}

/*
 * Threads of the target, and what they make from now on. Who is listed has its children followed by
 * the kernel, so when a list has nobody new, nobody is missing.
 */
static int follow_target(struct kymop_kernel *kernel)
{
	int error = kymop_instance_write(&kernel->instance, "options/event-fork", "1");

	for (unsigned i = 0; !error && i < LISTS_MAX; i++) {
		found_count = 0;
		error = kymop_tasks_list(&kernel->tasks, follow, kernel);
		if (!found_count)
			break;
	}
	/* Older kernels cannot leave threads out. */
	for (unsigned i = 0; !error && i < KYMO_POSIX_STREAMS; i++)
		if (kymop_hidden[i])
			write_number(kernel, "set_event_notrace_pid", kymop_hidden[i]);
	return error;
}

/* Twice a lane: the kernel's records are not more than twice as long as ours. */
static int set_up(struct kymop_kernel *kernel, const struct kymop_stream *stream)
{
	bool is_tsc = stream->view.clock == KYMO_CLOCK_TSC;
	uint32_t ring_kb = stream->view.ring_bytes / 512;
	int error = kymop_instance_write(&kernel->instance, "trace_clock", is_tsc ? "x86-tsc" : "mono");

	if (!error)
		error = write_number(kernel, "buffer_size_kb", ring_kb < RING_KB_MIN ? RING_KB_MIN : ring_kb);
	if (!error)
		error = kymop_instance_write(&kernel->instance, "options/overwrite", "1");
	/* When a ring counts as ready for poll. Older kernels do not know it, and say so earlier. */
	write_number(kernel, "buffer_percent", 25);
	return error;
}

static int open_rings(struct kymop_kernel *kernel, uint32_t cpus)
{
	char path[64];

	for (uint32_t number = 0; number < cpus; number++) {
		struct cpu *cpu = &kernel->cpus[kernel->cpu_count];
		int fd;

		snprintf(path, sizeof(path), "per_cpu/cpu%u/trace_pipe_raw", number);
		fd = kymop_instance_open(&kernel->instance, path, O_RDONLY | O_NONBLOCK);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return kymop_tracefs_reason(errno);
		cpu->fd = fd;
		cpu->number = number;
		cpu->page = kernel->pages + (size_t)kernel->cpu_count * kernel->page_bytes;
		cpu->is_empty = true;
		kernel->cpu_count++;
	}
	kernel->switch_fd = kymop_instance_open(&kernel->instance, "tracing_on", O_WRONLY);
	if (kernel->switch_fd < 0)
		return kymop_tracefs_reason(errno);
	return kernel->cpu_count ? 0 : ENOTSUP;
}

static struct kymop_kernel *alloc(uint32_t cpus)
{
	size_t head = (sizeof(struct kymop_kernel) + cpus * sizeof(struct cpu) + 4095) & ~(size_t)4095;
	long page = sysconf(_SC_PAGESIZE);
	uint32_t page_bytes = page > (long)PAGE_BYTES_MIN ? (uint32_t)page : PAGE_BYTES_MIN;
	struct kymop_kernel *kernel;
	size_t bytes;

	if (page_bytes > PAGE_BYTES_MAX)
		page_bytes = PAGE_BYTES_MAX;
	bytes = head + (size_t)cpus * page_bytes;
	kernel = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (kernel == MAP_FAILED)
		return NULL;
	kernel->alloc_bytes = bytes;
	kernel->page_bytes = page_bytes;
	kernel->cpus = (struct cpu *)(void *)(kernel + 1);
	kernel->pages = (uint8_t *)kernel + head;
	kernel->switch_fd = -1;
	return kernel;
}

static void close_all(struct kymop_kernel *kernel)
{
	for (uint32_t i = 0; i < kernel->cpu_count; i++)
		close(kernel->cpus[i].fd);
	if (kernel->switch_fd >= 0)
		close(kernel->switch_fd);
	kymop_tasks_free(&kernel->tasks);
}

static int prepare(struct kymop_kernel *kernel, const struct kymop_stream *stream, uint32_t cpus)
{
	static const uint32_t nothing[(KYMOP_EVENTS + 31) / 32];
	int error = read_formats(kernel);

	if (!error)
		error = set_up(kernel, stream);
	if (!error)
		error = open_rings(kernel, cpus);
	if (!error)
		error = kymop_tasks_make(&kernel->tasks, (uint32_t)stream->target, stream->view.is_inherited);
	if (!error)
		error = follow_target(kernel);
	for (uint32_t i = 0; i < kernel->cpu_count; i++)
		kernel->cpus[i].stamp_last = stream->base.stamp;
	return error ? error : kymop_kernel_filter(kernel, nothing);
}

int kymop_kernel_make(struct kymop_stream *stream)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t cpus = count < 1 ? 1 : count > CPUS_MAX ? CPUS_MAX : (uint32_t)count;
	struct kymop_kernel *kernel;
	struct stat space;
	int error;

	if (stat("/proc/self/ns/pid", &space) || space.st_ino != FIRST_PID_NAMESPACE)
		return ENOTSUP;
	kernel = alloc(cpus);
	if (!kernel)
		return ENOMEM;
	kernel->kinds = (uint32_t)stream->attr.kymo__kernel & KYMOP_KERNEL_KINDS;
	error = kymop_instance_make(&kernel->instance);
	if (error) {
		munmap(kernel, kernel->alloc_bytes);
		return error;
	}
	kymop_kernels[stream->slot] = stream->kernel = kernel;
	error = prepare(kernel, stream, cpus);
	if (error)
		kymop_kernel_free(stream);
	return error;
}

void kymop_kernel_free(struct kymop_stream *stream)
{
	struct kymop_kernel *kernel = stream->kernel;

	stream->kernel = kymop_kernels[stream->slot] = NULL;
	close_all(kernel);
	kymop_instance_remove(&kernel->instance);
	munmap(kernel, kernel->alloc_bytes);
}

/* Only system calls: a handler may have forked. */
void kymop_kernel_after_fork(void)
{
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		struct kymop_kernel *kernel = kymop_kernels[slot];

		kymop_hidden[slot] = 0;
		kymop_kernels[slot] = NULL;
		if (!kernel)
			continue;
		close_all(kernel);
		kymop_instance_leave(&kernel->instance);
		munmap(kernel, kernel->alloc_bytes);
	}
}

void kymop_kernel_hide(uint32_t thread, bool is_hidden)
{
	uint32_t from = is_hidden ? 0 : thread, place = 0;

	while (place < KYMO_POSIX_STREAMS && kymop_hidden[place] != from)
		place++;
	if (place == KYMO_POSIX_STREAMS)
		return;
	kymop_hidden[place] = is_hidden ? thread : 0;
	for (uint32_t slot = 0; is_hidden && slot < KYMO_POSIX_STREAMS; slot++)
		if (kymop_kernels[slot])
			write_number(kymop_kernels[slot], "set_event_notrace_pid", thread);
}

void kymop_kernel_run(struct kymop_kernel *kernel, bool is_running)
{
	ssize_t written;

	/* Threads that were made while nothing was recorded; before, so that it is not in the stream. */
	if (is_running)
		kymop_tasks_list(&kernel->tasks, NULL, NULL);
	written = pwrite(kernel->switch_fd, is_running ? "1" : "0", 1, 0);
	(void)written; /* of an open file of an instance that is ours it does not fail */
}

void kymop_kernel_clear(struct kymop_kernel *kernel)
{
	kernel->clear_before = kymop_clock_ordered(kymop_clock_kind());
	kernel->has_loss = false;
}

/* A quarter of a ring is full. */
bool kymop_kernel_is_due(const struct kymop_kernel *kernel)
{
	struct pollfd ready[POLL_COUNT];

	for (uint32_t from = 0; from < kernel->cpu_count; from += POLL_COUNT) {
		uint32_t count = kernel->cpu_count - from;

		count = count < POLL_COUNT ? count : POLL_COUNT;
		for (uint32_t i = 0; i < count; i++)
			ready[i] = (struct pollfd){ .fd = kernel->cpus[from + i].fd, .events = POLLIN };
		if (poll(ready, count, 0) > 0)
			return true;
	}
	return false;
}
#else
typedef int kymop_no_kernel; /* a file must not be empty */
#endif
