/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * control.c: when this program talks to collectors: at start, after fork, around dlopen and dlclose
 * [session.md 3]. What is said is session.c's business. The helper thread does the talking, with
 * descriptors that the program does not have, and sleeps in poll until somebody speaks; other threads
 * wait for it, for a bounded time. Without a helper thread the calling one talks.
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
#include "unwind.h"

#define HELPER_STACK_BYTES (128 * 1024)
/* How often the helper thread tries again to unmap what a thread was still inside of. */
#define RETRY_MS 200
/* How often it looks whether a session lives with which it has no connection. */
#define ORPHANS_MS 1000
/* Ranges of events that are gone, and no collector was told yet. */
#define GONE_MAX 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news; /* the helper thread has begun, or a collector has spoken */
static uint32_t generation;
uint32_t kymo_own_nonce;
static struct kymo_fd own_socket = { .number = -1 };
static bool without_thread;
static bool helper_began;   /* it has gone to all sessions that it found */
static bool helper_settled; /* it opens nothing more until somebody speaks */
static int startup_wait_ms = KYMO_STARTUP_WAIT_MS;
static int64_t orphans_due_ms;
static int64_t wait_began_ms; /* somebody waits for answers since then; 0: nobody */
static int64_t last_word_ms;  /* when a collector that owes one said something */
static uint32_t late_said;  /* the generation for which they did */
static bool gone_ahead;     /* the program went on before the helper thread had gone to the sessions */
/* Forked, and the child did not wait; which collectors owed the parent an answer for too long. */
static bool child_goes_on;
static pid_t late_for[KYMO_CONNS_MAX];
static uint32_t late_for_count;

static struct {
	uint32_t first, end; /* indices */
} gone[GONE_MAX];
static uint32_t gone_count;

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

	if (!conn)
		return;
	for (uint32_t i = 0; child_goes_on && i < late_for_count; i++)
		conn->late |= late_for[i] == conn->collector;
	conn->late |= gone_ahead && !helper_began;
	kymo_conn_greet(conn, generation);
}

static bool answered(const struct kymo_conn *conn)
{
	return !kymo_conn_is_open(conn) || (int32_t)(conn->go - generation) >= 0;
}

static bool all_answered(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (!answered(conn))
			return false;
	return true;
}

/* Fills polls from the open connections. */
static nfds_t poll_set(struct pollfd *polls)
{
	nfds_t count = 0;

	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (kymo_conn_is_open(conn))
			polls[count++] = (struct pollfd){ .fd = conn->socket.number, .events = POLLIN };
	return count;
}

static void receive_all(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		bool owes = !answered(conn);

		if (kymo_conn_is_open(conn) && kymo_conn_receive(conn) && owes)
			last_word_ms = now_ms();
	}
}

static void expect_answers(void)
{
	wait_began_ms = last_word_ms = now_ms();
}

/*
 * When the wait for answers is over: a collector that is silent for startup_wait_ms does not run. One
 * that speaks is given more, in which large rings are touched, say.
 */
static int64_t wait_end_ms(void)
{
	int64_t silent = last_word_ms + startup_wait_ms;
	int64_t most = wait_began_ms + (int64_t)startup_wait_ms * KYMO_STARTUP_WAITS_MAX;

	return silent < most ? silent : most;
}

/* When collectors hear that it is over: the last part of the time is the helper thread's own, to say so. */
static int64_t late_due_ms(void)
{
	return wait_end_ms() - startup_wait_ms / 8;
}

/* Tells collectors of the objects that went and came since they were told last. */
static void say_news(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		for (uint32_t i = 0; i < gone_count && kymo_conn_is_open(conn); i++) {
			uint32_t end = gone[i].end < conn->described_end ? gone[i].end : conn->described_end;

			if (gone[i].first < end)
				kymo_conn_send_gone(conn, gone[i].first, end - gone[i].first);
		}
		if (kymo_conn_is_open(conn) && conn->said != generation)
			kymo_conn_describe_new(conn, generation);
	}
	gone_count = 0;
}

/* The wait is over: those who have not answered hear that the program goes on [session.md 3]. */
static void say_late(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (!answered(conn))
			kymo_conn_send_late(conn, generation);
	wait_began_ms = 0;
	late_said = generation;
}

/*
 * Serves all connections until each has answered the present generation, or the wait is over: the
 * calling thread's own work, where there is no helper thread. The lock is held, but while it sleeps.
 */
