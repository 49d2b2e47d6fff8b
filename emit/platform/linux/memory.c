/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c: the memory of streams [posix.md 3.1, 5]: made by the controller as a file in the
 * directory, mapped by whoever writes into it, when its first event comes. A controller holds a
 * lock of the kernel's on the file: it ends with the process or its program, however that ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stdlib.h>

#include "linux.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LOCKED_LANES_RSEQ 2u
#define LOCKED_LANES_PORTABLE 8u
#define CPUS_MAX 4096u

union kymop_header kymop_headers[KYMO_POSIX_STREAMS];
intptr_t kymop_rseq_offset, kymop_thread_offset;

/* What this process has mapped of a slot's stream. */
struct attached {
	struct kymop_view view;
	uint8_t *mapped;
	size_t mapped_bytes;
	uint32_t users; /* writers inside, out of line */
	int file;	/* of our own stream; else -1 */
	uint32_t is_busy;
};
static struct attached attached[KYMO_POSIX_STREAMS];

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void kymop_memory_init(void)
{
#if KYMO_ARCH_X86_64
	const char *ring = secure_getenv("KYMO_RING");

	if (kymop_clock_kind() == KYMO_CLOCK_TSC && (!ring || strcmp(ring, "portable")) &&
	    &__rseq_size && &__rseq_offset && __rseq_size &&
	    !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ))
		kymop_rseq_offset = __rseq_offset;
#endif
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++)
		attached[slot].file = -1;
}

/*
 * Control blocks of one stream do not stand where those of another do within their pages: a load
 * would wait for a store to the other, of which it knows the low bits only.
 */
#define SKEW_BYTES 256u
#define BEGIN_BYTES 448u

static size_t control_bytes(uint32_t lane_count)
{
	return (lane_count * sizeof(struct kymo_ring) + KYMO_POSIX_STREAMS * SKEW_BYTES + 4095) &
	       ~(size_t)4095;
}

static bool is_sane(const struct kymop_shared *header, off_t file_bytes)
{
	uint32_t ring = header->ring_bytes;

	return header->magic == KYMOP_MAGIC && header->generation && header->lane_count >= 2 &&
	       header->lane_count <= CPUS_MAX + 16 && header->cpu_count < header->lane_count &&
	       ring >= KYMO_RING_BYTES_MIN && ring <= KYMO_RING_BYTES_MAX && !(ring & (ring - 1)) &&
	       header->data_max <= KYMO_POSIX_DATA_BYTES_MAX &&
	       header->memory_bytes == KYMOP_HEADER_BYTES + control_bytes(header->lane_count) +
					       (uint64_t)header->lane_count * ring &&
	       (uint64_t)file_bytes == header->memory_bytes;
}

/* Control blocks, then each lane's bytes twice in a row: every record is contiguous. */
static bool map_lanes(int fd, const struct kymop_shared *header, uint32_t slot)
{
	size_t control = control_bytes(header->lane_count), ring = header->ring_bytes;
	size_t bytes = control + 2 * ring * header->lane_count;
	struct attached *to = &attached[slot];
	uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool is_good;

	if (at == MAP_FAILED)
		return false;
	is_good = mmap(at, control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		       KYMOP_HEADER_BYTES) != MAP_FAILED;
	for (uint32_t lane = 0; is_good && lane < header->lane_count; lane++)
		for (unsigned copy = 0; is_good && copy < 2; copy++)
			is_good = mmap(at + control + (2 * lane + copy) * ring, ring,
				       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
				       (off_t)(KYMOP_HEADER_BYTES + control + lane * ring)) !=
				  MAP_FAILED;
	if (!is_good) {
		munmap(at, bytes);
		return false;
	}
	/* A first record must not wait for the kernel to find a page. */
	madvise(at, bytes, MADV_POPULATE_WRITE);
	to->mapped = at;
	to->view.rings = (struct kymo_ring *)(void *)(at + slot * SKEW_BYTES);
	to->view.data = at + control;
	to->view.stride = 2 * ring;
	to->mapped_bytes = bytes;
	return true;
}

