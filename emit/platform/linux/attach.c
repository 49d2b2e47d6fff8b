/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * attach.c: what this process has mapped of streams, from a stream's first event in the process until
 * nobody is inside any more [posix.md 3.4]. Does not make streams: that is memory.c.
 *
 * Slots are used again, so everything here names a stream by slot and generation. A stream that
 * comes takes the place of the one before only when it is known to be the one that is wanted.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "linux.h"

#if KYMOP_ACTIVE

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

union kymop_header kymop_headers[KYMO_POSIX_STREAMS];
intptr_t kymop_rseq_offset;

/*
 * Mapped memory. Writers in current mappings, and those who were interrupted in earlier ones, hold
 * one each; a look that comes too late counts for a moment in any.
 */
#define MAPPINGS (4 * KYMO_POSIX_STREAMS)
struct mapping {
	struct kymop_view view;
	uint8_t *at; /* null: free */
	size_t bytes;
	uint32_t users;
	bool is_retired; /* no slot's any more: to be unmapped when nobody holds it */
};
static struct mapping mappings[MAPPINGS];

/* The mapping that writers of a slot take: its number and 1; 0: none. */
static uint32_t current[KYMO_POSIX_STREAMS];
/* The stream, by its generation, of which an event could not be recorded because it was not mapped yet. */
static uint32_t missed[KYMO_POSIX_STREAMS];
/* The thread that changes any of this. */
static uint32_t busy;
/* How often this thread holds a mapping. */
static __thread uint32_t held_here __attribute__((tls_model("initial-exec")));

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void kymop_attach_init(void)
{
#if KYMO_ARCH_X86_64
	const char *ring = secure_getenv("KYMO_RING");

	if (kymop_clock_kind() == KYMO_CLOCK_TSC && (!ring || strcmp(ring, "portable")) &&
	    &__rseq_size && &__rseq_offset && __rseq_size &&
	    !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ))
		kymop_rseq_offset = __rseq_offset;
#endif
}

#define TAKE_ATTEMPTS 10000u

/*
 * Returns: false where the thread has it already (a handler that interrupted it), or another one for
 * long and we do not wait, as posix_trace_event() does not.
 */
static bool busy_take(bool waits)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid), owner = 0;

	for (unsigned i = 0; !__atomic_compare_exchange_n(&busy, &owner, self, false, __ATOMIC_ACQUIRE,
							  __ATOMIC_RELAXED); i++) {
		if (owner == self || (i >= TAKE_ATTEMPTS && !waits))
			return false;
		owner = 0;
		if (i < TAKE_ATTEMPTS)
			sched_yield();
		else
			usleep(50); /* the owner may have a lower priority */
	}
	return true;
}

static void busy_give(void)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* What end is told: false where the thread is in here already. */
bool kymop_attach_begin(void)
{
	return busy_take(true);
}

void kymop_attach_end(bool has_begun)
{
	if (has_begun)
		busy_give();
}

const struct kymop_view *kymop_current_view(uint32_t slot)
{
	return current[slot] ? &mappings[current[slot] - 1].view : NULL;
}

/* Unmaps what nobody holds any more. Nobody comes into a retired one: see hold. */
static void reap(void)
{
	for (uint32_t i = 0; i < MAPPINGS; i++) {
		struct mapping *old = &mappings[i];

		if (!old->is_retired || __atomic_load_n(&old->users, __ATOMIC_SEQ_CST))
			continue;
		munmap(old->at, old->bytes);
		old->is_retired = false;
		old->at = NULL;
	}
}

/* A free one, or null. Users of a late look may be counted in it; they leave without touching it. */
static struct mapping *mapping_free(void)
{
	reap();
	for (uint32_t i = 0; i < MAPPINGS; i++)
		if (!mappings[i].at)
			return &mappings[i];
	return NULL;
}

/*
 * Takes a stream out of this process: no writer finds it from now on, and sequences that were under
 * way have ended. Memory that cannot be fenced stays mapped for good.
 */
static void retire(uint32_t slot)
{
	uint32_t number = __atomic_exchange_n(&current[slot], 0, __ATOMIC_SEQ_CST);

	if (!number)
		return;
	__atomic_store_n(&kymop_slots.slot[slot].cpu_count, 0, __ATOMIC_SEQ_CST);
	mappings[number - 1].is_retired = !kymop_rseq_offset || !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}

