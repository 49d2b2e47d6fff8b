/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * answers.c: waiting for collectors' answers, at the start, around dlopen and after fork [session.md 3]: for how long,
 * what collectors are told meanwhile, and what a child inherits of a wait that was too long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "control.h"
#include "runtime_dir.h"

/* Ranges of events that are gone, and no collector was told yet. */
#define GONE_MAX 256u

/* Somebody waits for answers since then; 0: nobody, because all have come, or LATE was said to the others. */
static int64_t wait_began_ms;
static int64_t last_word_ms;  /* when a collector that owes one said something */
static uint32_t late_said;    /* the generation for which they did */
/* Which collectors owed the parent an answer for too long. */
static pid_t late_for[KYMO_CONNS_MAX];
static uint32_t late_for_count;

static struct {
	uint32_t first, end; /* indices */
} gone[GONE_MAX];
static uint32_t gone_count;

void kymo_session_found(int fd)
{
	struct kymo_conn *conn = kymo_conn_open(fd);

	if (!conn)
		return;
	for (uint32_t i = 0; kymo_control.child_goes_on && i < late_for_count; i++)
		conn->late |= late_for[i] == conn->collector;
	kymo_conn_greet(conn, kymo_control.generation);
	/* The wait is over: who has not heard of us would not miss us if we ended now. */
	if (kymo_control.gone_ahead && !kymo_control.helper_began && kymo_conn_is_open(conn))
		kymo_conn_send_late(conn, kymo_control.generation);
}

static bool answered(const struct kymo_conn *conn)
{
	return !kymo_conn_is_open(conn) || (int32_t)(conn->go - kymo_control.generation) >= 0;
}

bool kymo_all_answered(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (!answered(conn))
			return false;
	return true;
}

/* Fills polls from the open connections. */
nfds_t kymo_poll_set(struct pollfd *polls)
{
	nfds_t count = 0;

	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (kymo_conn_is_open(conn))
			polls[count++] = (struct pollfd){ .fd = conn->socket.number, .events = POLLIN };
	return count;
}

void kymo_receive_all(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		bool owes = !answered(conn);

		if (kymo_conn_is_open(conn) && kymo_conn_receive(conn) && owes)
			last_word_ms = kymo_now_ms();
	}
}

void kymo_expect_answers(void)
{
	wait_began_ms = last_word_ms = kymo_now_ms();
}

/* kymo_helper_has_begun: the helper thread has gone to all sessions; they have the whole time to answer. */
void kymo_helper_has_begun(void)
{
	kymo_control.helper_began = true;
	kymo_control.child_goes_on = false;
	last_word_ms = kymo_now_ms();
}

/* The longest that is waited for answers, whoever is to blame. */
static int64_t last_end_ms(void)
{
	return wait_began_ms + (int64_t)kymo_control.startup_wait_ms * KYMO_STARTUP_WAITS_MAX;
}

/*
 * When the wait for answers is over: a collector that is silent for startup_wait_ms does not run. One
 * that speaks is given more, in which large rings are touched, say.
 */
static int64_t wait_end_ms(void)
{
	int64_t silent = last_word_ms + kymo_control.startup_wait_ms;

	return silent < last_end_ms() ? silent : last_end_ms();
}

/* When collectors hear that it is over: the last part of the time is the helper thread's own, to say so. */
static int64_t late_due_ms(void)
{
	return wait_end_ms() - kymo_control.startup_wait_ms / 8;
}

/* Tells collectors of the objects that went and came since they were told last. */
void kymo_say_news(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		for (uint32_t i = 0; i < gone_count && kymo_conn_is_open(conn); i++) {
			uint32_t end = gone[i].end < conn->described_end ? gone[i].end : conn->described_end;

			if (gone[i].first < end)
				kymo_conn_send_gone(conn, gone[i].first, end - gone[i].first);
		}
		if (kymo_conn_is_open(conn) && conn->said != kymo_control.generation)
			kymo_conn_describe_new(conn, kymo_control.generation);
	}
	gone_count = 0;
}

/* The wait is over: those who have not answered hear that the program goes on [session.md 3]. */
static void say_late(void)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (!answered(conn))
			kymo_conn_send_late(conn, kymo_control.generation);
	wait_began_ms = 0;
	late_said = kymo_control.generation;
}

