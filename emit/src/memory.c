/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c: maps the memory that a collector offers, each lane twice in a row, touches and locks
 * it. Every number is checked against the descriptor itself: the collector is another process
 * [session.md 4].
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct kymo_memory kymo_memories[KYMO_SLOTS];

/*
 * kymo_touch: makes the pages present, locked where the limits allow it. Returns whether they are
 * locked.
 * Context: helper thread or start-up; a portable lane's claim.
 */
bool kymo_touch(void *at, size_t bytes)
{
	if (!mlock(at, bytes))
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
	       (info->st_uid == geteuid() || info->st_uid == 0);
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

/*
 * kymo_lane_map: maps lane's bytes twice in a row, at at (2 * ring_bytes, reserved) or, where that
 * is null, anywhere.
 */
int kymo_lane_map(const struct kymo_memory *memory, uint32_t lane, uint8_t *at, uint8_t **data)
{
	size_t bytes = memory->ring_bytes;
	off_t offset = (off_t)(memory->data_offset + (uint64_t)lane * bytes);
	uint8_t *to = at;
	int error;

	if (!to)
		to = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);
	if (to == MAP_FAILED)
		return errno;
	for (int half = 0; half < 2; half++)
		if (mmap(to + (size_t)half * bytes, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, memory->fd, offset) == MAP_FAILED)
			goto fail;
	*data = to;
	return 0;
fail:
	error = errno;
	if (!at)
		munmap(to, 2 * bytes);
	return error;
}

/*
 * Maps all lanes behind the control blocks, touches those of the CPUs that the program may run on.
 */
static int map_rseq_lanes(struct kymo_memory *memory)
{
	uint32_t flags = __atomic_load_n(&kymo_memory_header(memory)->flags, __ATOMIC_RELAXED);
	size_t lane_bytes = 2 * (size_t)memory->ring_bytes;
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
		uint8_t *data;
		int error = kymo_lane_map(memory, lane,
					  memory->base + memory->control_bytes + lane * lane_bytes,
					  &data);

		if (error)
			return error;
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
		memory->locked &= kymo_touch(data, lane_bytes);
		memory->touched_bytes += memory->ring_bytes;
	}
	return 0;
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
	return 0;
}

/*
 * kymo_memory_map: maps what attach describes. Takes fd in any case.
 * Returns: 0; an errno value, with nothing left mapped.
 */
int kymo_memory_map(struct kymo_memory *memory, const struct kymo_msg_attach *attach, int fd)
{
	bool portable = attach->kind == KYMO_KIND_PORTABLE;
	int error = check(attach, fd);
	void *at;

	memset(memory, 0, sizeof(*memory));
	memory->fd = fd;
	if (error)
		goto fail;
	memory->lane_count = attach->lane_count;
	memory->ring_bytes = attach->ring_bytes;
	memory->data_offset = attach->data_offset;
	memory->serial = attach->serial;
	memory->control_bytes = attach->data_offset;
	memory->mapped_bytes = memory->control_bytes +
			       (portable ? 0 : 2 * (size_t)attach->ring_bytes * attach->lane_count);
	at = mmap(NULL, memory->mapped_bytes, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		goto fail_errno;
	memory->base = at;
	if (mmap(at, memory->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		goto fail_errno;
	kymo_touch(at, memory->control_bytes);
	memory->rings = (struct kymo_ring *)(void *)(memory->base + attach->rings_offset);
	error = find_marks(memory, attach);
	if (!error)
		error = kymo_contexts_read(&memory->contexts, kymo_memory_header(memory));
	if (!error)
		error = kymo_block_agree(memory);
	if (error)
		goto fail;
	if (portable) {
		madvise(at, memory->control_bytes, MADV_DONTFORK);
		return 0;
	}
	error = map_rseq_lanes(memory);
	if (error)
		goto fail;
	close(fd);
	memory->fd = -1;
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
	};
}

/*
 * kymo_memory_unmap: after the fence of ring.md 5.3. Portable lanes are unmapped by portable.c
 * before.
 */
void kymo_memory_unmap(struct kymo_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->mapped_bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	memset(memory, 0, sizeof(*memory));
	memory->fd = -1;
}