/* What sequences look at. cpu_count last: before, they find no lanes. */
static void publish(uint32_t slot)
{
	const struct kymop_shared *header = kymop_shared(slot);
	struct kymo_slot *to = &kymop_slots.slot[slot];
	bool has_sequence = header->cpu_count && kymop_rseq_offset &&
			    header->clock == KYMO_CLOCK_TSC;

	to->room = header->ring_bytes - KYMO_STORE_PAST;
	to->mask = header->ring_bytes - 1;
	to->id_offset = 0;
	to->stride = attached[slot].view.stride;
	to->data_offset = (uint64_t)(attached[slot].view.data - (uint8_t *)attached[slot].view.rings);
	to->serial = header->generation;
	to->thread_offset = kymop_thread_offset;
	to->rseq_offset = has_sequence ? kymop_rseq_offset : 0;
	__atomic_store_n(&to->rings, attached[slot].view.rings, __ATOMIC_RELEASE);
	__atomic_store_n(&to->cpu_count, has_sequence ? header->cpu_count : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&kymop_slots.generation[slot], header->generation, __ATOMIC_RELEASE);
}

/*
 * Takes a stream out of this process. Where a writer is still inside, for however long, the memory
 * stays mapped: nobody waits for it.
 */
static void detach(uint32_t slot)
{
	struct attached *from = &attached[slot];

	__atomic_store_n(&kymop_slots.generation[slot], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&kymop_slots.slot[slot].cpu_count, 0, __ATOMIC_SEQ_CST);
	if (!from->mapped_bytes)
		return;
	if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) &&
	    !__atomic_load_n(&from->users, __ATOMIC_SEQ_CST))
		munmap(from->mapped, from->mapped_bytes);
	from->mapped_bytes = 0;
}

/* The header goes to its place, and the lanes somewhere. */
static bool attach_file(uint32_t slot, int fd, uint32_t generation)
{
	struct stat info;
	struct kymop_shared *header;

	if (fstat(fd, &info) || info.st_size < (off_t)KYMOP_HEADER_BYTES)
		return false;
	detach(slot);
	header = kymop_map(fd, KYMOP_HEADER_BYTES, &kymop_headers[slot]);
	return header && header->generation == generation && is_sane(header, info.st_size) &&
	       map_lanes(fd, header, slot);
}

static void leave(uint32_t slot)
{
	__atomic_fetch_or(&kymop_page.idle, 1u << slot, __ATOMIC_SEQ_CST);
}

/* The first event of a stream in this process: its memory is mapped. One thread does it. */
static bool attach_first(uint32_t slot, uint32_t generation)
{
	struct attached *to = &attached[slot];
	uint32_t self = (uint32_t)syscall(SYS_gettid), nobody = 0;
	bool is_good;
	int fd;

	while (!__atomic_compare_exchange_n(&to->is_busy, &nobody, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (nobody == self) /* a handler that interrupted it */
			return false;
		nobody = 0;
		sched_yield();
	}
	is_good = kymop_slots.generation[slot] == generation;
	if (!is_good) {
		fd = kymop_dir_open('s', slot, 0);
		is_good = fd >= 0 && attach_file(slot, fd, generation);
		if (fd >= 0)
			close(fd);
		if (is_good)
			publish(slot);
		else
			leave(slot);
	}
	__atomic_store_n(&to->is_busy, 0, __ATOMIC_RELEASE);
	return is_good;
}

static bool hold(uint32_t slot, uint32_t generation, struct kymop_view *view)
{
	__atomic_fetch_add(&attached[slot].users, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&kymop_slots.generation[slot], __ATOMIC_SEQ_CST) != generation) {
		kymop_release(slot);
		return false;
	}
	*view = attached[slot].view;
	return true;
}

