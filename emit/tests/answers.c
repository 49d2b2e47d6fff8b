/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * answers.c: who waits for collectors' answers [session.md 3], and a collector that comes when all have
 * answered, before who waited has run: it owes nothing, and the program has not gone on without it. Linked
 * with libkymo.a, whose connections it fills by itself.
 */
#include "local.h"

#include "../src/control.h"

KYMO_EVENT(answers, event)

/* A connection with a collector that has answered a generation. Nothing is sent on it. */
static struct kymo_conn *connection(uint32_t place, uint32_t generation)
{
	struct kymo_conn *conn = &kymo_conns[place];

	*conn = (struct kymo_conn){ .socket = { .number = 1 }, .slot = -1, .awaits = -1, .go = generation };
	return conn;
}

static void wait_until_helper_began(void)
{
	for (int turn = 0; turn < 2000; turn++) {
		bool began;

		kymo_lock();
		began = kymo_control.helper_settled;
		kymo_unlock();
		if (began)
			return;
		usleep(10000);
	}
	CHECK(false, "the helper thread did not begin within 20 s");
}

/* Whether a collector that comes after the others have answered is told that we went on without it. */
static void one_that_comes_behind_the_answers(void)
{
	struct kymo_conn *first, *second;
	bool gone_ahead;
	int left_ms;

	kymo_lock();
	kymo_control.generation++;
	kymo_expect_answers();
	first = connection(0, kymo_control.generation);
	/* What the helper thread does when it has the answer. */
	kymo_end_wait_if_due();
	left_ms = kymo_wait_left_ms();
	second = connection(1, 0);
	kymo_wait_for_helper();
	first->socket = second->socket = KYMO_FD_NONE;
	gone_ahead = kymo_control.gone_ahead;
	kymo_unlock();
	CHECK(left_ms == -1, "all have answered, and somebody waits");
	CHECK(!second->late, "late for a collector that came behind all answers");
	CHECK(!first->late && !gone_ahead, "late for one that has answered");
}

/* One that was there first, and says nothing, is told of it when the wait is over. */
static void one_that_does_not_answer(void)
{
	struct kymo_conn *silent;
	int64_t began, waited;

	kymo_lock();
	kymo_control.startup_wait_ms = 50;
	kymo_control.generation++;
	kymo_expect_answers();
	began = kymo_now_ms();
	silent = connection(0, 0);
	kymo_wait_for_helper();
	waited = kymo_now_ms() - began;
	silent->socket = KYMO_FD_NONE;
	kymo_unlock();
	CHECK(silent->late, "not late");
	CHECK(waited >= 50, "the wait was over after %d ms", (int)waited);
}

int main(void)
{
	kymo_trace(answers, event);
	wait_until_helper_began();
	one_that_comes_behind_the_answers();
	one_that_does_not_answer();
	puts("who waits for answers has waited for those that are owed");
	return 0;
}
