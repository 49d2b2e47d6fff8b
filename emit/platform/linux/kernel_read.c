/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel_read.c: events of the kernel as a stream gives them [posix.md 10]: they stay in the kernel's
 * rings until the stream is read; then the rings are merged, and each event becomes a record.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

#if KYMOP_KERNEL

KYMO_CHECK_SIZE(struct posix_trace_context_switch, 24);
KYMO_CHECK_SIZE(struct posix_trace_system_call_entry, KYMOP_KERNEL_DATA_MAX);
KYMO_CHECK_SIZE(struct posix_trace_system_call_exit, 16);
KYMO_CHECK_SIZE(struct posix_trace_lock_wait, 24);

void kymop_kernel_look(struct kymop_kernel *kernel)
{
	for (uint32_t i = 0; i < kernel->cpu_count; i++)
		kernel->cpus[i].is_empty = false;
}

static void note_loss(struct kymop_kernel *kernel, struct cpu *cpu)
{
	uint64_t behind = cpu->pages.time;

	cpu->has_missed = false;
	if (behind < kernel->clear_before)
		return;
	if (!kernel->has_loss || cpu->stamp_last < kernel->loss_before)
		kernel->loss_before = cpu->stamp_last;
	if (!kernel->has_loss || behind > kernel->loss_behind)
		kernel->loss_behind = behind;
	kernel->has_loss = true;
}

bool kymop_kernel_loss(struct kymop_kernel *kernel, uint64_t *before, uint64_t *behind)
{
	bool has_loss = kernel->has_loss;

	*before = kernel->loss_before;
	*behind = kernel->loss_behind;
	kernel->has_loss = false;
	return has_loss;
}

/* The next event of a ring. One that was found empty is read again after the next look. */
static void load(struct kymop_kernel *kernel, struct cpu *cpu)
{
	bool has_missed;
	ssize_t got;

	while (!(cpu->has_next = kymop_page_next(&cpu->pages)) && !cpu->is_empty) {
		got = read(cpu->fd, cpu->page, kernel->page_bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			cpu->is_empty = true;
			return;
		}
		kymop_page_begin(&cpu->pages, &kernel->layout, cpu->page, (size_t)got, &has_missed);
		cpu->has_missed |= has_missed;
		cpu->is_empty = cpu->pages.at == cpu->pages.end;
	}
	if (cpu->has_next && cpu->has_missed)
		note_loss(kernel, cpu);
}

static struct cpu *oldest(struct kymop_kernel *kernel)
{
	struct cpu *best = NULL;

	for (uint32_t i = 0; i < kernel->cpu_count; i++) {
		struct cpu *cpu = &kernel->cpus[i];

		if (!cpu->has_next)
			load(kernel, cpu);
		if (cpu->has_next && (!best || cpu->pages.time < best->pages.time))
			best = cpu;
	}
	return best;
}

bool kymop_kernel_peek(struct kymop_kernel *kernel, uint64_t *stamp)
{
	struct cpu *cpu = oldest(kernel);

	if (cpu)
		*stamp = cpu->pages.time;
	return cpu != NULL;
}

/* What the kernel wrote, while it is made into a record of the stream. */
struct raw {
	const struct kymop_pages *event;
	const struct format *format;
	uint32_t cpu;
	uint32_t thread, process;
};

static uint64_t get(const struct raw *raw, unsigned field)
{
	return kymop_field_get(raw->format->field[field], raw->event->data, raw->event->bytes);
}

/* With inheritance: whether the kernel has a thread among those that it records. */
static bool is_followed(const struct kymop_kernel *kernel, uint32_t thread)
{
	static char text[65536];
	char *at = text;

	if (!kernel->tasks.is_inherited ||
	    kymop_instance_read(&kernel->instance, "set_event_pid", text, sizeof(text)))
		return false;
	while (*at) {
		if (strtoul(at, &at, 10) == thread)
			return true;
		at += strcspn(at, "0123456789");
	}
	return false;
}

/* The process of a thread, 0 where it is not traced. False: nobody knows. */
static bool process_of(struct kymop_kernel *kernel, uint32_t thread, uint32_t *process)
{
	return kymop_tasks_know(&kernel->tasks, thread, process) ||
	       kymop_tasks_ask(&kernel->tasks, thread, is_followed(kernel, thread), process);
}

