/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rseq.c: restartable sequences of the threads of a process: those that the C library has registered, or,
 * where it knows nothing of them (musl), those that libkymo registers itself, each thread at its first
 * record. Never over another library's registration: the kernel refuses that, and the thread's records
 * take the spill lane [ring.md 5.8].
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#if KYMO_ARCH_SEQUENCE

#ifndef SYS_rseq
#define SYS_rseq (KYMO_ARCH_AARCH64 ? 293 : 334)
#endif
#define UNREGISTER 1
/* Stands before each abort address: KYMO__RSEQ_SIGNATURE. */
#define SIGNATURE (KYMO_ARCH_AARCH64 ? 0xd428bc00u : 0x53053053u)
#define NO_CPU UINT32_MAX

/* struct rseq of the kernel, as it was first; it has no smaller one. */
struct area {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, unused[3];
} __attribute__((aligned(32)));

static __thread struct area own __attribute__((tls_model("initial-exec"))) = { .cpu_id = NO_CPU };
static __thread bool is_tried __attribute__((tls_model("initial-exec")));
static pthread_key_t exit_key;
static bool is_ours;

/* glibc 2.35 and later export these; elsewhere they are absent. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static bool change(int flags)
{
	return !syscall(SYS_rseq, &own, sizeof(own), flags, SIGNATURE);
}

/*
 * The thread's memory may be gone before the thread is. The kernel puts NO_CPU into the area: later records
 * of this thread, by other destructors, take the spill lane.
 */
static void thread_ends(void *value)
{
	(void)value;
	change(UNREGISTER);
}

/*
 * kymo_rseq_thread: registers the calling thread, where that is libkymo's business.
 * Context: any, with all signals as they are; a system call at a thread's first record. Changes errno.
 */
void kymo_rseq_thread(void)
{
	if (!is_ours || is_tried)
		return;
	is_tried = true;
	if (change(0))
		pthread_setspecific(exit_key, &own);
}

/*
 * kymo_rseq_init: at start, by one thread. Returns whether sequences may be used; then *offset says where
 * struct rseq is, from the thread pointer.
 */
bool kymo_rseq_init(const char *wish, intptr_t *offset)
{
	bool is_known = &__rseq_size && &__rseq_offset;

	if (!strcmp(wish, "portable"))
		return false;
	if (is_known && __rseq_size) {
		*offset = __rseq_offset;
		return true;
	}
	/*
	 * A glibc that knows of them and has not registered any was told so. With an older one, an allocator
	 * may register its own in each thread, and goes without if we were first.
	 */
	if ((is_known || gnu_get_libc_version) && strcmp(wish, "rseq"))
		return false;
	if (pthread_key_create(&exit_key, thread_ends))
		return false;
	is_ours = true;
	kymo_rseq_thread();
	if (own.cpu_id == NO_CPU || exit_key >= KYMO_KEYS_WITHOUT_MALLOC) {
		change(UNREGISTER);
		pthread_key_delete(exit_key);
		is_ours = false;
		return false;
	}
	*offset = (char *)&own - kymo__thread_pointer();
	return true;
}

#endif