bool kymop_attach(uint32_t slot, struct kymop_view *view)
{
	int saved_errno = errno;
	uint32_t generation;
	bool is_held = false;

	if (!kymop_process_ready())
		goto out;
	kymop_self_pid();
	if (__atomic_load_n(&kymop_page.idle, __ATOMIC_ACQUIRE) >> slot & 1)
		goto out;
	generation = __atomic_load_n(&kymop_page.generation[slot], __ATOMIC_ACQUIRE);
	is_held = hold(slot, generation, view) ||
		  (attach_first(slot, generation) && hold(slot, generation, view));
	if (is_held && kymop_state_of(__atomic_load_n(&kymop_shared(slot)->state,
						      __ATOMIC_ACQUIRE)) == KYMOP_DEAD) {
		leave(slot);
		kymop_release(slot);
		is_held = false;
	}
out:
	errno = saved_errno;
	return is_held;
}

void kymop_release(uint32_t slot)
{
	__atomic_fetch_sub(&attached[slot].users, 1, __ATOMIC_SEQ_CST);
}

/* In a new child: the streams in kept go on, the others are not mapped for writing any more. */
void kymop_memory_after_fork(uint32_t kept)
{
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		attached[slot].users = 0;
		attached[slot].is_busy = 0;
		if (attached[slot].file >= 0)
			close(attached[slot].file);
		attached[slot].file = -1;
		if (!attached[slot].mapped_bytes)
			continue;
		if (kept >> slot & 1)
			publish(slot);
		else
			detach(slot);
	}
}

/* Looked at without being attached; false where the stream is gone. */
static bool look_at(uint32_t slot, struct kymop_shared *copy, off_t *bytes)
{
	int fd = kymop_dir_open('s', slot, 0);
	struct stat info;
	bool is_read;

	if (fd < 0)
		return false;
	is_read = !fstat(fd, &info) && pread(fd, copy, sizeof(*copy), 0) == sizeof(*copy);
	*bytes = info.st_size;
	close(fd);
	return is_read && is_sane(copy, *bytes);
}

bool kymop_stream_is_inherited(uint32_t slot)
{
	struct kymop_shared *header = kymop_shared(slot), copy;
	off_t bytes;

	if (header->magic != KYMOP_MAGIC || header->generation != kymop_page.generation[slot]) {
		if (!look_at(slot, &copy, &bytes) ||
		    copy.generation != kymop_page.generation[slot])
			return false;
		header = &copy;
	}
	return KYMO_POSIX_INHERIT && header->is_inherited;
}

/* Streams that were made for this process before it was known. */
void kymop_join_own_streams(void)
{
	struct kymop_shared copy;
	off_t bytes;

	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		if (!look_at(slot, &copy, &bytes) || copy.target != getpid() ||
		    copy.target_start != kymop_own_start() ||
		    kymop_state_of(copy.state) == KYMOP_DEAD)
			continue;
		kymop_page.generation[slot] = copy.generation;
		__atomic_fetch_and(&kymop_page.idle, ~(1u << slot), __ATOMIC_SEQ_CST);
	}
}

/* What follows: making a stream. Under kymop_lock. */

static uint32_t cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	if (!kymop_rseq_offset)
		return 0;
	return count < 1 ? 1 : count > (long)CPUS_MAX ? CPUS_MAX : (uint32_t)count;
}

static uint32_t ring_bytes_for(const trace_attr_t *attr)
{
	uint64_t data = attr->kymo__data_bytes + KYMOP_RECORD_BYTES;
	uint64_t bytes = KYMO_RING_BYTES_MIN;

	while (bytes - bytes / 16 - KYMO_STORE_PAST - data < attr->kymo__stream_bytes ||
	       bytes < 4 * data)
		bytes *= 2;
	return bytes > KYMO_RING_BYTES_MAX ? 0 : (uint32_t)bytes;
}

