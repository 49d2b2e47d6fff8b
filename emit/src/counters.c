/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * counters.c: perf counters as contexts [context.md]. A thread opens a set of them at its first
 * record in a session, and keeps it until one of the two ends. All sets stand in one table, so that
 * a forked child can close what it inherited. No locks: a set belongs to the thread in owner.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Threads and sessions with counters at one time; who comes later has zeros. */
#define SETS_MAX 512u
#define BUSY UINT32_MAX /* being opened or closed */
#define PAGE_BYTES 4096
#define READ_TRIES 64
/* glibc keeps the values of this many keys in the thread itself: setting one allocates nothing. */
#define KEYS_WITHOUT_MALLOC 32

struct set {
	uint32_t owner; /* thread id; 0: free */
	uint32_t slot;
	int32_t fd[KYMO_PERF_MAX];				/* -1: not to be had */
	uint64_t id[KYMO_PERF_MAX];				/* the kernel's, of the counter behind fd */
	const struct perf_event_mmap_page *page[KYMO_PERF_MAX]; /* null: read(2) */
};

static struct set sets[SETS_MAX];
static pthread_key_t exit_key;
static bool exit_key_usable;

static bool take(struct set *set, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&set->owner, &from, to, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/*
 * A program may have closed the descriptor, and have a file of its own there by now. All counters
 * have one inode; the kernel's id tells them apart, and no other file answers the question.
 */
static bool is_ours(const struct set *set, uint32_t i)
{
	uint64_t id;

	return set->fd[i] >= 0 && !syscall(SYS_ioctl, set->fd[i], PERF_EVENT_IOC_ID, &id) && id == set->id[i];
}

/* Of one that is BUSY. */
static void close_set(struct set *set)
{
	for (uint32_t i = 0; i < KYMO_PERF_MAX; i++) {
		if (set->page[i])
			munmap((void *)(uintptr_t)set->page[i], PAGE_BYTES);
		if (is_ours(set, i))
			syscall(SYS_close, set->fd[i]);
		set->page[i] = NULL;
		set->fd[i] = -1;
	}
	__atomic_store_n(&set->owner, 0, __ATOMIC_RELEASE);
}

static void thread_ends(void *value)
{
	struct kymo_self *self = value;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		uint16_t number = (uint16_t)self->contexts[slot].key;

		/* A record from a later destructor opens them again. */
		self->contexts[slot].key = 0;
		kymo_counters_close(number, self->tid);
	}
}

/* kymo_counters_prepare: before the first set. Context: under kymo_lock. */
void kymo_counters_prepare(void)
{
	static bool prepared;

	if (prepared)
		return;
	prepared = true;
	if (pthread_key_create(&exit_key, thread_ends))
		return;
	exit_key_usable = exit_key < KEYS_WITHOUT_MALLOC;
	if (!exit_key_usable)
		pthread_key_delete(exit_key);
}

static int open_counter(const struct kymo_perf *counter)
{
	struct perf_event_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = counter->type;
	attr.config = counter->config;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM)) {
		attr.exclude_kernel = attr.exclude_hv = 1;
		fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return kymo_fd_raise(fd);
}

