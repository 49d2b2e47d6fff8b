/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * several.c: one record for several sessions [ring.md 5.9]: one clock read for all, unless something came
 * between two of them. What comes between is let in at a test point of entry.c, which is compiled into
 * this program: records of the thread itself, as by a signal handler; a signal whose handler records
 * nothing; a thread that shares the CPU. In each ring timestamps do not decrease, and each record is there
 * once. KYMO_RING=portable takes the portable ring, which reads the clock for each session.
 */
#define _GNU_SOURCE
#include "between.h"

#include "../src/entry.c"

#include "local.h"

#define SESSIONS 3u
#define ROUNDS 60u
#define NUMBERS (1u << 16)

KYMO_EVENT(several, words, (u64, number))
KYMO_EVENT(several, piece, (str, empty), (u64, number), (str, text))

static struct local sessions[SESSIONS];
static uint64_t times[SESSIONS][NUMBERS];
static uint64_t next_number;
static uint64_t shared, apart;

static void record(void)
{
	uint64_t number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);

	if (number % 2)
		kymo_trace(several, words, number);
	else
		kymo_trace(several, piece, "", number, "text");
}

/* Reads all that was published; each record's time goes to times. */
static void read_all(uint32_t session)
{
	for (uint32_t lane = 0; lane < sessions[session].lane_count; lane++) {
		const uint8_t *bytes;
		uint64_t head, last = 0;
		uint32_t used = local_take(&sessions[session], lane, &bytes, &head), at = 0;

		while (at < used) {
			uint64_t word, number;
			bool is_piece;

			memcpy(&word, bytes + at, sizeof(word));
			is_piece = (word & 0xffff) == 2;
			memcpy(&number, bytes + at + 12 + (is_piece ? 2 : 0), sizeof(number));
			CHECK(word >> 16 >= last, "session %u, lane %u, byte %u: time goes back", session, lane, at);
			CHECK(number < NUMBERS && !times[session][number], "session %u: number %lu", session,
			      (unsigned long)number);
			CHECK(is_piece == !(number % 2), "session %u: number %lu is of another event", session,
			      (unsigned long)number);
			CHECK(!is_piece || !memcmp(bytes + at + 22, "\4\0text", 6), "session %u: a text", session);
			times[session][number] = last = word >> 16;
			at += is_piece ? 28 : 20;
		}
		CHECK(at == used, "session %u, lane %u: %u bytes", session, lane, used);
		local_done(&sessions[session], lane, head);
	}
}

/* All numbers that were given are in all sessions. */
static void check(void)
{
	shared = apart = 0;
	for (uint32_t session = 0; session < SESSIONS; session++)
		read_all(session);
	for (uint64_t number = 0; number < next_number; number++)
		for (uint32_t session = 0; session < SESSIONS; session++) {
			CHECK(times[session][number], "session %u: number %lu is missing", session,
			      (unsigned long)number);
			if (session)
				*(times[session][number] == times[session - 1][number] ? &shared : &apart) += 1;
		}
	memset(times, 0, sizeof(times));
	next_number = 0;
}

static void run(enum between between)
{
	CHECK(between_run(between, ROUNDS), "a thread");
	check();
}

int main(void)
{
	const struct kymo_mem header = { .magic = KYMO_MEM_MAGIC };
	bool is_rseq = kymo_kind == KYMO_KIND_RSEQ;
	const uint64_t pairs = ROUNDS * (SESSIONS - 1);

	CHECK(between_prepare(), "cannot pin");
	kymo_thread_init();
	for (uint32_t session = 0; session < SESSIONS; session++) {
		CHECK(!local_attach_at(&sessions[session], session, 1u << 22, is_rseq ? 2 : 4, false, &header),
		      "attach");
		kymo_event_enable(&kymo__event_several_words, session, 1);
		kymo_event_enable(&kymo__event_several_piece, session, 2);
	}
	run(NOTHING);
	/* A tick may have come between. */
	CHECK(!is_rseq || shared >= pairs * 9 / 10, "%lu of %lu with one clock read", (unsigned long)shared,
	      (unsigned long)pairs);
	printf("several sessions (%s): one clock read %lu times of %lu", is_rseq ? "rseq" : "portable",
	       (unsigned long)shared, (unsigned long)pairs);
	for (enum between between = RECORDS; between < BETWEENS && is_rseq; between++) {
		run(between);
		CHECK(apart >= pairs, "%d: interrupted, and %lu of %lu read the clock again", (int)between,
		      (unsigned long)apart, (unsigned long)pairs);
	}
	printf("%s\n", is_rseq ? "; interrupted, never" : "");
	return 0;
}
