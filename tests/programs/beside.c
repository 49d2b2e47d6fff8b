/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * beside.c HOW [RECORDS]: programs to whom a tracer may do harm by what it does beside them. HOW:
 *   cancel      a thread with a pending cancellation traces under a mutex; says whether the mutex is free
 *   user        a forked child gives up root, and traces for longer than libkymo looks for sessions
 *   descriptors no descriptor can be made any more; waits for a line
 *   filter      all threads get a filter that ends the program for what libkymo's helper thread calls
 *   child       the same for this thread; its forked child traces
 *   unshare     another user namespace, which the kernel grants to processes of one thread only
 *   sleep       waits for a line
 */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

KYMO_EVENT(beside, rec, (u64, n))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_cancelled;

static void trace_all(uint64_t records)
{
	for (uint64_t n = 0; n < records; n++) {
		kymo_trace(beside, rec, n);
		nap_us(5000);
	}
}

static void *cancelled(void *unused)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (!is_cancelled)
		nap_us(1000);
	pthread_setcancelstate(state, &state);
	/* Untraced there is no place from here on where a thread is cancelled. */
	pthread_mutex_lock(&mutex);
	kymo_trace(beside, rec, 0);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void cancel(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, cancelled, NULL) || pthread_cancel(thread))
		die("thread");
	is_cancelled = 1;
	pthread_join(thread, NULL);
	say(pthread_mutex_trylock(&mutex) ? "mutex=locked" : "mutex=free");
}

static void fork_and_trace(uint64_t records, bool gives_up_root)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (gives_up_root && setuid(64321))
			die("setuid");
		trace_all(records);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		die("the child did not live");
}

/* What a helper thread calls, and a program that does not talk does not. */
static void filter(bool all_threads)
{
	static const int forbidden[] = { SYS_accept4, SYS_socket, SYS_connect, SYS_poll, SYS_recvmsg, SYS_bind, SYS_sendto };
	enum { COUNT = sizeof(forbidden) / sizeof(*forbidden) };
	struct sock_filter code[COUNT + 3];
	struct sock_fprog program = { COUNT + 3, code };

	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)forbidden[i],
							   (uint8_t)(COUNT - i), 0);
	code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		die("PR_SET_NO_NEW_PRIVS");
	if (all_threads ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) :
			  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("filter");
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	uint64_t records = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
	const struct rlimit few = { 4, 4096 };

	live_shortly();
	if (!strcmp(how, "cancel")) {
		cancel();
	} else if (!strcmp(how, "user")) {
		fork_and_trace(records, true);
	} else if (!strcmp(how, "descriptors")) {
		if (setrlimit(RLIMIT_NOFILE, &few))
			die("RLIMIT_NOFILE");
		say("ready");
		hear();
	} else if (!strcmp(how, "filter")) {
		kymo_trace(beside, rec, 0);
		filter(true);
		say("ready");
		hear();
		trace_all(records);
		say("lived");
	} else if (!strcmp(how, "child")) {
		filter(false);
		fork_and_trace(records, false);
		say("lived");
	} else if (!strcmp(how, "unshare")) {
		trace_all(records);
		say(unshare(CLONE_NEWUSER) ? "unshare=refused" : "unshare=done");
		trace_all(records);
	} else {
		kymo_trace(beside, rec, 0);
		say("ready");
		hear();
	}
	return 0;
}