static void talk_for_answers(void)
{
	struct pollfd polls[KYMO_CONNS_MAX];

	expect_answers();
	say_news();
	while (!all_answered()) {
		int64_t left = wait_end_ms() - now_ms();
		nfds_t count = poll_set(polls);
		int ready;

		if (left <= 0) {
			say_late();
			return;
		}
		kymo_unlock();
		ready = poll(polls, count, (int)left);
		kymo_lock();
		if (ready < 0 && errno != EINTR)
			return;
		receive_all();
	}
}

/*
 * Waits until the helper thread has the answers of all collectors to the present generation, or the
 * wait is over, which whoever calls has begun. The lock is held, but while it sleeps.
 */
static void wait_for_helper(void)
{
	uint32_t awaited = generation;
	int cancel_state;

	/* Who is cancelled in pthread_cond_timedwait takes the lock with it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	while ((int32_t)(late_said - awaited) < 0 && (!helper_began || !all_answered())) {
		int64_t end = wait_end_ms();
		const struct timespec deadline = { end / 1000, end % 1000 * 1000000 };

		if (pthread_cond_timedwait(&news, &lock, &deadline) && now_ms() >= wait_end_ms()) {
			/* The helper thread, which is held up too, says it later; a child must know it at once. */
			for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
				conn->late |= !answered(conn) && !conn->go;
			gone_ahead |= !helper_began;
			break;
		}
	}
	pthread_setcancelstate(cancel_state, NULL);
}

/*
 * Waits until the helper thread has made its descriptors, where they stand in the program's table: one
 * that is open for a moment must not be there when the program begins to close what it did not open.
 * The lock is held, but while it sleeps.
 */
static void wait_until_settled(void)
{
	int64_t end = now_ms() + KYMO_STARTUP_WAIT_MS;

	while (!helper_settled && now_ms() < end) {
		const struct timespec pause = { 0, 50000 };

		kymo_unlock();
		nanosleep(&pause, NULL);
		kymo_lock();
	}
}

