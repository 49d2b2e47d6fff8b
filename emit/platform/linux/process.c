/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * process.c: when this process becomes known to controllers, and what becomes of its page and names over fork,
 * exec and exit [posix.md 5]. A process has neither before it asks for something, or is asked.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linux.h"

#define PAGE_MAGIC (0x31474158494d594bull + KYMOP_LAYOUT)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int cancel_before; /* of the thread that holds mutex */

/* Who holds it is not cancelled: it would keep it. */
void kymop_lock(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&mutex);
	cancel_before = before;
}

void kymop_unlock(void)
{
	int before = cancel_before;

	pthread_mutex_unlock(&mutex);
	pthread_setcancelstate(before, NULL);
}

#if KYMO_POSIX_LOG
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

int kymop_lock_pause(void)
{
	int before = cancel_before;

	pthread_mutex_unlock(&mutex);
	return before;
}

void kymop_lock_resume(int before)
{
	pthread_mutex_lock(&mutex);
	cancel_before = before;
}

void kymop_lock_wait(void)
{
	int before = cancel_before;

	pthread_cond_wait(&changed, &mutex);
	cancel_before = before;
}

void kymop_lock_wake(void)
{
	pthread_cond_broadcast(&changed);
}
#endif

#if KYMOP_ACTIVE
/* Whether the process is known: kymop_slots.is_ours, wiped in a child. */
enum { UNKNOWN, IN_PROGRESS, KNOWN };

static bool fork_has_begun;
static bool was_known; /* this process, or the one that forked it */
/* A page of our own over the one that is there: zeros, or that of the process that forked us. */
static bool make_page(uint32_t idle, const uint32_t *generations)
{
	struct kymop_page *page;
	int fd = kymop_dir_open('p', (uint32_t)getpid(), O_CREAT);

	if (fd < 0)
		return false;
	if (posix_fallocate(fd, 0, sizeof(*page)) || !(page = kymop_map(fd, sizeof(*page), NULL))) {
		close(fd);
		return false;
	}
	/* Before exec this process may have had one: it goes on in the same streams. */
	if (generations || page->magic != PAGE_MAGIC || page->start != kymop_own_start() ||
	    page->pid != getpid()) {
		memset(page, 0, sizeof(*page));
		page->magic = PAGE_MAGIC;
		page->start = kymop_own_start();
		page->pid = getpid();
		page->idle = idle;
		if (generations)
			memcpy(page->generation, generations, sizeof(page->generation));
	}
	munmap(page, sizeof(*page));
	page = kymop_map(fd, sizeof(kymop_page), &kymop_page);
	close(fd);
	return page != NULL;
}

/*
 * The names of a child: the same table where a stream goes on in it (the file gets one more name),
 * else a copy of what there is.
 */
static void names_after_fork(uint32_t parent, bool is_shared)
{
	char from[KYMOP_PATH_BYTES], to[KYMOP_PATH_BYTES];
	struct kymop_names *before = kymop_process_names;

	kymop_path(from, 'n', parent);
	kymop_path(to, 'n', (uint32_t)getpid());
	unlink(to); /* of an earlier process of this number */
	if (is_shared && !link(from, to))
		return;
	if (kymop_names_map(getpid(), kymop_own_start(), &kymop_process_names)) {
		kymop_process_names = before;
		return;
	}
	memcpy(kymop_process_names->name, before->name, sizeof(before->name));
	__atomic_store_n(&kymop_process_names->count, before->count, __ATOMIC_RELEASE);
	munmap(before, sizeof(*before));
}

/* In a child: which of its parent's streams go on. Their memory is mapped already, if it was. */
static bool begin_child(void)
{
	uint32_t parent = (uint32_t)kymop_page.pid, idle = KYMOP_ALL_IDLE;
	uint32_t generations[KYMO_POSIX_STREAMS];

	memcpy(generations, kymop_page.generation, sizeof(generations));
	for (uint32_t slot = 0; slot < KYMO_POSIX_STREAMS; slot++)
		if (!(kymop_page.idle >> slot & 1) && kymop_stream_is_inherited(slot))
			idle &= ~(1u << slot);
	if (!make_page(idle, generations))
		return false;
	names_after_fork(parent, idle != KYMOP_ALL_IDLE);
	kymop_memory_after_fork();
	kymop_attach_after_fork(~idle & KYMOP_ALL_IDLE);
	return true;
}

static bool begin_process(void)
{
	if (!kymop_dir_make() || !make_page(KYMOP_ALL_IDLE, NULL))
		return false;
	if (kymop_names_map(getpid(), kymop_own_start(), &kymop_process_names))
		return false;
	kymop_attach_init();
	return true;
}

