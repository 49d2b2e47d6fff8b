/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * context.c: puts the contexts of a record together [context.md]. Called by the record path out of
 * line, with the slot held: no locks, no allocation; system calls where context.md says so.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "internal.h"

#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif
#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

/* Where tests let a signal handler run: emit/tests/kept.c. */
#ifndef KYMO_TEST_STOP
#define KYMO_TEST_STOP(place)
#endif

#define KNOWN_BITS                                                                                 \
	(KYMO_CONTEXT_VPID | KYMO_CONTEXT_PRIO | KYMO_CONTEXT_PRIO_NOW | KYMO_CONTEXT_CGROUP |     \
	 KYMO_CONTEXT_PROCNAME | KYMO_CONTEXT_PERF | KYMO_CONTEXT_CALLSTACK | KYMO_CONTEXT_COMPACT)
/* Compact records do not change, but direct.h has no sequence for them. */
#define CHANGING_BITS                                                                              \
	(KYMO_CONTEXT_PRIO_NOW | KYMO_CONTEXT_PERF | KYMO_CONTEXT_CALLSTACK | KYMO_CONTEXT_COMPACT)
#define KEPT_BUSY UINT64_MAX /* the serial of no memory */
#define BOTH_PRIOS ((uint32_t)(KYMO_CONTEXT_PRIO | KYMO_CONTEXT_PRIO_NOW))

/* sched_getattr(2), as far as it is needed; not all C libraries declare it. */
struct attr {
	uint32_t bytes, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

/* The number that LTTng's scheduler events show: the kernel's own, less 100. */
static int32_t prio_now(void)
{
	struct attr attr;

	memset(&attr, 0, sizeof(attr));
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0))
		return INT32_MIN;
	switch (attr.policy) {
	case SCHED_FIFO:
	case SCHED_RR:
		return -1 - (int32_t)attr.priority;
	case SCHED_DEADLINE:
		return -101;
	default:
		return 20 + attr.nice;
	}
}

static uint64_t inode_below(const char *root, const char *path)
{
	static char full[4200]; /* under kymo_lock */
	struct statfs filesystem;
	struct stat info;

	if (statfs(root, &filesystem) || filesystem.f_type != CGROUP2_SUPER_MAGIC)
		return 0;
	snprintf(full, sizeof(full), "%s%s", root, path);
	return stat(full, &info) ? 0 : info.st_ino;
}

