/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c: maps the memory that a collector offers, each lane twice in a row, touches and locks
 * it. Every number is checked against the descriptor itself: the collector is another process
 * [session.md 4].
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif


/*
 * What a process may lock is the program's to use. So pages are locked where nothing counts: without
 * a limit, or with the right to pass over it.
 */
static bool may_lock(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { { 0 } };
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur == RLIM_INFINITY)
		return true;
	return !syscall(SYS_capget, &head, sets) && sets[0].effective & 1u << CAP_IPC_LOCK;
}

/*
 * kymo_touch: makes the pages present, locked where that takes nothing from the program. Returns
 * whether they are locked.
 * Context: helper thread or start-up; a portable lane's claim.
 */
bool kymo_touch(void *at, size_t bytes)
{
	if (may_lock() && !mlock(at, bytes))
		return true;
	if (madvise(at, bytes, MADV_POPULATE_WRITE))
		for (size_t i = 0; i < bytes; i += 4096)
			__atomic_fetch_add((uint8_t *)at + i, 0, __ATOMIC_RELAXED);
	return false;
}

/*
 * The file must not shrink under us: sealed so, or, where the rings are to survive the collector, an
 * ordinary file that nobody but this user can open [session.md 6].
 */
static bool may_be_mapped(int fd, const struct stat *info)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW))
		return true;
	return S_ISREG(info->st_mode) && info->st_nlink > 0 && !(info->st_mode & 077) &&
	       info->st_uid == geteuid();
}

/* kymo_memory_fits: the same for address space: a program that has a limit keeps half of what it has left. */
bool kymo_memory_fits(size_t mapped_bytes)
{
	unsigned long pages;
	struct rlimit limit;
	char text[128];
	uint64_t used;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return true;
	kymo_fd_read_text("/proc/self/statm", text, sizeof(text));
	pages = strtoul(text, NULL, 10);
	if (!pages)
		return false;
	used = (uint64_t)pages * 4096;
	return used < limit.rlim_cur && mapped_bytes <= (limit.rlim_cur - used) / 2;
}

/* The numbers must describe a memory that lies inside the file, and the file must not shrink. */
static int check(const struct kymo_msg_attach *attach, int fd)
{
	uint64_t ring_bytes = attach->ring_bytes;
	uint64_t control_end = (uint64_t)attach->rings_offset +
			       (uint64_t)attach->lane_count * sizeof(struct kymo_ring);
	struct stat info;

	if (attach->abi != KYMO_ABI_VERSION)
		return EPROTO;
	if (fstat(fd, &info))
		return errno;
	if (!may_be_mapped(fd, &info))
		return EPERM;
	if (ring_bytes < KYMO_RING_BYTES_MIN || ring_bytes > KYMO_RING_BYTES_MAX ||
	    (ring_bytes & (ring_bytes - 1)))
		return EINVAL;
	if (attach->lane_count < 2 || attach->lane_count > KYMO_LANES_MAX)
		return EINVAL;
	if (attach->kind == KYMO_KIND_PORTABLE && attach->lane_count > KYMO_CLAIMS_MAX)
		return EINVAL;
	if (attach->rings_offset < KYMO_MEM_HEADER_BYTES || attach->rings_offset % 128 ||
	    attach->data_offset % 4096 || control_end > attach->data_offset ||
	    attach->data_offset > attach->mem_bytes ||
	    attach->lane_count * ring_bytes > attach->mem_bytes - attach->data_offset)
		return EINVAL;
	if ((uint64_t)info.st_size < attach->mem_bytes)
		return EINVAL;
	return 0;
}

