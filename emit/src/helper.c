/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * helper.c: the helper thread. It does the talking, with descriptors that the program does not have, and sleeps in
 * poll until somebody speaks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "runtime_dir.h"
#include "unwind.h"

#define HELPER_STACK_BYTES (128 * 1024)
/* How often the helper thread tries again to unmap what a thread was still inside of. */
#define RETRY_MS 200
/* How often it looks whether a session lives with which it has no connection. */
#define ORPHANS_MS 1000
/* Who ends the helper thread waits so long for it. */
#define END_WAIT_MS 1000
/* So long a collector waits that could not be let in, for want of a descriptor, say. */
#define ACCEPT_PAUSE_MS 1000

static struct kymo_fd own_socket = { .number = -1 };
static int64_t orphans_due_ms, accept_due_ms;

/* What could not be accepted stays where it is, and poll would return at once, for ever. */
static void accept_collectors(void)
{
	struct kymo_fd came;

	while (kymo_fd_is_ours(&own_socket)) {
		errno = 0;
		came = kymo_fd_keep(accept4(own_socket.number, NULL, NULL, SOCK_CLOEXEC));
		if (came.number < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				accept_due_ms = kymo_now_ms() + ACCEPT_PAUSE_MS;
			return;
		}
		if (kymo_peer_is_us(came.number))
			kymo_fd_close(&came); /* see kymo_knock */
		else
			kymo_session_found(came.number);
	}
}

/*
 * Off the isolated CPUs, where it may, and never in a real-time class: the program's threads keep
 * those.
 */
static void settle_down(void)
{
	const struct sched_param normal = { 0 };
	char text[4096], *at = text;
	cpu_set_t allowed;

	prctl(PR_SET_NAME, "kymo");
	sched_setscheduler(0, SCHED_OTHER, &normal);
	/* A list such as 1-3,6, and a line's end: only that where no CPU is isolated. */
	kymo_fd_read_text("/sys/devices/system/cpu/isolated", text, sizeof(text));
	if (!*text)
		return;
	memset(&allowed, 0xff, sizeof(allowed));
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10), last = *at == '-' ? strtoul(at + 1, &at, 10) : first;

		for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
			CPU_CLR(cpu, &allowed);
		at += *at == ',';
	}
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

/*
 * Before anything is said: HELLO has the nonce, so that a collector to which we came by ourselves does
 * not visit our socket too. The process id is no name for us, where pid namespaces are.
 */
void kymo_choose_nonce(void)
{
	if (!kymo_control.without_thread)
		kymo_own_nonce = ((uint32_t)(kymo_clock_read() * 2654435761u) ^ (uint32_t)getpid()) | 1;
}

/*
 * The program has closed or replaced descriptors of ours. Our socket under a new name brings all
 * collectors that have no connection with us any more.
 */
static void repair(void)
{
	if (!kymo_conns_were_lost && (own_socket.number < 0 || kymo_fd_is_ours(&own_socket)))
		return;
	kymo_conns_were_lost = false;
	kymo_fd_close(&own_socket);
	kymo_unbind_own();
	kymo_choose_nonce();
	own_socket = kymo_fd_keep(kymo_bind_own(kymo_own_nonce));
	/* Without a descriptor to spare: later. */
	kymo_conns_were_lost = own_socket.number < 0;
}

/*
 * Sessions whose rings we have, but no connection: of the process that forked us, where the session
 * did not take us in, or lost by the program's doing. Nobody tells of their end, so we look. Returns
 * whether there are such.
 */
static bool look_for_orphans(void)
{
	bool is_due = kymo_now_ms() >= orphans_due_ms;
	bool left = false;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		const char *session = kymo_slot_session(slot);

		if (!session || kymo_slot_is_served(slot))
			continue;
		if (is_due && kymo_session_has_ended(session, kymo_slot_met_in(slot)))
			kymo_slot_off(slot);
		else
			left = true;
	}
	if (is_due)
		orphans_due_ms = kymo_now_ms() + ORPHANS_MS;
	return left;
}

/* Sessions go on without us: their collectors read on as long as the rings are mapped. */
static void leave_all(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		struct kymo_fd socket = conn->socket;

		if (!kymo_conn_is_open(conn))
			continue;
		kymo_conn_lost(conn);
		kymo_fd_close(&socket);
	}
	kymo_conns_were_lost = false;
	kymo_unbind_own();
	kymo_fd_close(&own_socket);
}

