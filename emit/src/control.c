/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * control.c: when this program talks to collectors: at start, in its helper thread, after fork,
 * around dlopen and dlclose [session.md 3]. What is said is session.c's business. The helper thread
 * sleeps in poll until a collector speaks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "runtime_dir.h"

#define HELPER_STACK_BYTES (128 * 1024)
/* While waiting, how often a waiter looks whether the helper thread got the answer. */
#define LOOK_MS 2
/* How often the helper thread tries again to unmap what a thread was still inside of. */
#define RETRY_MS 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t generation;
uint32_t kymo_own_nonce;
static int own_socket = -1;
static bool without_thread;
static int startup_wait_ms = KYMO_STARTUP_WAIT_MS;
static bool attach_in_helper; /* a forked child that still writes into its parent's rings */

/* Who holds it ends sessions, and must not wait for their room should it trace, in malloc say. */
void kymo_lock(void)
{
	kymo_self()->busy++;
	pthread_mutex_lock(&lock);
}

void kymo_unlock(void)
{
	pthread_mutex_unlock(&lock);
	kymo_self()->busy--;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void session_found(int fd)
{
	struct kymo_conn *conn = kymo_conn_open(fd);

	if (conn)
		kymo_conn_greet(conn, generation);
}

static bool answered(const struct kymo_conn *conn)
{
	return conn->fd < 0 || conn->inherited || (int32_t)(conn->go - generation) >= 0;
}

/* Fills polls from the open connections; inherited ones are watched for the end only. */
static nfds_t poll_set(struct pollfd *polls)
{
	nfds_t count = 0;

	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (conn->fd >= 0)
			polls[count++] = (struct pollfd){
				.fd = conn->fd,
				.events = conn->inherited ? 0 : POLLIN,
			};
	return count;
}

static void receive_all(const struct pollfd *polls, nfds_t count)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		if (conn->fd < 0)
			continue;
		if (!conn->inherited) {
			kymo_conn_receive(conn);
			continue;
		}
		for (nfds_t i = 0; i < count; i++)
			if (polls[i].fd == conn->fd && polls[i].revents & (POLLHUP | POLLERR)) {
				kymo_conn_close(conn);
				break;
			}
	}
}

/*
 * Serves all connections until each has answered the present generation, startup_wait_ms at
 * most.
 */
static void wait_for_answers(void)
{
	int64_t deadline = now_ms() + startup_wait_ms;
	struct pollfd polls[KYMO_CONNS_MAX];

	for (;;) {
		int64_t left = deadline - now_ms();
		bool all = true;
		nfds_t count;

		kymo_lock();
		for (int i = 0; i < (int)KYMO_CONNS_MAX; i++)
			all &= answered(&kymo_conns[i]);
		count = poll_set(polls);
		kymo_unlock();
		if (all || left <= 0)
			return;
		if (poll(polls, count, left < LOOK_MS ? (int)left : LOOK_MS) < 0 && errno != EINTR)
			return;
		kymo_lock();
		receive_all(polls, count);
		kymo_unlock();
	}
}