/* A lane's bytes twice in a row, in the room that was reserved for them. */
static int map_lane(const struct kymo_memory *memory, uint32_t lane, int fd)
{
	size_t bytes = memory->ring_bytes;
	uint8_t *to = memory->base + memory->control_bytes + lane * 2 * bytes;
	off_t offset = (off_t)(memory->control_bytes + lane * bytes);

	for (int half = 0; half < 2; half++)
		if (mmap(to + (size_t)half * bytes, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
			return errno;
	return 0;
}

/* Whether a mapping can be doubled without its descriptor. Valgrind refuses that. */
static bool can_double(void)
{
	const size_t bytes = 4096;
	void *first = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *second = MAP_FAILED;

	if (first == MAP_FAILED)
		return false;
	second = mremap(first, 0, bytes, MREMAP_MAYMOVE);
	if (second != MAP_FAILED)
		munmap(second, bytes);
	munmap(first, bytes);
	return second != MAP_FAILED;
}

/* Each lane twice in a row. */
static int map_lanes(struct kymo_memory *memory, int fd)
{
	for (uint32_t lane = 0; lane < memory->lane_count; lane++) {
		int error = map_lane(memory, lane, fd);

		if (error)
			return error;
	}
	return 0;
}

/*
 * kymo_lane_claim: a portable lane's bytes twice in a row, for its first owner. They are doubled from
 * the mapping that is there: no descriptor is needed for it.
 * Context: any; system calls. Returns: 0; an errno value.
 */
int kymo_lane_claim(const struct kymo_memory *memory, uint32_t lane, uint8_t **data)
{
	size_t bytes = memory->ring_bytes;
	uint8_t *from = memory->base + memory->control_bytes + lane * bytes;
	uint8_t *to;
	int error;

	if (memory->lanes_are_doubled) {
		*data = memory->base + memory->control_bytes + lane * 2 * bytes;
		return 0;
	}
	to = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (to == MAP_FAILED)
		return errno;
	for (int half = 0; half < 2; half++)
		if (mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to + (size_t)half * bytes) == MAP_FAILED)
			goto fail;
	if (mprotect(to, 2 * bytes, PROT_READ | PROT_WRITE))
		goto fail;
	*data = to;
	return 0;
fail:
	error = errno;
	munmap(to, 2 * bytes);
	return error;
}

/* kymo_lane_give_back: what kymo_lane_claim made, when its session is over. */
void kymo_lane_give_back(const struct kymo_memory *memory, uint8_t *data)
{
	if (data && !memory->lanes_are_doubled)
		munmap(data, 2 * (size_t)memory->ring_bytes);
}

/*
 * The lanes of a portable memory are without access until they are claimed: a program that locks
 * all its memory must not pay for lanes that nobody uses.
 */
static int map_portable_lanes(struct kymo_memory *memory, int fd)
{
	size_t lanes_bytes = (size_t)memory->lane_count * memory->ring_bytes;

	if (memory->lanes_are_doubled)
		return map_lanes(memory, fd);
	if (mmap(memory->base + memory->control_bytes, lanes_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)memory->control_bytes) == MAP_FAILED)
		return errno;
	return 0;
}

static bool has_bit(const uint8_t *bits, uint32_t lane)
{
	return bits[lane / 8] & 1u << lane % 8;
}

static void touch_lane(struct kymo_memory *memory, uint32_t lane)
{
	size_t lane_bytes = 2 * (size_t)memory->ring_bytes;

	memory->locked &= kymo_touch(memory->base + memory->control_bytes + lane * lane_bytes, lane_bytes);
	memory->touched_bytes += memory->ring_bytes;
	memory->ready[lane / 8] |= (uint8_t)(1u << lane % 8);
}

/* kymo_memory_want: the collector asks for the pages of an rseq lane. */
void kymo_memory_want(struct kymo_memory *memory, uint32_t lane)
{
	if (lane >= memory->lane_count || !memory->lanes_are_doubled || has_bit(memory->ready, lane) ||
	    has_bit(memory->wanted, lane))
		return;
	memory->wanted[lane / 8] |= (uint8_t)(1u << lane % 8);
	memory->wanted_count++;
}

/*
 * kymo_memory_make_ready: touches one of the lanes that are asked for: the lock is not held for
 * longer. Returns whether there are others.
 */
bool kymo_memory_make_ready(struct kymo_memory *memory)
{
	uint32_t lane = 0;

	if (!memory->wanted_count)
		return false;
	while (!has_bit(memory->wanted, lane))
		lane++;
	memory->wanted[lane / 8] &= (uint8_t)~(1u << lane % 8);
	memory->wanted_count--;
	touch_lane(memory, lane);
	return memory->wanted_count > 0;
}

/* Touches the lanes of the CPUs that the program may run on. Of others the collector speaks later. */
static void touch_rseq_lanes(struct kymo_memory *memory)
{
	uint32_t flags = __atomic_load_n(&kymo_memory_header(memory)->flags, __ATOMIC_RELAXED);
	bool is_shared = flags & KYMO_MEM_SHARED;
	cpu_set_t may_run;

	/*
	 * The process's leader stands for all threads; its mask says where the program was meant to
	 * run.
	 */
	if (sched_getaffinity(getpid(), sizeof(may_run), &may_run))
		memset(&may_run, 0xff, sizeof(may_run));
	memory->locked = true;
	for (uint32_t lane = 0; lane < memory->lane_count; lane++) {
		/*
		 * The last lane is the spill lane: used by accident only, so it costs memory only
		 * then.
		 */
		if (lane + 1 == memory->lane_count || lane >= CPU_SETSIZE ||
		    !CPU_ISSET(lane, &may_run))
			continue;
		/*
		 * Of rings that others write already the pages are there: a short program need not
		 * map them all, which would cost it more than what it records.
		 */
		if (is_shared && __atomic_load_n(&memory->rings[lane].head, __ATOMIC_RELAXED)) {
			memory->locked = false;
			continue;
		}
		touch_lane(memory, lane);
	}
}