#ifndef CLONE_THREAD
#define CLONE_THREAD 0x00010000
#endif

static void take_new_task(struct kymop_kernel *kernel, const struct raw *raw)
{
	uint32_t made = (uint32_t)get(raw, 0), process;

	if (!process_of(kernel, raw->thread, &process))
		return;
	if (process && !(get(raw, 1) & CLONE_THREAD))
		process = kernel->tasks.is_inherited ? made : 0;
	kymop_tasks_set(&kernel->tasks, made, process);
}

/*
 * Our own reads of rings, which a process that traces itself would find at the end of each look: by
 * the address that they read to, and the exit behind.
 */
static bool is_own_read(struct kymop_kernel *kernel, const struct raw *raw, enum point point)
{
	struct kymop_field arg = raw->format->field[1];
	uint64_t to;

	/* Not getpid(): the call would be the next event. */
	if ((point != ENTRY && point != EXIT) || raw->process != kymop_self_pid())
		return false;
	if (kernel->reading == raw->thread) {
		kernel->reading = 0;
		if (point == EXIT)
			return get(raw, 0) == SYS_read;
	}
	if (point == EXIT || get(raw, 0) != SYS_read)
		return false;
	arg.bytes /= 6;
	arg.offset = (uint16_t)(arg.offset + arg.bytes);
	to = kymop_field_get(arg, raw->event->data, raw->event->bytes);
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		const struct kymop_kernel *source = kymop_kernels[slot];

		if (source && to - (uint64_t)(uintptr_t)source < source->alloc_bytes) {
			kernel->reading = raw->thread;
			return true;
		}
	}
	return false;
}

/* The letters of ps; 256 is the kernel's mark of a thread that was preempted. */
static void state_text(uint64_t state, char text[4])
{
	static const char letters[] = "SDTtXZPI";

	memset(text, 0, 4);
	if (!(state & 255)) {
		text[0] = 'R';
		text[1] = state & 256 ? '+' : 0;
	} else {
		text[0] = letters[__builtin_ctzll(state & 255)];
	}
}

static uint32_t fill_switch(const struct raw *raw, void *data)
{
	struct posix_trace_context_switch to = {
		.posix_cpu = (int32_t)raw->cpu,
		.posix_from = (int32_t)get(raw, 0),
		.posix_to = (int32_t)get(raw, 3),
		.posix_from_priority = (int32_t)get(raw, 1),
		.posix_to_priority = (int32_t)get(raw, 4),
	};

	state_text(get(raw, 2), to.posix_from_state);
	memcpy(data, &to, sizeof(to));
	return sizeof(to);
}

static uint32_t fill_entry(const struct raw *raw, void *data)
{
	struct posix_trace_system_call_entry to = { .posix_cpu = (int32_t)raw->cpu,
						    .posix_number = (int32_t)get(raw, 0) };
	struct kymop_field arg = raw->format->field[1];

	arg.bytes /= 6;
	for (unsigned i = 0; i < 6; i++, arg.offset = (uint16_t)(arg.offset + arg.bytes))
		to.posix_arguments[i] = kymop_field_get(arg, raw->event->data, raw->event->bytes);
	memcpy(data, &to, sizeof(to));
	return sizeof(to);
}

static uint32_t fill_exit(const struct raw *raw, void *data)
{
	struct posix_trace_system_call_exit to = { .posix_cpu = (int32_t)raw->cpu,
						   .posix_number = (int32_t)get(raw, 0),
						   .posix_result = (int64_t)get(raw, 1) };

	if (raw->format->field[1].bytes == 4)
		to.posix_result = (int32_t)to.posix_result;
	memcpy(data, &to, sizeof(to));
	return sizeof(to);
}

static uint32_t fill_wait(const struct raw *raw, bool is_end, void *data)
{
	struct posix_trace_lock_wait to = { .posix_lock = get(raw, 0), .posix_cpu = (int32_t)raw->cpu };

	if (is_end)
		to.posix_result = (int32_t)get(raw, 1);
	else
		to.posix_flags = (uint32_t)get(raw, 1);
	memcpy(data, &to, sizeof(to));
	return sizeof(to);
}