/* kymo_end_wait_if_due: for the helper thread. All have answered, or hear that the wait is over. */
void kymo_end_wait_if_due(void)
{
	if (wait_began_ms && kymo_all_answered())
		wait_began_ms = 0;
	else if (wait_began_ms && kymo_now_ms() >= late_due_ms())
		say_late();
}

/* kymo_wait_left_ms: until the helper thread says that the wait is over; -1 where nobody waits. */
int kymo_wait_left_ms(void)
{
	int64_t left = late_due_ms() - kymo_now_ms();

	if (!wait_began_ms)
		return -1;
	return left < 0 ? 0 : (int)left;
}

/*
 * Serves all connections until each has answered the present generation, or the wait is over: the
 * calling thread's own work, where there is no helper thread. The lock is held, but while it sleeps.
 */
void kymo_talk_for_answers(void)
{
	struct pollfd polls[KYMO_CONNS_MAX];

	kymo_expect_answers();
	kymo_say_news();
	while (!kymo_all_answered()) {
		int64_t left = wait_end_ms() - kymo_now_ms();
		nfds_t count = kymo_poll_set(polls);
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
		kymo_receive_all();
	}
}

/*
 * Waits until the helper thread has the answers of all collectors to the present generation, or has said
 * that the wait is over, which whoever calls has begun. Only the helper thread can say that, in whose table
 * of descriptors the connections are; so it is waited for where it is held up: a program that went on, and
 * ended before it ran, would be missed by nobody. The lock is held, but while it sleeps. A collector that
 * comes when all have answered owes nothing to this wait, though the caller may hear of both at once.
 */
void kymo_wait_for_helper(void)
{
	uint32_t awaited = kymo_control.generation;
	int cancel_state;

	/* Who is cancelled in pthread_cond_timedwait takes the lock with it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	while (wait_began_ms && (int32_t)(late_said - awaited) < 0 && (!kymo_control.helper_began || !kymo_all_answered())) {
		int64_t end = last_end_ms();
		const struct timespec deadline = { end / 1000, end % 1000 * 1000000 };

		if (pthread_cond_timedwait(&kymo_control.news, &kymo_control.lock, &deadline) && kymo_now_ms() >= last_end_ms()) {
			/* The helper thread says it later; a child must know it at once. */
			for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
				conn->late |= !answered(conn) && !conn->go;
			kymo_control.gone_ahead |= !kymo_control.helper_began;
			break;
		}
	}
	pthread_setcancelstate(cancel_state, NULL);
}

/*
 * Who runs when a session comes joins it when it can, and its children with it. But where the session
 * was there first and did not answer in time, records of both are missing [session.md 3].
 */
static void inherit_lateness(void)
{
	/* Else we have gone to nobody yet: what our parent left is right for our child, too. */
	if (kymo_control.helper_began)
		late_for_count = 0;
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (kymo_conn_is_open(conn) && conn->late && late_for_count < KYMO_CONNS_MAX)
			late_for[late_for_count++] = conn->collector;
}

/* kymo_answers_after_fork: in the child, while the connections are still as its parent had them. */
void kymo_answers_after_fork(void)
{
	inherit_lateness();
	kymo_control.gone_ahead &= !kymo_control.helper_began;
	gone_count = 0;
	wait_began_ms = 0;
	late_said = kymo_control.generation;
}

/*
 * kymo_retract: a library goes. Collectors hear of it with the next news, or when there are many;
 * until then they know events that do not exist. Under kymo_lock.
 */
void kymo_retract(const struct kymo_module *module)
{
	uint32_t end = module->index_base + kymo_event_count(module);
	int saved_errno = errno;

	if (gone_count && gone[gone_count - 1].end == module->index_base) {
		gone[gone_count - 1].end = end;
	} else if (gone_count < GONE_MAX) {
		gone[gone_count].first = module->index_base;
		gone[gone_count++].end = end;
	}
	if (kymo_control.without_thread)
		kymo_say_news();
	else if (gone_count > GONE_MAX / 2)
		kymo_knock();
	errno = saved_errno;
}