/* Overwrite mode is said in the header, which the collector wrote before. */
static int find_marks(struct kymo_memory *memory, const struct kymo_msg_attach *attach)
{
	uint64_t offset = __atomic_load_n(&kymo_memory_header(memory)->marks_offset, __ATOMIC_RELAXED);
	uint64_t end = offset + (uint64_t)attach->lane_count * sizeof(struct kymo_marks);

	if (!offset)
		return 0;
	if (offset < (uint64_t)attach->rings_offset + (uint64_t)attach->lane_count * sizeof(struct kymo_ring) ||
	    offset % sizeof(uint64_t) || end > attach->data_offset)
		return EINVAL;
	memory->marks = (struct kymo_marks *)(void *)(memory->base + offset);
	if (!(memory->contexts.bits & KYMO_CONTEXT_COMPACT))
		return 0;
	memory->places = (struct kymo_places *)(void *)(memory->base + end);
	end += (uint64_t)attach->lane_count * sizeof(struct kymo_places);
	return end > attach->data_offset ? EINVAL : 0;
}

/*
 * kymo_memory_map: maps what attach describes, and closes fd before it takes its time to make the
 * pages ready: the mappings need no descriptor.
 * Returns: 0; an errno value, with nothing left mapped.
 */
int kymo_memory_map(struct kymo_memory *memory, const struct kymo_msg_attach *attach,
		    struct kymo_fd *fd)
{
	bool portable = attach->kind == KYMO_KIND_PORTABLE;
	int error = check(attach, fd->number);
	void *at;

	memset(memory, 0, sizeof(*memory));
	if (error)
		return error;
	memory->lane_count = attach->lane_count;
	memory->ring_bytes = attach->ring_bytes;
	memory->serial = attach->serial;
	memory->control_bytes = attach->data_offset;
	memory->lanes_are_doubled = !portable || !can_double();
	memory->mapped_bytes = memory->control_bytes + (memory->lanes_are_doubled ? 2 : 1) *
			       (size_t)attach->ring_bytes * attach->lane_count;
	if (!kymo_memory_fits(memory->mapped_bytes))
		return ENOMEM;
	at = mmap(NULL, memory->mapped_bytes, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		goto fail_errno;
	memory->base = at;
	if (mmap(at, memory->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd->number, 0) == MAP_FAILED)
		goto fail_errno;
	error = portable ? map_portable_lanes(memory, fd->number) : map_lanes(memory, fd->number);
	kymo_fd_close(fd);
	if (error)
		goto fail;
	kymo_touch(at, memory->control_bytes);
	memory->rings = (struct kymo_ring *)(void *)(memory->base + attach->rings_offset);
	error = kymo_contexts_read(&memory->contexts, kymo_memory_header(memory));
	if (!error)
		error = find_marks(memory, attach);
	if (!error)
		error = kymo_block_agree(memory);
	if (error)
		goto fail;
	/* A core of the program has no rings: the collector has them, and empty lanes would be made for it. */
	madvise(memory->base + memory->control_bytes, memory->mapped_bytes - memory->control_bytes, MADV_DONTDUMP);
	/* The control blocks stay with a child, which counts there what it cannot record. */
	if (portable)
		madvise(memory->base + memory->control_bytes,
			memory->mapped_bytes - memory->control_bytes, MADV_DONTFORK);
	else
		touch_rseq_lanes(memory);
	return 0;
fail_errno:
	error = errno;
fail:
	kymo_memory_unmap(memory);
	return error;
}

/* kymo_memory_slot: what the record path needs to know of a mapped memory. */
struct kymo_slot kymo_memory_slot(const struct kymo_memory *memory, uint32_t kind)
{
	return (struct kymo_slot){
		.rings = memory->rings,
		.cpu_count = kind == KYMO_KIND_RSEQ ? memory->lane_count - 1 : memory->lane_count,
		.room = memory->ring_bytes - KYMO_STORE_PAST,
		.mask = memory->ring_bytes - 1,
		.stride = 2 * (uint64_t)memory->ring_bytes,
		.data_offset = (uint64_t)(memory->base + memory->control_bytes -
					  (uint8_t *)memory->rings),
		.serial = memory->serial,
		/* A flight recorder makes room; a writer that has agreed may wait for some. */
		.counts_full = !memory->marks && !memory->block_ns,
		.is_compact = !(memory->contexts.bits & KYMO_CONTEXT_COMPACT)	? 0 :
			      memory->contexts.bits == KYMO_CONTEXT_COMPACT ? 1 :
									      2,
	};
}

/* kymo_memory_leave: in a forked child, which has the control blocks of a portable memory only. */
void kymo_memory_leave(struct kymo_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->control_bytes);
	memset(memory, 0, sizeof(*memory));
}

/*
 * kymo_memory_unmap: after the fence of ring.md 5.3. Portable lanes are unmapped by portable.c
 * before.
 */
void kymo_memory_unmap(struct kymo_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->mapped_bytes);
	memset(memory, 0, sizeof(*memory));
}
