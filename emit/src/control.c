/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * control.c: when this program talks to collectors: at start, after fork, around dlopen and dlclose
 * [session.md 3]. What is said is session.c's business, how long answers are waited for answers.c's. The
 * helper thread (helper.c) does the talking; other threads wait for it, for a bounded time. Without a
 * helper thread the calling one talks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "runtime_dir.h"
#include "settings.h"
#include "unwind.h"

/*
 * Waits until the helper thread has made its descriptors, where they stand in the program's table: one
 * that is open for a moment must not be there when the program begins to close what it did not open.
 * The lock is held, but while it sleeps.
 */
static void wait_until_settled(void)
{
	int64_t end = kymo_now_ms() + KYMO_STARTUP_WAIT_MS;

	while (!kymo_control.helper_settled && kymo_now_ms() < end) {
		const struct timespec pause = { 0, 50000 };

		kymo_unlock();
		nanosleep(&pause, NULL);
		kymo_lock();
	}
}

static void init_news(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&kymo_control.news, &attr);
	pthread_condattr_destroy(&attr);
}

/*
 * Begins to talk, in a new helper thread or, where there is none, in this one. Returns when all
 * sessions have answered, or the wait is over; at once, where we go on in a parent's rings.
 */
static void begin(bool wait)
{
	kymo_lock();
	kymo_control.generation++;
	if (wait)
		kymo_expect_answers();
	kymo_unlock();
	kymo_control.helper_pid = (uint32_t)getpid();
	/*
	 * Before there is a second thread: with one, the kernel waits for a grace period of RCU, 4 to 15 ms,
	 * where a table of descriptors grows and where a process registers for membarrier.
	 */
	wait = wait && kymo_any_session();
	if (wait)
		kymo_fence_prepare();
	if (!kymo_control.without_thread && !kymo_helper_start()) {
		kymo_control.without_thread = true;
		kymo_own_nonce = 0;
	}
	if (!kymo_control.without_thread && !kymo_fd_can_own_table()) {
		kymo_lock();
		wait_until_settled();
		kymo_unlock();
	}
	if (!wait)
		return;
	kymo_lock();
	if (kymo_control.without_thread) {
		kymo_each_session(kymo_session_found);
		kymo_talk_for_answers();
	} else {
		kymo_wait_for_helper();
	}
	kymo_unlock();
}

static void after_fork_in_child(void)
{
	int saved_errno = errno, cancel_state = kymo_self()->cancel_state;

	/* We hold the lock; nobody else is here. Where the kernel does not wipe, this does. */
	pthread_mutex_init(&kymo_control.lock, NULL);
	init_news();
	kymo_self()->busy--;
	kymo_helper_after_fork();
	memset(kymo_process, 0, sizeof(*kymo_process));
	kymo_refresh(kymo_self());
	kymo_answers_after_fork();
	kymo_conns_after_fork(kymo_control.is_sandboxed);
	kymo_fd_table_is_own = kymo_control.helper_began = kymo_control.helper_settled = kymo_conns_were_lost = false;
	kymo_control.child_goes_on = kymo_kind != KYMO_KIND_PORTABLE;
	kymo_own_begin();
	kymo_control.helper_tid = 0;
	/* What the filter forbids to us may end the child. It records in its parent's rings, or counts [ring.md 6]. */
	if (kymo_control.is_sandboxed)
		kymo_control.without_thread = true;
	kymo_choose_nonce();
	if (!kymo_control.is_sandboxed)
		begin(kymo_kind == KYMO_KIND_PORTABLE);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}

void kymo_start(void)
{
	int saved_errno = errno, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (kymo_settings.startup_wait_ms >= 0)
		kymo_control.startup_wait_ms = kymo_settings.startup_wait_ms;
	kymo_control.without_thread = kymo_settings.without_thread;
	kymo_own_begin();
	kymo_choose_nonce();
	init_news();
	for (int i = 0; i < (int)KYMO_CONNS_MAX; i++)
		kymo_conns[i].socket = KYMO_FD_NONE;
	pthread_atfork(kymo_lock, kymo_unlock, after_fork_in_child);
	if (!kymo_control.without_thread) {
		kymo_helper_stay_loaded();
		kymo_loader_begin();
	}
	begin(true);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}

/*
 * kymo_helper_pause: ends the helper thread for a moment. Returns whether there was one.
 * Context: a thread of the program that is about to call what a second thread forbids.
 */
bool kymo_helper_pause(void)
{
	/* None was started (KYMO_DISABLE, no event yet), or we are a child of vfork, in our parent's memory. */
	if (kymo_control.without_thread || kymo_control.helper_pid != (uint32_t)getpid())
		return false;
	kymo_helper_end();
	return true;
}

/* kymo_helper_resume: behind kymo_helper_pause. Sessions are gone to again, as those of a lost connection. */
void kymo_helper_resume(void)
{
	kymo_lock();
	kymo_control.helper_shall_end = false;
	kymo_control.helper_tid = 0;
	kymo_choose_nonce();
	kymo_unlock();
	begin(false);
}

/*
 * kymo_sandbox_begins: in front of the installation of a filter of system calls (seccomp). What libkymo
 * calls is hardly among those that such a filter lets through, and then the kernel may end the program. So a
 * filter for all threads ends the helper thread; a filter for the calling one leaves it, but children
 * inherit that filter. Returns whether kymo_sandbox_failed is to be called where the kernel refuses.
 * Context: the thread that installs it.
 */
bool kymo_sandbox_begins(bool with_all_threads)
{
	bool has_paused = with_all_threads && kymo_helper_pause();

	if (kymo_control.helper_pid != (uint32_t)getpid())
		return false;
	kymo_lock();
	kymo_control.is_sandboxed = true;
	kymo_control.without_thread |= has_paused;
	kymo_unlock();
	return has_paused;
}

/* kymo_sandbox_failed: there is no filter: the helper thread is there again. */
void kymo_sandbox_failed(void)
{
	kymo_lock();
	kymo_control.is_sandboxed = kymo_control.without_thread = false;
	kymo_unlock();
	kymo_helper_resume();
}

/* kymo_announce: a library came; its constructor waits until its events are switched on. */
void kymo_announce(void)
{
	int saved_errno = errno;
	bool anybody = false;

	kymo_lock();
	kymo_control.generation++;
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		anybody |= kymo_conn_is_open(conn);
	if (anybody && kymo_control.without_thread) {
		kymo_talk_for_answers();
	} else if (anybody) {
		kymo_expect_answers();
		if (kymo_knock())
			kymo_wait_for_helper();
	}
	kymo_unlock();
	errno = saved_errno;
}
