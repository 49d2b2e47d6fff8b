/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * process.c: this process as controllers know it: the page that says which streams it writes into,
 * its names, and what becomes of both over fork, exec and exit [posix.md 5]. A process has neither
 * before it asks for something, or is asked.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kymo/arch/local.h"
#include "linux.h"

#define PAGE_MAGIC (0x31474158494d594bull + KYMOP_LAYOUT)
#define NAMES_MAGIC (0x314d4158494d594bull + KYMOP_LAYOUT)

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

struct kymop_page kymop_page;
struct kymop_slots kymop_slots;
struct kymop_names *kymop_process_names;
static bool fork_has_begun;
static uint64_t own_start;
static bool was_known; /* this process, or the one that forked it */
static __thread struct kymo_thread thread_tls __attribute__((tls_model("initial-exec")));

uint64_t kymop_own_start(void)
{
	return own_start;
}

uint32_t kymop_self_pid(void)
{
	if (!thread_tls.inline_tid)
		thread_tls.inline_tid = (uint32_t)getpid();
	return thread_tls.inline_tid;
}

uint64_t kymop_self_thread(void)
{
	return (uint64_t)(uintptr_t)pthread_self();
}

static void path_of_stat(char *path, pid_t pid)
{
	char digits[12];
	size_t length = 6, count = 0;

	memcpy(path, "/proc/", 6);
	for (; pid; pid /= 10)
		digits[count++] = (char)('0' + pid % 10);
	while (count)
		path[length++] = digits[--count];
	memcpy(path + length, "/stat", 6);
}

/*
 * kymop_process_start: when a process began, in the kernel's ticks: a number may be given again.
 * 0: it cannot be known. Context: any; system calls.
 */
uint64_t kymop_process_start(pid_t pid)
{
	char text[1024], path[32];
	uint64_t start = 0;
	ssize_t got;
	char *at;
	int fd;

	path_of_stat(path, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	/* Behind the name, which may have anything in it: field 22 of the line. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : text + sizeof(text) - 1; *at >= '0' && *at <= '9'; at++)
		start = start * 10 + (uint64_t)(*at - '0');
	return start;
}

/*
 * kymop_names_map: the names of a process, which may be made before it asks for them. Returns: 0 or
 * an error number.
 */
int kymop_names_map(pid_t pid, uint64_t start, struct kymop_names **names)
{
	struct kymop_names *got;
	int fd = kymop_dir_open('n', (uint32_t)pid, O_CREAT);

	if (fd < 0)
		return ENOMEM;
	if (posix_fallocate(fd, 0, sizeof(*got)) || !(got = kymop_map(fd, sizeof(*got), NULL))) {
		close(fd);
		return ENOMEM;
	}
	close(fd);
	if (!kymop_names_lock(got)) {
		munmap(got, sizeof(*got));
		return EAGAIN;
	}
	if (got->magic != NAMES_MAGIC || got->start != start ||
	    got->count > KYMO_POSIX_USER_EVENT_COUNT || !got->count) {
		memset(got, 0, sizeof(*got));
		got->magic = NAMES_MAGIC;
		got->start = start;
		got->count = 1;
	}
	kymop_names_unlock(got);
	*names = got;
	return 0;
}

/*
 * Between processes; threads of one have kymop_lock. Who is killed while adding a name is found
 * out, and had not added it.
 */
#define NAMES_YIELDS 1000u
#define NAMES_PAUSE_US 1000u

bool kymop_names_lock(struct kymop_names *names)
{
	uint32_t self = (uint32_t)getpid(), owner = 0, waits = 0;

	while (!__atomic_compare_exchange_n(&names->owner, &owner, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (owner != self && (!kill((pid_t)owner, 0) || errno != ESRCH)) {
			owner = 0;
			if (++waits < NAMES_YIELDS)
				sched_yield();
			else if (waits < 2 * NAMES_YIELDS)
				usleep(NAMES_PAUSE_US);
			else
				return false;
		}
		/* Else: the lock of a dead process, or of an earlier program in this one. */
	}
	return true;
}

void kymop_names_unlock(struct kymop_names *names)
{
	__atomic_store_n(&names->owner, 0, __ATOMIC_RELEASE);
}

struct kymop_names *kymop_own_names(void)
{
	return kymop_process_names;
}

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
	if (generations || page->magic != PAGE_MAGIC || page->start != own_start ||
	    page->pid != getpid()) {
		memset(page, 0, sizeof(*page));
		page->magic = PAGE_MAGIC;
		page->start = own_start;
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
	if (kymop_names_map(getpid(), own_start, &kymop_process_names)) {
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
	if (kymop_names_map(getpid(), own_start, &kymop_process_names))
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
 * kymop_process_ready: the process is known, or becomes so now. False: another thread, or what a
 * handler interrupted, is about it; or it cannot be.
 * Context: any, signal handlers included; system calls the first time. Changes errno.
 */
bool kymop_process_ready(void)
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
	thread_tls.inline_tid = (uint32_t)getpid();
	own_start = kymop_process_start(getpid());
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
	    kymop_names_map(getpid(), own_start, &fresh))
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
	if (!kymop_process_ready())
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
		kymop_process_ready();
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
#if KYMO_ARCH_X86_64
	{
		char *thread_pointer;

		__asm__("movq %%fs:0, %0" : "=r"(thread_pointer));
		kymop_thread_offset = (char *)&thread_tls - thread_pointer;
	}
#endif
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