static bool is_hidden(uint32_t thread)
{
	for (unsigned i = 0; i < KYMO_POSIX_STREAMS; i++)
		if (kymop_hidden[i] == thread)
			return thread != 0;
	return false;
}

/*
 * Whose event it is. A switch is of the thread that goes, or of the one that comes where only that is
 * traced. False: of no traced process; *is_lost: nobody knows any more. The kernel records a switch
 * because one of the two is the target's: where that one is hidden, the other is a stranger, and no
 * loss if it has ended meanwhile. Threads of the target are known from the events that made them.
 */
static bool attribute(struct kymop_kernel *kernel, enum point point, struct raw *raw, bool *is_lost)
{
	uint32_t other = point == SWITCH ? (uint32_t)get(raw, 3) : 0, process;
	bool is_known = kymop_tasks_know(&kernel->tasks, raw->thread, &raw->process);
	bool goes_hidden = point == SWITCH && is_hidden(raw->thread), comes_hidden = is_hidden(other);

	*is_lost = false;
	if (goes_hidden) {
		is_known = true;
		raw->process = 0;
	}
	if (comes_hidden)
		other = 0;
	if (is_known && raw->process)
		return true;
	if (other && kymop_tasks_know(&kernel->tasks, other, &process) && process) {
		raw->thread = other;
		raw->process = process;
		return true;
	}
	if (!is_known)
		*is_lost = !process_of(kernel, raw->thread, &raw->process) && !comes_hidden;
	if (raw->process || !other)
		return raw->process != 0;
	if (!process_of(kernel, other, &process)) {
		*is_lost = !goes_hidden;
		return false;
	}
	raw->thread = other;
	raw->process = process;
	*is_lost &= !process;
	return process != 0;
}

static enum point point_of(const struct kymop_kernel *kernel, const struct kymop_pages *event)
{
	uint32_t type = (uint32_t)kymop_field_get(kernel->type, event->data, event->bytes);
	enum point point = 0;

	while (point < POINTS && !(kernel->formats[point].is_known && kernel->formats[point].type == type))
		point++;
	return point;
}

/* The event, or 0: it is not given. */
static uint32_t convert(struct kymop_kernel *kernel, struct raw *raw, enum point point, void *data)
{
	bool is_lost;

	if (!attribute(kernel, point, raw, &is_lost)) {
		if (is_lost && raw->event->time >= kernel->clear_before) {
			kernel->has_loss = true;
			kernel->loss_before = kernel->loss_behind = raw->event->time;
		}
		return 0;
	}
	if (is_own_read(kernel, raw, point) || raw->event->time < kernel->clear_before)
		return 0;
	switch (point) {
	case SWITCH:
		return fill_switch(raw, data);
	case ENTRY:
		return fill_entry(raw, data);
	case EXIT:
		return fill_exit(raw, data);
	default:
		return fill_wait(raw, point == WAIT_END, data);
	}
}

bool kymop_kernel_take(struct kymop_kernel *kernel, struct kymop_read *read, void *data,
		       uint32_t bytes)
{
	uint8_t made[KYMOP_KERNEL_DATA_MAX];
	struct cpu *cpu = oldest(kernel);
	enum point point;
	struct raw raw;
	uint32_t count;

	if (!cpu)
		return false;
	cpu->has_next = false;
	cpu->stamp_last = cpu->pages.time;
	point = point_of(kernel, &cpu->pages);
	if (point == POINTS)
		return false;
	raw = (struct raw){ .event = &cpu->pages, .format = &kernel->formats[point], .cpu = cpu->number,
			    .thread = (uint32_t)kymop_field_get(kernel->thread, cpu->pages.data,
								cpu->pages.bytes) };
	if (point == NEW_TASK) {
		take_new_task(kernel, &raw);
		return false;
	}
	count = convert(kernel, &raw, point, made);
	if (!count)
		return false;
	memset(read, 0, sizeof(*read));
	read->stamp = cpu->pages.time;
	read->record.word = read->stamp << 16 | kymop_points[point].id;
	read->record.pid = raw.process;
	read->record.thread_low = raw.thread;
	read->record.data_bytes = (uint16_t)count;
	read->stored_bytes = count;
	if (bytes)
		memcpy(data, made, bytes < count ? bytes : count);
	return true;
}
#else
typedef int kymop_no_kernel_read; /* a file must not be empty */
#endif