/* One round of the helper thread: what is to be done, then sleep until somebody speaks. */
static bool serve(void)
{
	struct pollfd polls[KYMO_CONNS_MAX + 1];
	int timeout = -1, ready, unwind_ms, wait_ms;
	bool accepts = kymo_now_ms() >= accept_due_ms;
	nfds_t count;

	if (kymo_control.helper_shall_end) {
		leave_all();
		return false;
	}
	repair();
	kymo_say_news();
	kymo_end_wait_if_due();
	pthread_cond_broadcast(&kymo_control.news);
	if (look_for_orphans() || kymo_conns_were_lost || !accepts)
		timeout = ORPHANS_MS;
	if (kymo_sessions_retry())
		timeout = RETRY_MS;
	if (kymo_sessions_make_ready())
		timeout = 0;
	unwind_ms = kymo_unwind_serve();
	if (unwind_ms >= 0 && (timeout < 0 || unwind_ms < timeout))
		timeout = unwind_ms;
	wait_ms = kymo_wait_left_ms();
	if (wait_ms >= 0 && (timeout < 0 || wait_ms < timeout))
		timeout = wait_ms;
	count = kymo_poll_set(polls);
	polls[count++] = (struct pollfd){ .fd = accepts ? own_socket.number : -1, .events = POLLIN };
	kymo_unlock();
	ready = poll(polls, count, timeout);
	kymo_lock();
	if (ready < 0)
		return errno == EINTR;
	kymo_receive_all();
	if (polls[count - 1].revents & POLLIN)
		accept_collectors();
	return true;
}

static void *helper(void *unused)
{
	__atomic_store_n(&kymo_control.helper_tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	kymo_fd_own_table();
	settle_down();
	kymo_stack_learn();
	kymo_lock();
	kymo_unwind_begin();
	kymo_each_session(kymo_session_found);
	kymo_helper_has_begun();
	orphans_due_ms = kymo_now_ms() + ORPHANS_MS;
	own_socket = kymo_fd_keep(kymo_bind_own(kymo_own_nonce));
	kymo_control.helper_settled = true;
	while (serve())
		;
	kymo_unlock();
	return unused;
}

/*
 * kymo_helper_end: ends the helper thread, and returns when the kernel has none, or after a second.
 * Context: not under kymo_lock.
 */
void kymo_helper_end(void)
{
	int64_t end = kymo_now_ms() + END_WAIT_MS;
	uint32_t tid;

	kymo_lock();
	kymo_control.helper_shall_end = true;
	kymo_knock();
	kymo_unlock();
	do {
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &(struct timespec){ 0, 50000 }, NULL);
		/* 0: it has not run yet. */
		tid = __atomic_load_n(&kymo_control.helper_tid, __ATOMIC_ACQUIRE);
	} while ((!tid || !syscall(SYS_tgkill, getpid(), tid, 0)) && kymo_now_ms() < end);
}

/*
 * Absent from a static executable, where nothing can be unloaded either. dlopen is looked up,
 * because a mention of it makes the linker warn in every static executable.
 */
extern int dladdr(const void *address, Dl_info *info) __attribute__((weak));
extern void *dlsym(void *handle, const char *name) __attribute__((weak));

/*
 * The helper thread's code must stay: libkymo.so says so itself, but a library with libkymo.a in it
 * may be closed by dlclose.
 */
void kymo_helper_stay_loaded(void)
{
	void *(*open_library)(const char *file, int mode);
	char *(*forget_error)(void);
	Dl_info info;

	if (!dladdr || !dlsym || !dladdr(&kymo_control.lock, &info) || !info.dli_fname)
		return;
	*(void **)&open_library = dlsym(RTLD_DEFAULT, "dlopen");
	*(void **)&forget_error = dlsym(RTLD_DEFAULT, "dlerror");
	/* For the executable it fails, which needs no answer; nor may the program hear of it. */
	if (open_library && !open_library(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) &&
	    forget_error)
		forget_error();
}

bool kymo_helper_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
	error = pthread_create(&thread, &attr, helper, NULL);
	pthread_attr_destroy(&attr);
	if (error) {
		/* Big thread-local storage: the default size holds it. */
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		error = pthread_create(&thread, &attr, helper, NULL);
		pthread_attr_destroy(&attr);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !error;
}

/* kymo_helper_after_fork: the child's own socket is not its parent's. */
void kymo_helper_after_fork(void)
{
	if (kymo_fd_table_is_own)
		own_socket = KYMO_FD_NONE;
	kymo_fd_close(&own_socket);
}
