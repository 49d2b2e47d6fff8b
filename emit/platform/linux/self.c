/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * self.c: this process as controllers know it: the page that says which streams it writes into, its names,
 * when it began [posix.md 5]. process.c says when it gets them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kymo/arch/local.h"
#include "linux.h"

#if KYMOP_ACTIVE
#define NAMES_MAGIC (0x314d4158494d594bull + KYMOP_LAYOUT)

struct kymop_page kymop_page;
struct kymop_slots kymop_slots;
struct kymop_names *kymop_process_names;
int kymop_own_files[KYMO_POSIX_STREAMS];
intptr_t kymop_thread_offset;
static uint64_t own_start;
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

/* kymop_self_begin: the calling thread is one of a new process, or the first that asks. */
void kymop_self_begin(void)
{
	thread_tls.inline_tid = (uint32_t)getpid();
	own_start = kymop_process_start(getpid());
}

/* kymop_self_init: where sequences find what they know of a thread. */
void kymop_self_init(void)
{
#if KYMO_ARCH_X86_64
	char *thread_pointer;

	__asm__("movq %%fs:0, %0" : "=r"(thread_pointer));
	kymop_thread_offset = (char *)&thread_tls - thread_pointer;
#endif
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
#else
typedef int kymop_no_self; /* a file must not be empty */
#endif