static void accept_collectors(void)
{
	int fd;

	while ((fd = accept4(own_socket, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		session_found(fd);
}

/*
 * Off the isolated CPUs, where it may, and never in a real-time class: the program's threads keep
 * those.
 */
static void settle_down(void)
{
	const struct sched_param normal = { 0 };
	unsigned first, last;
	cpu_set_t allowed;
	FILE *file;

	prctl(PR_SET_NAME, "kymo");
	sched_setscheduler(0, SCHED_OTHER, &normal);
	file = fopen("/sys/devices/system/cpu/isolated", "re");
	if (!file)
		return;
	memset(&allowed, 0xff, sizeof(allowed));
	while (fscanf(file, "%u", &first) == 1) {
		int next = getc(file);

		last = first;
		if (next == '-' && fscanf(file, "%u", &last) == 1)
			next = getc(file);
		for (unsigned cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
			CPU_CLR(cpu, &allowed);
		if (next != ',')
			break;
	}
	fclose(file);
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

static void *helper(void *unused)
{
	struct pollfd polls[KYMO_CONNS_MAX + 1];

	settle_down();
	if (attach_in_helper) {
		kymo_lock();
		kymo_each_session(session_found);
		kymo_unlock();
	}
	for (;;) {
		nfds_t count;
		bool retry;

		kymo_lock();
		count = poll_set(polls);
		retry = kymo_sessions_retry();
		kymo_unlock();
		polls[count] = (struct pollfd){ .fd = own_socket, .events = POLLIN };
		if (poll(polls, count + 1, retry ? RETRY_MS : -1) < 0 && errno != EINTR)
			break;
		kymo_lock();
		receive_all(polls, count);
		if (polls[count].revents & POLLIN)
			accept_collectors();
		kymo_unlock();
	}
	return unused;
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
static void stay_loaded(void)
{
	void *(*open_library)(const char *file, int mode);
	char *(*forget_error)(void);
	Dl_info info;

	if (!dladdr || !dlsym || !dladdr(&lock, &info) || !info.dli_fname)
		return;
	*(void **)&open_library = dlsym(RTLD_DEFAULT, "dlopen");
	*(void **)&forget_error = dlsym(RTLD_DEFAULT, "dlerror");
	/* For the executable it fails, which needs no answer; nor may the program hear of it. */
	if (open_library && !open_library(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) &&
	    forget_error)
		forget_error();
}

/*
 * Before anything is said: HELLO has the nonce, so that a collector to which we came by ourselves does
 * not visit our socket too. The process id is no name for us, where pid namespaces are.
 */
static void choose_nonce(void)
{
	if (!without_thread)
		kymo_own_nonce = ((uint32_t)(kymo_clock_read() * 2654435761u) ^ (uint32_t)getpid()) | 1;
}

static void start_helper(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	own_socket = kymo_bind_own(kymo_own_nonce);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
	if (pthread_create(&thread, &attr, helper, NULL)) {
		/* Big thread-local storage: the default size holds it. */
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		pthread_create(&thread, &attr, helper, NULL);
	}
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void attach_now(void)
{
	kymo_lock();
	generation++;
	kymo_each_session(session_found);
	kymo_unlock();
	wait_for_answers();
}

static void after_fork_in_child(void)
{
	int saved_errno = errno;

	/* We hold the lock; nobody else is here. Where the kernel does not wipe, this does. */
	pthread_mutex_init(&lock, NULL);
	kymo_self()->busy--;
	if (own_socket >= 0)
		close(own_socket);
	own_socket = -1;
	choose_nonce();
	memset(kymo_process, 0, sizeof(*kymo_process));
	kymo_refresh(kymo_self());
	kymo_conns_after_fork();
	attach_in_helper = kymo_kind == KYMO_KIND_RSEQ;
	if (!attach_in_helper)
		attach_now();
	else
		generation++;
	if (!without_thread)
		start_helper();
	errno = saved_errno;
}

/* What KYMO_START_WAIT asks for: milliseconds; anything else leaves the default. */
static void choose_startup_wait(void)
{
	const char *wait = secure_getenv("KYMO_START_WAIT");
	char *end;
	long ms;

	if (!wait)
		return;
	ms = strtol(wait, &end, 10);
	if (end != wait && !*end && ms >= 0 && ms <= KYMO_STARTUP_WAIT_MAX_MS)
		startup_wait_ms = (int)ms;
}

void kymo_start(void)
{
	int saved_errno = errno;

	choose_startup_wait();
	without_thread = secure_getenv("KYMO_NO_THREAD") != NULL;
	choose_nonce();
	for (int i = 0; i < (int)KYMO_CONNS_MAX; i++)
		kymo_conns[i].fd = -1;
	pthread_atfork(kymo_lock, kymo_unlock, after_fork_in_child);
	attach_now();
	if (!without_thread) {
		stay_loaded();
		start_helper();
	}
	errno = saved_errno;
}

/* kymo_announce: a library came; its constructor waits until its events are switched on. */
void kymo_announce(struct kymo_module *module)
{
	int saved_errno = errno;
	bool anybody = false;

	kymo_lock();
	generation++;
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		if (conn->fd < 0 || conn->inherited)
			continue;
		if (kymo_conn_describe(conn, module))
			anybody |= kymo_conn_send_generation(conn, generation);
	}
	kymo_unlock();
	if (anybody)
		wait_for_answers();
	errno = saved_errno;
}

/* kymo_retract: a library goes. Under kymo_lock. */
void kymo_retract(struct kymo_module *module)
{
	uint32_t count = (uint32_t)(module->events_end - module->events);
	int saved_errno = errno;

	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (conn->fd >= 0 && !conn->inherited)
			kymo_conn_send_gone(conn, module->index_base, count);
	errno = saved_errno;
}