static void accept_collectors(void)
{
	struct kymo_fd came;

	while (kymo_fd_is_ours(&own_socket)) {
		came = kymo_fd_keep(accept4(own_socket.number, NULL, NULL, SOCK_CLOEXEC));
		if (came.number < 0)
			return;
		if (kymo_peer_is_us(came.number))
			kymo_fd_close(&came); /* see kymo_knock */
		else
			session_found(came.number);
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
static void choose_nonce(void)
{
	if (!without_thread)
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
	choose_nonce();
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
	bool is_due = now_ms() >= orphans_due_ms;
	bool left = false;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		const char *session = kymo_slot_session(slot);

		if (!session || kymo_slot_is_served(slot))
			continue;
		if (is_due && kymo_session_has_ended(session))
			kymo_slot_off(slot);
		else
			left = true;
	}
	if (is_due)
		orphans_due_ms = now_ms() + ORPHANS_MS;
	return left;
}

/* One round of the helper thread: what is to be done, then sleep until somebody speaks. */
static bool serve(void)
{
	struct pollfd polls[KYMO_CONNS_MAX + 1];
	int timeout = -1, ready, unwind_ms;
	nfds_t count;

	repair();
	say_news();
	if (wait_began_ms && all_answered())
		wait_began_ms = 0;
	else if (wait_began_ms && now_ms() >= late_due_ms())
		say_late();
	pthread_cond_broadcast(&news);
	if (look_for_orphans() || kymo_conns_were_lost)
		timeout = ORPHANS_MS;
	if (kymo_sessions_retry())
		timeout = RETRY_MS;
	if (kymo_sessions_make_ready())
		timeout = 0;
	unwind_ms = kymo_unwind_serve();
	if (unwind_ms >= 0 && (timeout < 0 || unwind_ms < timeout))
		timeout = unwind_ms;
	if (wait_began_ms) {
		int64_t left = late_due_ms() - now_ms();

		left = left < 0 ? 0 : left;
		timeout = timeout < 0 || left < timeout ? (int)left : timeout;
	}
	count = poll_set(polls);
	polls[count++] = (struct pollfd){ .fd = own_socket.number, .events = POLLIN };
	kymo_unlock();
	ready = poll(polls, count, timeout);
	kymo_lock();
	if (ready < 0)
		return errno == EINTR;
	receive_all();
	if (polls[count - 1].revents & POLLIN)
		accept_collectors();
	return true;
}

static void *helper(void *unused)
{
	kymo_fd_own_table();
	settle_down();
	kymo_stack_learn();
	kymo_lock();
	kymo_unwind_begin();
	kymo_each_session(session_found);
	helper_began = true;
	child_goes_on = false;
	orphans_due_ms = now_ms() + ORPHANS_MS;
	own_socket = kymo_fd_keep(kymo_bind_own(kymo_own_nonce));
	helper_settled = true;
	while (serve())
		;
	kymo_unlock();
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

static bool start_helper(void)
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

static void init_news(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&news, &attr);
	pthread_condattr_destroy(&attr);
}

/*
 * Begins to talk, in a new helper thread or, where there is none, in this one. Returns when all
 * sessions have answered, or the wait is over; at once, where we go on in a parent's rings.
 */
static void begin(bool wait)
{
	kymo_lock();
	generation++;
	if (wait)
		expect_answers();
	kymo_unlock();
	if (!without_thread && !start_helper()) {
		without_thread = true;
		kymo_own_nonce = 0;
	}
	if (!without_thread && !kymo_fd_can_own_table()) {
		kymo_lock();
		wait_until_settled();
		kymo_unlock();
	}
	if (!wait || !kymo_any_session())
		return;
	kymo_lock();
	if (without_thread) {
		kymo_each_session(session_found);
		talk_for_answers();
	} else {
		wait_for_helper();
	}
	kymo_unlock();
}

/*
 * Who runs when a session comes joins it when it can, and its children with it. But where the session
 * was there first and did not answer in time, records of both are missing [session.md 3].
 */
static void inherit_lateness(void)
{
	/* Else we have gone to nobody yet: what our parent left is right for our child, too. */
	if (helper_began)
		late_for_count = 0;
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (kymo_conn_is_open(conn) && conn->late && late_for_count < KYMO_CONNS_MAX)
			late_for[late_for_count++] = conn->collector;
}

static void after_fork_in_child(void)
{
	int saved_errno = errno;

	/* We hold the lock; nobody else is here. Where the kernel does not wipe, this does. */
	pthread_mutex_init(&lock, NULL);
	init_news();
	kymo_self()->busy--;
	if (kymo_fd_table_is_own)
		own_socket = KYMO_FD_NONE;
	kymo_fd_close(&own_socket);
	memset(kymo_process, 0, sizeof(*kymo_process));
	kymo_refresh(kymo_self());
	inherit_lateness();
	gone_ahead &= !helper_began;
	kymo_conns_after_fork();
	kymo_fd_table_is_own = helper_began = helper_settled = kymo_conns_were_lost = false;
	gone_count = 0;
	wait_began_ms = 0;
	late_said = generation;
	child_goes_on = kymo_kind != KYMO_KIND_PORTABLE;
	kymo_own_begin();
	choose_nonce();
	begin(kymo_kind == KYMO_KIND_PORTABLE);
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
	kymo_own_begin();
	choose_nonce();
	init_news();
	for (int i = 0; i < (int)KYMO_CONNS_MAX; i++)
		kymo_conns[i].socket = KYMO_FD_NONE;
	pthread_atfork(kymo_lock, kymo_unlock, after_fork_in_child);
	if (!without_thread) {
		stay_loaded();
		kymo_loader_begin();
	}
	begin(true);
	errno = saved_errno;
}

/* kymo_announce: a library came; its constructor waits until its events are switched on. */
void kymo_announce(void)
{
	int saved_errno = errno;
	bool anybody = false;

	kymo_lock();
	generation++;
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		anybody |= kymo_conn_is_open(conn);
	if (anybody && without_thread) {
		talk_for_answers();
	} else if (anybody) {
		expect_answers();
		if (kymo_knock())
			wait_for_helper();
	}
	kymo_unlock();
	errno = saved_errno;
}

/*
 * kymo_retract: a library goes. Collectors hear of it with the next news, or when there are many;
 * until then they know events that do not exist. Under kymo_lock.
 */
void kymo_retract(const struct kymo_module *module)
{
	uint32_t end = module->index_base + (uint32_t)(module->events_end - module->events);
	int saved_errno = errno;

	if (gone_count && gone[gone_count - 1].end == module->index_base) {
		gone[gone_count - 1].end = end;
	} else if (gone_count < GONE_MAX) {
		gone[gone_count].first = module->index_base;
		gone[gone_count++].end = end;
	}
	if (without_thread)
		say_news();
	else if (gone_count > GONE_MAX / 2)
		kymo_knock();
	errno = saved_errno;
}