/* The page, control blocks, then each lane's bytes twice in a row: every record is contiguous. */
static bool map_lanes(struct mapping *to, int fd, const struct kymop_shared *header, uint32_t slot)
{
	size_t control = kymop_control_bytes(header->lane_count), ring = header->ring_bytes;
	size_t front = KYMOP_HEADER_BYTES + control;
	size_t bytes = front + 2 * ring * header->lane_count;
	uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool is_good;

	if (at == MAP_FAILED)
		return false;
	is_good = mmap(at, front, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	for (uint32_t lane = 0; is_good && lane < header->lane_count; lane++)
		for (unsigned copy = 0; is_good && copy < 2; copy++)
			is_good = mmap(at + front + (2 * lane + copy) * ring, ring,
				       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
				       (off_t)(front + lane * ring)) != MAP_FAILED;
	if (!is_good) {
		munmap(at, bytes);
		return false;
	}
	/* A first record must not wait for the kernel to find a page. */
	madvise(at, bytes, MADV_POPULATE_WRITE);
	to->at = at;
	to->bytes = bytes;
	to->view = (struct kymop_view){
		.shared = (struct kymop_shared *)(void *)at,
		.rings = (struct kymo_ring *)(void *)(at + KYMOP_HEADER_BYTES + slot * KYMOP_SKEW_BYTES),
		.data = at + front,
		.stride = 2 * ring,
		.generation = header->generation,
		.cpu_count = header->cpu_count,
		.lane_count = header->lane_count,
		.ring_bytes = header->ring_bytes,
		.data_max = header->data_max,
		.clock = header->clock,
		.policy = header->policy,
		.is_inherited = header->is_inherited,
		.place = (uint32_t)(to - mappings),
	};
	return true;
}

/* The numbers of a stream, copied once: others can write to the file. */
static bool read_header(int fd, struct kymop_shared *copy)
{
	struct stat info;

	return fd >= 0 && !fstat(fd, &info) && pread(fd, copy, sizeof(*copy), 0) == sizeof(*copy) &&
	       kymop_is_sane(copy, info.st_size);
}

/*
 * Maps a stream that its controller has just made. The view is held until kymop_unmap_own; no writer
 * of this process finds it before kymop_join.
 */
bool kymop_map_own(uint32_t slot, int fd, uint32_t generation, struct kymop_view *view)
{
	struct mapping *made = mapping_free();
	struct kymop_shared copy;

	if (!made || !read_header(fd, &copy) || copy.generation != generation ||
	    !map_lanes(made, fd, &copy, slot))
		return false;
	__atomic_fetch_add(&made->users, 1, __ATOMIC_SEQ_CST);
	*view = made->view;
	return true;
}

/* What sequences look at. cpu_count last: before, they find no lanes. */
static void publish(uint32_t slot, const struct mapping *made)
{
	const struct kymop_view *view = &made->view;
	struct kymo_slot *to = &kymop_slots.slot[slot];
	bool has_sequence = view->cpu_count && kymop_rseq_offset && view->clock == KYMO_CLOCK_TSC;

	to->room = view->ring_bytes - KYMO_STORE_PAST;
	to->mask = view->ring_bytes - 1;
	to->id_offset = 0;
	to->stride = view->stride;
	to->data_offset = (uint64_t)(view->data - (uint8_t *)view->rings);
	to->serial = view->generation;
	to->thread_offset = kymop_thread_offset;
	__atomic_store_n(&to->rseq_offset, has_sequence ? kymop_rseq_offset : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&to->rings, view->rings, __ATOMIC_RELEASE);
	__atomic_store_n(&to->cpu_count, has_sequence ? view->cpu_count : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&current[slot], view->place + 1, __ATOMIC_SEQ_CST);
}

/* Writers of this process find the stream from now on, and the one before no more. */
static bool take_place(uint32_t slot, int fd, const struct mapping *made)
{
	retire(slot);
	if (!kymop_map(fd, KYMOP_HEADER_BYTES, &kymop_headers[slot]))
		return false;
	publish(slot, made);
	if (__atomic_load_n(&missed[slot], __ATOMIC_RELAXED) == made->view.generation)
		__atomic_store_n(&made->view.shared->overrun, 1, __ATOMIC_RELAXED);
	return true;
}

bool kymop_join(uint32_t slot, int fd, const struct kymop_view *view)
{
	return take_place(slot, fd, &mappings[view->place]);
}

/* The controller's own view ends. Zeros: a first attempt that looks now finds nothing wanted. */
void kymop_unmap_own(uint32_t slot, const struct kymop_view *view)
{
	if (__atomic_load_n(&current[slot], __ATOMIC_RELAXED) == view->place + 1) {
		retire(slot);
		mmap(&kymop_headers[slot], KYMOP_HEADER_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	} else {
		mappings[view->place].is_retired = true;
	}
	__atomic_fetch_sub(&mappings[view->place].users, 1, __ATOMIC_SEQ_CST);
	reap();
}

/*
 * A slot's stream is not this process's any more. Only the one that is meant: a controller that
 * makes the next one first stores its generation, and then says that the slot is in use.
 */
static void leave(uint32_t slot, uint32_t generation)
{
	__atomic_fetch_or(&kymop_page.idle, 1u << slot, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&kymop_page.generation[slot], __ATOMIC_SEQ_CST) != generation)
		__atomic_fetch_and(&kymop_page.idle, ~(1u << slot), __ATOMIC_SEQ_CST);
}

/*
 * What is in a slot now is not what our page says. If it was made for this process, the page is
 * brought up to date: it may have been written by who had looked before.
 */
static void look_again(uint32_t slot, uint32_t generation, const struct kymop_shared *found)
{
	if (found && found->target == (int32_t)getpid() && found->target_start == kymop_own_start() &&
	    kymop_state_of(found->state) != KYMOP_DEAD)
		__atomic_compare_exchange_n(&kymop_page.generation[slot], &generation,
					    found->generation, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
	else
		leave(slot, generation);
}

/* Under busy. Nothing that is mapped changes before the stream is known to be the right one. */
static void bring(uint32_t slot, uint32_t generation)
{
	int own = kymop_own_file(slot), fd = own >= 0 ? own : kymop_dir_open('s', slot, 0);
	struct kymop_shared copy;
	struct mapping *made;

	if (fd < 0 && errno != ENOENT) {
		missed[slot] = generation;
		return; /* no descriptor, no memory: the next event tries again */
	}
	if (!read_header(fd, &copy)) {
		look_again(slot, generation, NULL);
	} else if (copy.generation != generation) {
		look_again(slot, generation, &copy);
	} else {
		made = mapping_free();
		if (!made || !map_lanes(made, fd, &copy, slot))
			missed[slot] = generation;
		else if (!take_place(slot, fd, made))
			made->is_retired = true;
	}
	if (fd >= 0 && fd != own)
		close(fd); /* of our own file it would end the lock that says we live */
}

/* The first event of a stream in this process: its memory is mapped. One thread does it. */
static void attach_first(uint32_t slot, uint32_t generation)
{
	const struct kymop_view *view;
	int cancel;

	/* Who is cancelled here would stay busy for ever. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (!busy_take(false)) {
		__atomic_store_n(&missed[slot], generation, __ATOMIC_RELAXED);
	} else {
		view = kymop_current_view(slot);
		if ((!view || view->generation != generation) &&
		    __atomic_load_n(&kymop_page.generation[slot], __ATOMIC_SEQ_CST) == generation)
			bring(slot, generation);
		busy_give();
	}
	pthread_setcancelstate(cancel, NULL);
}

/*
 * Counts first, looks then; who retires a mapping takes it from current first, and looks at the
 * count then: so one of the two sees the other.
 */
static bool hold(uint32_t slot, uint32_t generation, struct kymop_view *view)
{
	uint32_t number = __atomic_load_n(&current[slot], __ATOMIC_ACQUIRE);
	struct mapping *at;

	if (!number)
		return false;
	at = &mappings[number - 1];
	held_here++;
	__atomic_fetch_add(&at->users, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&current[slot], __ATOMIC_SEQ_CST) == number &&
	    at->view.generation == generation) {
		*view = at->view;
		return true;
	}
	__atomic_fetch_sub(&at->users, 1, __ATOMIC_SEQ_CST);
	held_here--;
	return false;
}

void kymop_release(const struct kymop_view *view)
{
	__atomic_fetch_sub(&mappings[view->place].users, 1, __ATOMIC_SEQ_CST);
	held_here--;
}

/* A slot may get another stream while we look, but not for ever. */
#define LOOKS 4

bool kymop_attach_stream(uint32_t slot, struct kymop_view *view)
{
	kymop_self_pid();
	for (unsigned look = 0; look < LOOKS; look++) {
		uint32_t generation;

		if (__atomic_load_n(&kymop_page.idle, __ATOMIC_SEQ_CST) >> slot & 1)
			return false;
		generation = __atomic_load_n(&kymop_page.generation[slot], __ATOMIC_SEQ_CST);
		if (!hold(slot, generation, view)) {
			attach_first(slot, generation);
			if (!hold(slot, generation, view))
				continue;
		}
		if (kymop_state_of(__atomic_load_n(&view->shared->state, __ATOMIC_ACQUIRE)) !=
		    KYMOP_DEAD)
			return true;
		kymop_release(view);
		leave(slot, generation);
	}
	return false;
}

/*
 * In a new child: the streams in kept go on, the others are not mapped any more. Of the threads only
 * this one is left; what it is inside of, by a handler that forked, stays as it is.
 */
void kymop_attach_after_fork(uint32_t kept)
{
	bool is_inside = held_here != 0;

	busy = 0;
	for (uint32_t i = 0; i < MAPPINGS && !is_inside; i++)
		mappings[i].users = 0;
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++) {
		uint32_t number = current[slot];

		missed[slot] = 0;
		if (number && kept >> slot & 1)
			publish(slot, &mappings[number - 1]);
		else
			retire(slot);
	}
	/* What the parent controlled, and what another thread was mapping. */
	for (uint32_t i = 0; i < MAPPINGS; i++) {
		bool is_current = false;

		for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++)
			is_current |= current[slot] == i + 1;
		mappings[i].is_retired = mappings[i].at && !is_current;
	}
	reap();
}
#else
typedef int kymop_no_attach; /* a file must not be empty */
#endif
