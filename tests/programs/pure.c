/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pure.c MODE RECORDS: a thread that has traced once writes RECORDS more. seccomp: it may make no
 * system call but read, write, sigreturn and exit, the list of SECCOMP_MODE_STRICT; any other kills
 * the process. The list is a filter, because the strict mode takes the time stamp counter away from
 * the thread as well (PR_SET_TSC), and with it every clock of the vDSO. faults: prints by how much its
 * counters of page faults moved.
 */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

KYMO_EVENT(pure, word, (u64, n))
KYMO_EVENT(pure, mixed, (u64, n), (str, text), (f64, value), (seq(u16), numbers))

static uint64_t records;
static int finished;
static long minor, major;

static void once(uint64_t n)
{
	static const uint16_t numbers[5] = { 1, 2, 3, 4, 5 };

	if (n % 8)
		kymo_trace(pure, word, n);
	else
		kymo_trace(pure, mixed, n, "twelve bytes", (double)n, numbers, 5);
}

#define ALLOW(call)                                               \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),    \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void be_strict(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(rt_sigreturn),
		ALLOW(exit),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("seccomp");
}

static void *under_seccomp(void *make_a_call)
{
	once(0);
	be_strict();
	/* To show that the filter is there. */
	if (make_a_call)
		syscall(SYS_getppid);
	for (uint64_t n = 1; n <= records; n++)
		once(n);
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	/* pthread_exit would make other calls. */
	syscall(SYS_exit, 0);
	return NULL;
}

static void *counting_faults(void *unused)
{
	struct rusage before, after;

	(void)unused;
	/* The code that reads the counters is touched before, and both kinds of records. */
	getrusage(RUSAGE_THREAD, &before);
	once(0);
	once(1);
	getrusage(RUSAGE_THREAD, &before);
	for (uint64_t n = 2; n <= records; n++)
		once(n);
	getrusage(RUSAGE_THREAD, &after);
	minor = after.ru_minflt - before.ru_minflt;
	major = after.ru_majflt - before.ru_majflt;
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	live_shortly();
	if (argc != 3)
		die("usage");
	records = strtoull(argv[2], NULL, 10);
	pthread_create(&thread, NULL, strcmp(argv[1], "faults") ? under_seccomp : counting_faults,
		       strcmp(argv[1], "seccomp_broken") ? NULL : &thread);
	pthread_join(thread, NULL);
	if (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE))
		die("the thread did not finish");
	printf("produced=%" PRIu64 " minor=%ld major=%ld\n", records + 1, minor, major);
	return 0;
}