static bool fill_header(struct kymop_shared *header, const struct kymop_stream *stream, pid_t pid)
{
	uint32_t ring_bytes = ring_bytes_for(&stream->attr);

	if (!ring_bytes)
		return false;
	memset(header, 0, sizeof(*header));
	header->magic = KYMOP_MAGIC;
	header->cpu_count = cpus();
	header->lane_count = header->cpu_count + 1 +
			     (header->cpu_count ? LOCKED_LANES_RSEQ : LOCKED_LANES_PORTABLE);
	header->ring_bytes = ring_bytes;
	header->data_max = (uint32_t)stream->attr.kymo__data_bytes;
	header->clock = kymop_clock_kind();
	header->policy = stream->attr.kymo__stream_policy;
	header->is_inherited = stream->attr.kymo__inherited == 2;
	header->generation = (uint32_t)kymop_clock_read(KYMO_CLOCK_MONOTONIC) | 1;
	header->state = KYMOP_SUSPENDED;
	header->target = pid;
	header->target_start = pid == getpid() ? kymop_own_start() : kymop_process_start(pid);
	header->memory_bytes = KYMOP_HEADER_BYTES + control_bytes(header->lane_count) +
			       (uint64_t)header->lane_count * ring_bytes;
	return true;
}

/* Whether we may trace a process: it is there, and runs for the same user. */
static int check_target(pid_t pid)
{
	struct stat info;
	char path[32];

	if (kill(pid, 0))
		return errno == EPERM ? EPERM : ESRCH;
	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	if (!stat(path, &info) && info.st_uid != geteuid())
		return EPERM;
	return 0;
}

/* A stream whose controller has ended without shutting it down: its writers are told. */
static void bury(uint32_t slot, int fd)
{
	struct kymop_shared *header;
	struct stat info;

	if (!fstat(fd, &info) && info.st_size >= (off_t)KYMOP_HEADER_BYTES) {
		header = kymop_map(fd, KYMOP_HEADER_BYTES, NULL);
		if (header) {
			__atomic_store_n(&header->state, KYMOP_DEAD, __ATOMIC_SEQ_CST);
			kymop_wants_update(header);
			munmap(header, KYMOP_HEADER_BYTES);
		}
	}
	kymop_dir_unlink('s', slot);
}

/* Whether a slot has no stream, or had one whose controller is gone. Under the directory's lock. */
static bool slot_is_free(uint32_t slot)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	bool is_stale;
	int fd;

	/* A lock of our own would be lost with any descriptor of the file. */
	if (attached[slot].file >= 0)
		return false;
	fd = kymop_dir_open('s', slot, 0);
	if (fd < 0)
		return errno == ENOENT;
	is_stale = !fcntl(fd, F_GETLK, &whole) && whole.l_type == F_UNLCK;
	if (is_stale)
		bury(slot, fd);
	close(fd);
	return is_stale;
}

static int make_file(uint32_t slot, const struct kymop_shared *header)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = kymop_dir_open('s', slot, O_CREAT | O_EXCL);

	if (fd < 0)
		return -1;
	/* All of it now: a writer must not find later that there is none. */
	if (!fcntl(fd, F_SETLK, &whole) && !posix_fallocate(fd, 0, (off_t)header->memory_bytes) &&
	    pwrite(fd, header, sizeof(*header), 0) == sizeof(*header))
		return fd;
	close(fd);
	kymop_dir_unlink('s', slot);
	return -1;
}

/* The target's page says from now on that it may write. One that is not known yet looks itself. */
static void tell_target(const struct kymop_shared *header, uint32_t slot, bool is_member)
{
	struct kymop_page *page;
	struct stat info;
	int fd;

	if (header->target == getpid()) {
		page = &kymop_page;
	} else {
		fd = kymop_dir_open('p', (uint32_t)header->target, 0);
		page = fd >= 0 && !fstat(fd, &info) && info.st_size == sizeof(*page) ?
			       kymop_map(fd, sizeof(*page), NULL) : NULL;
		if (fd >= 0)
			close(fd);
		if (!page)
			return;
	}
	if (page->start == header->target_start && is_member) {
		__atomic_store_n(&page->generation[slot], header->generation, __ATOMIC_SEQ_CST);
		__atomic_fetch_and(&page->idle, ~(1u << slot), __ATOMIC_SEQ_CST);
	} else if (page->start == header->target_start &&
		   page->generation[slot] == header->generation) {
		__atomic_fetch_or(&page->idle, 1u << slot, __ATOMIC_SEQ_CST);
	}
	if (page != &kymop_page)
		munmap(page, sizeof(*page));
}