/* The group of this process in the unified hierarchy, by its inode; 0 where that cannot be seen. */
static uint64_t read_cgroup(void)
{
	static char text[8192]; /* under kymo_lock */
	struct kymo_fd file = kymo_fd_keep(open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
	ssize_t got = file.number < 0 ? 0 : read(file.number, text, sizeof(text) - 1);
	char *line = text, *end;
	uint64_t inode;

	kymo_fd_close(&file);
	text[got > 0 ? got : 0] = 0;
	while (line && strncmp(line, "0::/", 4)) {
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (!line)
		return 0;
	line += 3;
	end = strchr(line, '\n');
	if (end)
		*end = 0;
	inode = inode_below("/sys/fs/cgroup", line);
	return inode ? inode : inode_below("/sys/fs/cgroup/unified", line);
}

/*
 * kymo_contexts_read: what the header of a mapped memory asks for, and what of it holds for the
 * whole process. Each word is read once: the collector is another process.
 * Context: under kymo_lock. Returns: 0; EPROTO for what is not known here, EOPNOTSUPP for what this
 * processor cannot.
 */
int kymo_contexts_read(struct kymo_contexts *contexts, const struct kymo_mem *header)
{
	uint32_t bits = __atomic_load_n(&header->contexts, __ATOMIC_RELAXED);
	uint32_t perf_count = __atomic_load_n(&header->perf_count, __ATOMIC_RELAXED);

	memset(contexts, 0, sizeof(*contexts));
	if (bits & ~(uint32_t)KNOWN_BITS || (bits & BOTH_PRIOS) == BOTH_PRIOS ||
	    perf_count > KYMO_PERF_MAX || !(bits & KYMO_CONTEXT_PERF) != !perf_count)
		return EPROTO;
	/* They are for processors with a sequence. */
	if (bits & KYMO_CONTEXT_COMPACT && !KYMO_ARCH_SEQUENCE)
		return EOPNOTSUPP;
	contexts->bits = bits;
	contexts->perf_count = perf_count;
	for (uint32_t i = 0; i < perf_count; i++) {
		contexts->perf[i].type = __atomic_load_n(&header->perf[i].type, __ATOMIC_RELAXED);
		contexts->perf[i].config = __atomic_load_n(&header->perf[i].config, __ATOMIC_RELAXED);
	}
	if (bits & KYMO_CONTEXT_CGROUP)
		contexts->cgroup = read_cgroup();
	if (bits & KYMO_CONTEXT_PROCNAME)
		kymo_read_comm(contexts->procname, sizeof(contexts->procname));
	if (bits & KYMO_CONTEXT_PERF)
		kymo_counters_prepare();
	return 0;
}

/* kymo_contexts_agree: whether records of both memories are laid out alike. */
bool kymo_contexts_agree(const struct kymo_contexts *one, const struct kymo_contexts *other)
{
	return one->bits == other->bits && one->perf_count == other->perf_count &&
	       !memcmp(one->perf, other->perf, sizeof(one->perf));
}

/* What a memory's serial is in a key: serials of different collectors differ in few bits. */
static uint64_t key_of(const struct kymo_memory *memory)
{
	return memory->serial * 0x9e3779b97f4a7c15u & ~(uint64_t)UINT16_MAX;
}

/* Whether what a thread knows is of this memory. */
static bool is_of(const struct kymo_thread_contexts *own, const struct kymo_memory *memory)
{
	return (own->key ^ key_of(memory)) <= UINT16_MAX;
}

/*
 * Keeps contexts that do not change as they stand in a record, for direct.h. A signal handler that comes
 * in between may record in another session that has the same place: it leaves the place alone. Should the
 * handler never return, the place is never used again: the thread's records go out of line.
 */
static void fix(struct kymo_self *self, uint32_t slot)
{
	struct kymo_fixed_contexts *fixed = &self->fixed[slot % KYMO_FIXED_MAX];
	uint8_t block[KYMO_CONTEXT_BYTES_MAX] = { 0 };
	uint32_t bytes = kymo_contexts_put(self, slot, NULL, block);

	if (bytes > KYMO_FIXED_BYTES_MAX || fixed->serial == KEPT_BUSY)
		return;
	__atomic_store_n(&fixed->serial, KEPT_BUSY, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy(&fixed->block, block, sizeof(fixed->block));
	KYMO_TEST_STOP(FIXED);
	fixed->bytes = bytes;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&fixed->serial, kymo_memories[slot].serial, __ATOMIC_RELAXED);
}

/*
 * kymo_contexts_thread: finds out what the calling thread keeps for a session. A signal handler
 * that comes in between does the same: who is last gives back what it opened.
 * Context: any, with the slot held; system calls.
 */
void kymo_contexts_thread(struct kymo_self *self, uint32_t slot)
{
	struct kymo_thread_contexts *own = &self->contexts[slot];
	const struct kymo_memory *memory = &kymo_memories[slot];
	uint32_t bits = memory->contexts.bits;
	uint64_t before = own->key;
	uint16_t counters = 0;

	if (is_of(own, memory))
		return;
	if (bits & KYMO_CONTEXT_PRIO)
		own->prio = prio_now();
	if (bits & KYMO_CONTEXT_PERF)
		counters = kymo_counters_open(self, slot);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!kymo__cas_local(&own->key, before, key_of(memory) | counters))
		kymo_counters_close(counters, self->tid);
	else if (!(bits & CHANGING_BITS))
		fix(self, slot);
}

static uint8_t *put(uint8_t *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

/*
 * kymo_contexts_put: writes the contexts of a record to to, KYMO_CONTEXT_BYTES_MAX at most. frame
 * is the frame of the function that the tracepoint called.
 * Context: any, with the slot held. Changes errno. Returns: bytes.
 */
uint32_t kymo_contexts_put(struct kymo_self *self, uint32_t slot, const void *frame, uint8_t *to)
{
	const struct kymo_contexts *contexts = &kymo_memories[slot].contexts;
	const struct kymo_thread_contexts *own = &self->contexts[slot];
	uint32_t bits = contexts->bits;
	uint8_t *at = to;

	if (KYMO__UNLIKELY(!is_of(own, &kymo_memories[slot])))
		kymo_contexts_thread(self, slot);
	if (bits & KYMO_CONTEXT_VPID)
		at = put(at, &self->pid, sizeof(self->pid));
	if (bits & BOTH_PRIOS) {
		int32_t prio = bits & KYMO_CONTEXT_PRIO ? own->prio : prio_now();

		at = put(at, &prio, sizeof(prio));
	}
	if (bits & KYMO_CONTEXT_CGROUP)
		at = put(at, &contexts->cgroup, sizeof(contexts->cgroup));
	if (bits & KYMO_CONTEXT_PROCNAME)
		at = put(at, contexts->procname, sizeof(contexts->procname));
	if (bits & KYMO_CONTEXT_PERF) {
		uint64_t values[KYMO_PERF_MAX];

		kymo_counters_read((uint16_t)own->key, contexts->perf_count, values);
		at = put(at, values, contexts->perf_count * sizeof(values[0]));
	}
	if (bits & KYMO_CONTEXT_CALLSTACK) {
		uint64_t addresses[KYMO_STACK_MAX];
		uint16_t count = (uint16_t)kymo_callstack(self, frame, addresses);

		at = put(at, &count, sizeof(count));
		at = put(at, addresses, count * sizeof(addresses[0]));
	}
	return (uint32_t)(at - to);
}