/* A page on which nothing is ever wanted: tracing is off where the directory cannot be used. */
static void give_up(void)
{
	void *got = mmap(&kymop_page, sizeof(kymop_page), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (got != MAP_FAILED)
		kymop_page.idle = KYMOP_ALL_IDLE;
}

/*
 * process_ready: the process is known, or becomes so now. False: another thread, or what a
 * handler interrupted, is about it; or it cannot be.
 * Context: any, signal handlers included; system calls the first time. Changes errno.
 */
static bool process_ready(void)
{
	uint32_t unknown = UNKNOWN;
	bool is_done;

	if (__atomic_load_n(&kymop_slots.is_ours, __ATOMIC_ACQUIRE) == KNOWN)
		return true;
	if (!__atomic_compare_exchange_n(&kymop_slots.is_ours, &unknown, IN_PROGRESS, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 10000 && __atomic_load_n(&kymop_slots.is_ours,
								  __ATOMIC_ACQUIRE) == IN_PROGRESS; i++)
			sched_yield();
		return __atomic_load_n(&kymop_slots.is_ours, __ATOMIC_ACQUIRE) == KNOWN;
	}
	kymop_self_begin();
	is_done = was_known && kymop_page.pid != getpid() ? begin_child() : begin_process();
	if (!is_done) {
		give_up();
		__atomic_store_n(&kymop_slots.is_ours, UNKNOWN, __ATOMIC_RELEASE);
		return false;
	}
	was_known = true;
	kymop_join_own_streams();
	__atomic_store_n(&kymop_slots.is_ours, KNOWN, __ATOMIC_RELEASE);
	return true;
}

bool kymop_attach(uint32_t slot, struct kymop_view *view)
{
	int saved_errno = errno;
	bool is_held = process_ready() && kymop_attach_stream(slot, view);

	errno = saved_errno;
	return is_held;
}

/*
 * The process runs for another user than before: its page and names are in that one's directory from
 * now on. Streams that it has go on; their controllers of before do not reach it any more.
 */
static bool change_user(void)
{
	struct kymop_names *before = kymop_process_names, *fresh;
	uint32_t idle = __atomic_load_n(&kymop_page.idle, __ATOMIC_SEQ_CST);
	uint32_t generations[KYMO_POSIX_STREAMS];

	memcpy(generations, kymop_page.generation, sizeof(generations));
	if (!kymop_dir_make() || !make_page(idle, generations) ||
	    kymop_names_map(getpid(), kymop_own_start(), &fresh))
		return false;
	memcpy(fresh->name, before->name, sizeof(before->name));
	__atomic_store_n(&fresh->count, before->count, __ATOMIC_RELEASE);
	/* At the same address: streams know it. */
	mremap(fresh, sizeof(*fresh), sizeof(*fresh), MREMAP_MAYMOVE | MREMAP_FIXED, before);
	kymop_join_own_streams();
	return true;
}

int kymop_prepare(void)
{
	if (!process_ready())
		return ENOMEM;
	return geteuid() == kymop_dir_owner() || change_user() ? 0 : EPERM;
}

/* A child has nothing that another thread was about to map, or to record for the first time. */
static void before_fork(void)
{
	kymop_lock();
	fork_has_begun = kymop_attach_begin();
}

static void after_fork(void)
{
	kymop_attach_end(fork_has_begun);
	kymop_unlock();
}

/* A child is known at once where its parent was: a controller may ask for it by its number. */
static void in_child(void)
{
#if KYMO_POSIX_LOG
	pthread_cond_init(&changed, NULL); /* those who wait are not here */
#endif
#if KYMOP_KERNEL
	kymop_kernel_after_fork();
#endif
	kymop_streams_forget();
	kymop_attach_end(fork_has_begun);
	if (was_known) {
		__atomic_store_n(&kymop_slots.is_ours, UNKNOWN, __ATOMIC_RELAXED);
		process_ready();
	}
	kymop_unlock();
}

static __attribute__((constructor(101))) void begin(void)
{
	static bool has_begun;
	void *got;

	if (has_begun)
		return;
	has_begun = true;
	got = mmap(&kymop_slots, sizeof(kymop_slots), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (got != MAP_FAILED)
		madvise(got, sizeof(kymop_slots), MADV_WIPEONFORK);
	kymop_dir_init();
	kymop_clock_init();
	kymop_self_init();
	pthread_atfork(before_fork, after_fork, in_child);
}

/* As if every stream were shut down; what a process leaves by _exit(), others clear away. */
static __attribute__((destructor)) void end(void)
{
	if (__atomic_load_n(&kymop_slots.is_ours, __ATOMIC_ACQUIRE) != KNOWN)
		return;
#if KYMO_POSIX_LOG
	kymop_file_hurry();
#endif
	for (uint32_t i = 0; i < KYMOP_HANDLES; i++)
		if (kymop_streams[i].kind == KYMOP_ONLINE || kymop_streams[i].kind == KYMOP_LOGGED)
			posix_trace_shutdown(kymop_streams[i].trid);
	kymop_dir_unlink('p', (uint32_t)getpid());
	kymop_dir_unlink('n', (uint32_t)getpid());
}
#else
/* Logs are read in any process, and no process is traced: only the lock has to be right in a child. */
static __attribute__((constructor(101))) void begin(void)
{
	pthread_atfork(kymop_lock, kymop_unlock, kymop_unlock);
}
#endif