static int find_slot(uint32_t *slot)
{
	for (*slot = 0; *slot < KYMO_POSIX_STREAMS; ++*slot)
		if (slot_is_free(*slot))
			return 0;
	return EAGAIN;
}

static int attach_own(struct kymop_stream *stream, const struct kymop_shared *header)
{
	struct attached *to = &attached[stream->slot];
	size_t bytes = header->lane_count * sizeof(*stream->cursors);

	if (!attach_file(stream->slot, to->file, header->generation))
		return ENOMEM;
	stream->cursors = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stream->cursors == MAP_FAILED)
		return ENOMEM;
	stream->view = to->view;
	/* Streams with the same events are written at other places of their pages, and of the cache. */
	for (uint32_t lane = 0; lane < header->lane_count; lane++)
		to->view.rings[lane].head = to->view.rings[lane].tail = stream->slot * BEGIN_BYTES;
	publish(stream->slot);
	kymop_clock_begin(&stream->base, header->clock);
	if (header->target != getpid())
		return kymop_names_map(header->target, header->target_start, &stream->names);
	stream->names = kymop_own_names();
	return 0;
}

static void drop(struct kymop_stream *stream)
{
	uint32_t slot = stream->slot;

	detach(slot);
	if (stream->cursors && stream->cursors != MAP_FAILED)
		munmap(stream->cursors, kymop_shared(slot)->lane_count * sizeof(*stream->cursors));
	if (stream->names && stream->names != kymop_own_names())
		munmap(stream->names, sizeof(*stream->names));
	kymop_dir_unlink('s', slot);
	close(attached[slot].file);
	attached[slot].file = -1;
	/* Zeros: whoever looks at the slot now finds that nothing is wanted. */
	mmap(&kymop_headers[slot], KYMOP_HEADER_BYTES, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

int kymop_memory_make(struct kymop_stream *stream, pid_t pid)
{
	struct kymop_shared header;
	int error, lock;

	if (!pid)
		pid = getpid();
	error = pid < 0 ? ESRCH : check_target(pid);
	if (error)
		return error;
	if (!fill_header(&header, stream, pid))
		return ENOMEM;
	lock = kymop_dir_lock();
	if (lock < 0)
		return ENOMEM;
	kymop_dir_sweep();
	error = find_slot(&stream->slot);
	if (!error) {
		attached[stream->slot].file = make_file(stream->slot, &header);
		error = attached[stream->slot].file < 0 ? ENOMEM : 0;
	}
	close(lock);
	if (error)
		return error;
	error = attach_own(stream, &header);
	if (error) {
		drop(stream);
		return error;
	}
	tell_target(kymop_shared(stream->slot), stream->slot, true);
	return 0;
}

void kymop_stream_made(struct kymop_stream *stream)
{
	const struct kymop_shared *shared = kymop_shared(stream->slot);

	stream->attr.kymo__created.tv_sec = (time_t)(stream->base.real_ns / 1000000000u);
	stream->attr.kymo__created.tv_nsec = (long)(stream->base.real_ns % 1000000000u);
	stream->attr.kymo__stream_bytes = shared->ring_bytes - shared->ring_bytes / 16 -
					  KYMOP_RECORD_BYTES - KYMO_STORE_PAST - shared->data_max;
}

void kymop_memory_free(struct kymop_stream *stream)
{
	tell_target(kymop_shared(stream->slot), stream->slot, false);
	drop(stream);
}