/* The page by which the processor's counter can be read; null for counters of the kernel. */
static const struct perf_event_mmap_page *map_page(const struct kymo_perf *counter, int fd)
{
	void *page;

	if (!KYMO_ARCH_X86_64 || fd < 0 || counter->type == PERF_TYPE_SOFTWARE)
		return NULL;
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

/* A set that is BUSY with us; null where all are in use. */
static struct set *find_set(void)
{
	for (struct set *set = sets; set < sets + SETS_MAX; set++)
		if (!__atomic_load_n(&set->owner, __ATOMIC_RELAXED) && take(set, 0, BUSY))
			return set;
	/* Those of threads that ended unseen. */
	for (struct set *set = sets; set < sets + SETS_MAX; set++) {
		uint32_t owner = __atomic_load_n(&set->owner, __ATOMIC_RELAXED);

		if (!owner || owner == BUSY || !syscall(SYS_tgkill, getpid(), owner, 0) ||
		    errno != ESRCH || !take(set, owner, BUSY))
			continue;
		close_set(set);
		if (take(set, 0, BUSY))
			return set;
	}
	return NULL;
}

/*
 * kymo_counters_open: the counters of a slot for the calling thread.
 * Context: any, with the slot held; system calls. Returns: the set's number; 0 where none is free.
 */
uint16_t kymo_counters_open(struct kymo_self *self, uint32_t slot)
{
	const struct kymo_contexts *contexts = &kymo_memories[slot].contexts;
	struct set *set = find_set();

	if (!set)
		return 0;
	set->slot = slot;
	for (uint32_t i = 0; i < KYMO_PERF_MAX; i++) {
		set->fd[i] = i < contexts->perf_count ? open_counter(&contexts->perf[i]) : -1;
		if (set->fd[i] >= 0 && syscall(SYS_ioctl, set->fd[i], PERF_EVENT_IOC_ID, &set->id[i])) {
			close(set->fd[i]); /* a kernel before 3.12 */
			set->fd[i] = -1;
		}
		set->page[i] = map_page(&contexts->perf[i], set->fd[i]);
	}
	__atomic_store_n(&set->owner, self->tid, __ATOMIC_RELEASE);
	if (exit_key_usable)
		pthread_setspecific(exit_key, self);
	return (uint16_t)(set - sets + 1);
}

/* kymo_counters_close: gives back a set of the thread tid, unless somebody else has done so. */
void kymo_counters_close(uint16_t number, uint32_t tid)
{
	if (number && take(&sets[number - 1], tid, BUSY))
		close_set(&sets[number - 1]);
}

#if KYMO_ARCH_X86_64
/*
 * The value by the processor's own instruction. The kernel changes the page under its counter lock.
 * Returns false where the event is not on the processor now, or must not be read so.
 */
static bool read_by_processor(const struct perf_event_mmap_page *page, uint64_t *value)
{
	for (int tries = 0; tries < READ_TRIES; tries++) {
		uint32_t lock = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		uint32_t index = __atomic_load_n(&page->index, __ATOMIC_RELAXED);
		unsigned shift = 64u - __atomic_load_n(&page->pmc_width, __ATOMIC_RELAXED);
		int64_t offset = __atomic_load_n(&page->offset, __ATOMIC_RELAXED);
		uint32_t low, high;

		if (!page->cap_user_rdpmc || !index || shift > 63)
			return false;
		__asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != lock)
			continue;
		*value = (uint64_t)(offset +
				    ((int64_t)(((uint64_t)high << 32 | low) << shift) >> shift));
		return true;
	}
	return false;
}
#else
static bool read_by_processor(const struct perf_event_mmap_page *page, uint64_t *value)
{
	(void)page, (void)value;
	return false;
}
#endif

/* kymo_counters_read: values of a set, zeros where there is none. Context: any; system calls. */
void kymo_counters_read(uint16_t number, uint32_t count, uint64_t *values)
{
	for (uint32_t i = 0; i < count; i++) {
		struct set *set = number ? &sets[number - 1] : NULL;

		values[i] = 0;
		if (!set || (set->page[i] && read_by_processor(set->page[i], &values[i])) ||
		    set->fd[i] < 0)
			continue;
		/* A bare system call: read(3) is a place where threads are cancelled, and a tracepoint is none. */
		if (!is_ours(set, i) ||
		    syscall(SYS_read, set->fd[i], &values[i], sizeof(values[i])) != sizeof(values[i])) {
			/* It is not ours any more: somebody has closed it. */
			values[i] = 0;
			set->fd[i] = -1;
		}
	}
}

/* kymo_counters_end: the session of the slot is over, and nobody is inside. */
void kymo_counters_end(uint32_t slot)
{
	for (struct set *set = sets; set < sets + SETS_MAX; set++) {
		uint32_t owner = __atomic_load_n(&set->owner, __ATOMIC_ACQUIRE);

		if (owner && owner != BUSY && set->slot == slot && take(set, owner, BUSY))
			close_set(set);
	}
}

/* kymo_counters_forget: in a new child, which has the descriptors of its parent's counters, but not their pages. */
void kymo_counters_forget(void)
{
	for (struct set *set = sets; set < sets + SETS_MAX; set++) {
		if (!set->owner)
			continue;
		memset(set->page, 0, sizeof(set->page));
		close_set(set);
	}
}
