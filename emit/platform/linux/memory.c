/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c: the memory of streams [posix.md 3.1, 5]: made by the controller as a file in the
 * directory; who writes into it maps it (attach.c), when its first event comes. A controller holds a
 * lock of the kernel's on the file: it ends with the process or its program, however that ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stdlib.h>

#include "linux.h"

#if KYMOP_ACTIVE

#define LOCKED_LANES_RSEQ 2u
#define LOCKED_LANES_PORTABLE 8u
#define BEGIN_BYTES 448u

/* In a new child, which controls nothing. */
void kymop_memory_after_fork(void)
{
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		if (kymop_own_files[slot])
			close(kymop_own_file(slot));
		kymop_own_files[slot] = 0;
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
	return is_read && kymop_is_sane(copy, *bytes);
}

bool kymop_stream_is_inherited(uint32_t slot)
{
	const struct kymop_view *view = kymop_current_view(slot);
	uint32_t generation = kymop_page.generation[slot];
	struct kymop_shared copy;
	off_t bytes;

	if (!KYMO_POSIX_INHERIT)
		return false;
	if (view && view->generation == generation)
		return view->is_inherited;
	return look_at(slot, &copy, &bytes) && copy.is_inherited && copy.generation == generation;
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
	return count < 1 ? 1 : count > (long)KYMOP_CPUS_MAX ? KYMOP_CPUS_MAX : (uint32_t)count;
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
	header->memory_bytes = KYMOP_HEADER_BYTES + kymop_control_bytes(header->lane_count) +
			       (uint64_t)header->lane_count * ring_bytes;
	return true;
}

/* The user that a process runs for. Its directory in /proc is root's where it has changed its user. */
static bool user_of(pid_t pid, uint32_t *user)
{
	char path[32], text[2048];
	char *at;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	at = strstr(text, "\nUid:\t"); /* real, then effective */
	at = at ? strchr(at + 6, '\t') : NULL;
	if (at)
		*user = (uint32_t)strtoul(at, NULL, 10);
	return at != NULL;
}

/* Whether we may trace a process: it is there, and runs for the same user. */
static int check_target(pid_t pid)
{
	uint32_t user;

	if (pid == getpid())
		return 0;
	if (kill(pid, 0))
		return errno == EPERM ? EPERM : ESRCH;
	return user_of(pid, &user) && user != geteuid() ? EPERM : 0;
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
	if (kymop_own_files[slot])
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
static void tell_target(const struct kymop_stream *stream, bool is_member)
{
	uint32_t slot = stream->slot, generation = stream->view.generation;
	struct kymop_page *page;
	struct stat info;
	int fd;

	if (stream->target == getpid()) {
		page = &kymop_page;
	} else {
		fd = kymop_dir_open('p', (uint32_t)stream->target, 0);
		page = fd >= 0 && !fstat(fd, &info) && info.st_size == sizeof(*page) ?
			       kymop_map(fd, sizeof(*page), NULL) : NULL;
		if (fd >= 0)
			close(fd);
		if (!page)
			return;
	}
	if (page->start == stream->target_start && is_member) {
		__atomic_store_n(&page->generation[slot], generation, __ATOMIC_SEQ_CST);
		__atomic_fetch_and(&page->idle, ~(1u << slot), __ATOMIC_SEQ_CST);
	} else if (page->start == stream->target_start &&
		   __atomic_load_n(&page->generation[slot], __ATOMIC_SEQ_CST) == generation) {
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

/* The controller's view of what it has made; and, of its own process, that of its writers. */
static int map_own(struct kymop_stream *stream, const struct kymop_shared *header)
{
	size_t bytes = header->lane_count * sizeof(*stream->cursors);
	int fd = kymop_own_file(stream->slot);

	stream->cursors = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stream->cursors == MAP_FAILED) {
		stream->cursors = NULL;
		return ENOMEM;
	}
	if (!kymop_map_own(stream->slot, fd, header->generation, &stream->view)) {
		munmap(stream->cursors, bytes);
		stream->cursors = NULL;
		return ENOMEM;
	}
	/* Streams with the same events are written at other places of their pages, and of the cache. */
	for (uint32_t lane = 0; lane < header->lane_count; lane++)
		stream->view.rings[lane].head = stream->view.rings[lane].tail =
			stream->slot * BEGIN_BYTES;
	if (header->target == getpid() && !kymop_join(stream->slot, fd, &stream->view))
		return ENOMEM;
	kymop_clock_begin(&stream->base, header->clock);
	if (header->target != getpid())
		return kymop_names_map(header->target, header->target_start, &stream->names);
	stream->names = kymop_own_names();
	return 0;
}

static void drop(struct kymop_stream *stream)
{
	uint32_t slot = stream->slot;

	if (stream->cursors) {
		munmap(stream->cursors, stream->view.lane_count * sizeof(*stream->cursors));
		kymop_unmap_own(slot, &stream->view);
	}
	if (stream->names && stream->names != kymop_own_names())
		munmap(stream->names, sizeof(*stream->names));
	/* Not one of that number in another user's directory. */
	if (stream->owner == kymop_dir_owner())
		kymop_dir_unlink('s', slot);
	close(kymop_own_file(slot));
	kymop_own_files[slot] = 0;
}

int kymop_memory_make(struct kymop_stream *stream, pid_t pid)
{
	struct kymop_shared header;
	bool has_begun;
	int error, lock;

	if (!pid)
		pid = getpid();
	error = pid < 0 ? ESRCH : check_target(pid);
	if (error)
		return error;
	if (!fill_header(&header, stream, pid))
		return ENOMEM;
	stream->target = header.target;
	stream->target_start = header.target_start;
	stream->owner = kymop_dir_owner();
	lock = kymop_dir_lock();
	if (lock < 0)
		return ENOMEM;
	kymop_dir_sweep();
	/* Nobody of this process opens the file meanwhile: to close it would end our lock on it. */
	has_begun = kymop_attach_begin();
	error = find_slot(&stream->slot);
	if (!error) {
		kymop_own_files[stream->slot] = make_file(stream->slot, &header) + 1;
		error = kymop_own_files[stream->slot] ? 0 : ENOMEM;
	}
	close(lock);
	if (!error) {
		error = map_own(stream, &header);
		if (error)
			drop(stream);
	}
	kymop_attach_end(has_begun);
	if (!error)
		tell_target(stream, true);
	return error;
}

void kymop_stream_made(struct kymop_stream *stream)
{
	const struct kymop_view *view = &stream->view;

	stream->attr.kymo__created.tv_sec = (time_t)(stream->base.real_ns / 1000000000u);
	stream->attr.kymo__created.tv_nsec = (long)(stream->base.real_ns % 1000000000u);
	stream->attr.kymo__stream_bytes = view->ring_bytes - view->ring_bytes / 16 -
					  KYMOP_RECORD_BYTES - KYMO_STORE_PAST - view->data_max;
}

void kymop_memory_free(struct kymop_stream *stream)
{
	bool has_begun;

	tell_target(stream, false);
	has_begun = kymop_attach_begin();
	drop(stream);
	kymop_attach_end(has_begun);
}
#else
typedef int kymop_no_memory; /* a file must not be empty */
#endif
