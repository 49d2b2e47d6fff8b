/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter.c VECTORS [CHANGED]: filters inside of the program. The vectors that every implementation must agree
 * on; changed programs against an interpreter that follows filter.md 6 word by word, on payloads
 * that end at a page that cannot be read; and records through a ring, from signal handlers too.
 */
#include "local.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

/* As part of this file, so that more programs fit than a process may have. */
#define KYMO_FILTERS_BYTES_MAX (1u << 30)
#include "../src/filter_make.c"

KYMO_EVENT(filter, step, (u32, axis), (f64, position), (str, note), (u32, size))
KYMO_EVENT(filter, words, (u32, axis), (f64, position))
KYMO_EVENT(filter, all, (u32, axis))

#define PAYLOAD_MAX 512
#define VECTORS_MAX 400

struct vector {
	char outcome[8];
	unsigned min_bytes;
	uint8_t insns[KYMO_FILTER_INSNS_MAX * 16 + 16], pool[KYMO_FILTER_POOL_MAX + 8], payload[PAYLOAD_MAX];
	size_t insns_bytes, pool_bytes, payload_bytes;
};

static struct vector vectors[VECTORS_MAX];
static unsigned vector_count;
static uint64_t seed = 1;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* The interpreter of the specification. */
static bool number_test(const struct kymo_filter_insn *insn, const uint8_t *pool, const uint8_t *at)
{
	uint8_t type = insn->type & 0x3f;
	uint64_t value = 0;
	double number = 0, constant;
	int order;

	if (type == KYMO_FILTER_F32) {
		float narrow;

		memcpy(&narrow, at, 4);
		number = narrow;
	} else if (type == KYMO_FILTER_F64) {
		memcpy(&number, at, 8);
	} else if (type == KYMO_FILTER_BOOL) {
		value = *at != 0;
	} else {
		size_t width = type == KYMO_FILTER_LEN ? 2 : (size_t)1 << (type - 1) % 4;

		memcpy(&value, at, width);
		if (type >= KYMO_FILTER_I8 && type <= KYMO_FILTER_I64 && width < 8 && value >> (width * 8 - 1))
			value |= UINT64_MAX << width * 8;
	}
	if (type == KYMO_FILTER_F32 || type == KYMO_FILTER_F64) {
		memcpy(&constant, &insn->imm, 8);
		if (number != number || constant != constant)
			return false;
		order = (number > constant) - (number < constant);
	} else if (insn->type & KYMO_FILTER_MASKED) {
		uint64_t mask;

		memcpy(&mask, pool + insn->aux, 8);
		order = ((value & mask) > insn->imm) - ((value & mask) < insn->imm);
	} else if (type >= KYMO_FILTER_I8 && type <= KYMO_FILTER_I64) {
		order = ((int64_t)value > (int64_t)insn->imm) - ((int64_t)value < (int64_t)insn->imm);
	} else {
		order = (value > insn->imm) - (value < insn->imm);
	}
	return insn->op == KYMO_FILTER_EQ ? order == 0 : insn->op == KYMO_FILTER_LT ? order < 0 :
	       insn->op == KYMO_FILTER_LE ? order <= 0 : insn->op == KYMO_FILTER_GT ? order > 0 : order >= 0;
}

static bool text_test(const struct kymo_filter_insn *insn, const uint8_t *pool, const uint8_t *text, size_t bytes)
{
	if (insn->op == KYMO_FILTER_STR_EQ ? bytes != insn->imm : bytes < insn->imm)
		return false;
	return !memcmp(insn->op == KYMO_FILTER_STR_SUFFIX ? text + bytes - insn->imm : text, pool + insn->aux,
		       insn->imm);
}

static bool expected(const struct vector *v, size_t bytes)
{
	static const uint8_t widths[] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 1, 2, 2 };
	size_t base = 0;
	uint8_t next = 0;

	while (next < KYMO_FILTER_REJECT) {
		struct kymo_filter_insn insn;
		uint16_t count;
		bool holds = true;

		memcpy(&insn, v->insns + next * 16, 16);
		if (insn.op == KYMO_FILTER_WALK) {
			base = 0;
			for (unsigned i = 0; i < insn.offset; i++) {
				uint16_t entry[2];

				memcpy(entry, v->pool + insn.aux + 4 * i, 4);
				base += entry[0];
				if (base + 2 > bytes)
					return true;
				memcpy(&count, v->payload + base, 2);
				base += 2 + (size_t)count * entry[1];
			}
		} else if (insn.op != KYMO_FILTER_ALWAYS) {
			size_t at = insn.offset + (insn.type & KYMO_FILTER_BEHIND ? base : 0);

			if (at + widths[insn.type & 0x3f] > bytes)
				return true;
			if ((insn.type & 0x3f) == KYMO_FILTER_STR) {
				memcpy(&count, v->payload + at, 2);
				if (at + 2 + count > bytes)
					return true;
				holds = text_test(&insn, v->pool, v->payload + at + 2, count);
			} else {
				holds = number_test(&insn, v->pool, v->payload + at);
			}
		}
		next = holds ? insn.jump_true : insn.jump_false;
	}
	return next == KYMO_FILTER_ACCEPT;
}

static const struct kymo_filter *make(const struct kymo_filters *filters, const struct vector *v)
{
	const struct kymo_filter *made = NULL;

	kymo_filter_make(filters, v->insns, (uint32_t)(v->insns_bytes / 16), v->pool, (uint32_t)v->pool_bytes,
			 v->min_bytes, &made);
	return made;
}

/* Runs a vector over its first bytes, in pieces of every kind, at the end of what can be read. */
static void run_all_ways(const struct vector *v, size_t bytes, bool accepts)
{
	static uint8_t *page;
	uint64_t words[PAYLOAD_MAX / 8 + 2] = { 0 };
	uint32_t staged = bytes < 22 ? 0 : 22;

	if (!page) {
		page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(page != MAP_FAILED && !mprotect(page + 4096, 4096, PROT_NONE), "page");
	}
	memcpy(page + 4096 - bytes, v->payload, bytes);
	memcpy(words, v->payload, staged);
	for (uint32_t of_them = 0; of_them <= staged; of_them += 22) {
		struct kymo_filters filters = { .min_bytes = v->min_bytes, .staged_bytes = of_them };
		size_t middle = of_them + (size_t)(random_number() % (bytes - of_them + 1));
		const uint8_t *at = page + 4096 - bytes;
		struct kymo_seg segs[3] = { { words, of_them | KYMO_SEG_STAGED },
					    { at + of_them, middle - of_them }, { at + middle, bytes - middle } };
		struct kymo_seg one = { at, bytes };
		const struct kymo_filter *filter = make(&filters, v);

		CHECK(filter, "refused");
		CHECK(make(&filters, v) == filter, "equal programs are one");
		filters.of[3] = filter;
		filters.min_bytes = 0;
		CHECK(kymo_filters_pass(&filters, 9, segs, segs + 3, bytes) == (accepts ? 9 : 1),
		      "in pieces, %u staged, %zu bytes", of_them, bytes);
		CHECK(kymo_filters_pass(&filters, 8, &one, &one + 1, bytes) == (accepts ? 8 : 0), "in one piece");
		if (filter->chain && of_them && kymo_filter_rejects(filter, words))
			CHECK(!accepts, "the chain rejects");
	}
}

static size_t unhex(const char *text, uint8_t *to, size_t bytes_max)
{
	size_t count = 0;
	unsigned byte;

	for (; *text != '-' && sscanf(text, "%2x", &byte) == 1; text += 2) {
		CHECK(count < bytes_max, "too long");
		to[count++] = (uint8_t)byte;
	}
	return count;
}

static void read_vectors(const char *path)
{
	static char line[65536], insns[20000], pool[20000], payload[2000];
	FILE *file = fopen(path, "r");

	CHECK(file, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		struct vector *v = &vectors[vector_count];

		if (*line == '#' || *line == '\n')
			continue;
		CHECK(vector_count < VECTORS_MAX && sscanf(line, "%7s %u %19999s %19999s %1999s", v->outcome,
							    &v->min_bytes, insns, pool, payload) == 5, "%s", line);
		v->insns_bytes = unhex(insns, v->insns, sizeof(v->insns));
		v->pool_bytes = unhex(pool, v->pool, sizeof(v->pool));
		v->payload_bytes = unhex(payload, v->payload, sizeof(v->payload));
		vector_count++;
	}
	fclose(file);
	CHECK(vector_count > 80, "%u vectors", vector_count);
}

static void test_vectors(void)
{
	unsigned refused = 0;

	for (struct vector *v = vectors; v < vectors + vector_count; v++) {
		struct kymo_filters filters = { .min_bytes = v->min_bytes };

		if (!strcmp(v->outcome, "refuse")) {
			CHECK(!make(&filters, v), "vector %td", v - vectors);
			refused++;
			continue;
		}
		CHECK(expected(v, v->payload_bytes) == !strcmp(v->outcome, "accept"), "vector %td", v - vectors);
		run_all_ways(v, v->payload_bytes, !strcmp(v->outcome, "accept"));
		/* It counts on more than the event has. */
		filters.min_bytes = v->min_bytes - 1;
		CHECK(!v->min_bytes || !make(&filters, v), "vector %td, a shorter event", v - vectors);
	}
	printf("%u vectors, %u of them refused\n", vector_count, refused);
}

/* Changed programs: refused, or run as the specification says, on payloads cut anywhere. */
static int changed_max = 400000;

static void test_changed(void)
{
	unsigned run = 0, refused = 0;

	for (int i = 0; i < changed_max; i++) {
		static struct vector v;
		struct kymo_filters filters = { .min_bytes = UINT16_MAX };

		programs = i % 64 ? programs : NULL;
		v = vectors[random_number() % vector_count];
		for (unsigned changes = (unsigned)(random_number() % 4) + 1; changes; changes--) {
			uint8_t value = (uint8_t)(random_number() >> (random_number() % 8));

			if (v.insns_bytes && random_number() % 4)
				v.insns[random_number() % v.insns_bytes] = value;
			else if (v.pool_bytes && random_number() % 2)
				v.pool[random_number() % v.pool_bytes] = value;
			else if (v.payload_bytes)
				v.payload[random_number() % v.payload_bytes] ^= value;
		}
		if (!make(&filters, &v)) {
			refused++;
			continue;
		}
		run++;
		run_all_ways(&v, v.payload_bytes, expected(&v, v.payload_bytes));
		if (v.payload_bytes > v.min_bytes) {
			size_t cut = v.min_bytes + random_number() % (v.payload_bytes - v.min_bytes);

			run_all_ways(&v, cut, expected(&v, cut));
		}
	}
	CHECK(run > (unsigned)changed_max / 20 && refused > (unsigned)changed_max / 20, "%u run, %u refused", run, refused);
	printf("%u changed programs run, %u refused\n", run, refused);
}

/* axis == 2 && position > 0.5 */
static const struct kymo_filter_insn two[] = {
	{ KYMO_FILTER_EQ, KYMO_FILTER_U32, 1, KYMO_FILTER_REJECT, 0, 0, 2 },
	{ KYMO_FILTER_GT, KYMO_FILTER_F64, KYMO_FILTER_ACCEPT, KYMO_FILTER_REJECT, 4, 0, 0x3fe0000000000000 },
};
/* note ~ "a*" && size == 7: the size lies behind the text */
static const struct kymo_filter_insn behind[] = {
	{ KYMO_FILTER_STR_PREFIX, KYMO_FILTER_STR, 1, KYMO_FILTER_REJECT, 12, 4, 1 },
	{ KYMO_FILTER_WALK, 0, 2, 2, 1, 0, 0 },
	{ KYMO_FILTER_EQ, KYMO_FILTER_U32 | KYMO_FILTER_BEHIND, KYMO_FILTER_ACCEPT, KYMO_FILTER_REJECT, 0, 0, 7 },
};
static const uint8_t behind_pool[] = { 12, 0, 1, 0, 'a' };

static struct local local;

static void set_filter(struct kymo_event *event, const struct kymo_filter_insn *insns, uint32_t count,
		       const uint8_t *pool, uint32_t pool_bytes, uint32_t min_bytes)
{
	struct kymo_filters *filters = kymo_event_filters(event);

	const struct kymo_filter *made;

	CHECK(!kymo_filter_make(filters, (const uint8_t *)insns, count, pool, pool_bytes, min_bytes, &made), "refused");
	kymo_event_filter(event, 0, made);
}

/* How many records came since the last call, on all lanes. Of words, those with axis 2 only. */
static unsigned take_records(void)
{
	unsigned count = 0;

	for (uint32_t lane = 0; lane < local.lane_count; lane++) {
		const struct kymo_ring *ring = local_ring(&local, lane);
		const uint8_t *bytes;
		uint64_t head;

		count += (unsigned)((__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) >> 32) - (ring->tail >> 32));
		if (local_take(&local, lane, &bytes, &head) && bytes[0] == 2)
			CHECK(bytes[12] == 2, "axis %u", bytes[12]);
		local_done(&local, lane, head);
	}
	return count;
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
	kymo_trace(filter, words, 2, 0.75);
	kymo_trace(filter, words, 3, 0.75);
	kymo_trace(filter, step, 1, 0, "abc", 7);
	kymo_trace(filter, step, 1, 0, "xbc", 7);
}

static void test_records(void)
{
	local_attach(&local, 1u << 20, 1 + (kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1),
		     false);
	set_filter(&kymo__event_filter_step, behind, 3, behind_pool, sizeof(behind_pool), 18);
	set_filter(&kymo__event_filter_words, two, 2, behind_pool, 0, 12);
	local_enable(&kymo__event_filter_step, 1);
	local_enable(&kymo__event_filter_words, 2);
	local_enable(&kymo__event_filter_all, 3);
	CHECK((kymo__event_filter_all.first == &kymo_process->alone[0]) == (kymo_kind == KYMO_KIND_PORTABLE),
	      "an event without a filter is written inline");
	for (uint32_t axis = 0; axis < 4; axis++)
		for (int quarter = 0; quarter < 4; quarter++)
			kymo_trace(filter, words, axis, quarter * 0.25);
	CHECK(take_records() == 1, "axis 2, position 0.75");
	for (uint32_t size = 0; size < 16; size++) {
		kymo_trace(filter, step, 0, 0, "a text of some length", size);
		kymo_trace(filter, step, 0, 0, "another", size);
		kymo_trace(filter, step, 0, 0, "", size);
		kymo_trace(filter, step, 0, 0, "b", size);
		kymo_trace(filter, all, size);
	}
	CHECK(take_records() == 2 + 16, "two notes with size 7, all without a filter");
	CHECK(!local_lost(&local), "lost");
}

/* A timer's handler traces in the middle of filters and records. */
static void test_handlers(void)
{
	struct sigaction action = { .sa_handler = handler };
	struct itimerspec often = { { 0, 20000 }, { 0, 20000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	unsigned written = 0, wanted = 0;
	timer_t timer;

	sigaction(SIGALRM, &action, NULL);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, 0, &often, NULL), "timer");
	for (int i = 0; handled < 2000; i++) {
		kymo_trace(filter, words, (uint32_t)i % 4, i % 8 * 0.125);
		wanted += i % 4 == 2 && i % 8 * 0.125 > 0.5;
		kymo_trace(filter, step, 0, 0, "ab", (uint32_t)i % 8);
		wanted += i % 8 == 7;
		if (i % 64 == 0) {
			sigset_t alarm, before;

			sigemptyset(&alarm);
			sigaddset(&alarm, SIGALRM);
			sigprocmask(SIG_BLOCK, &alarm, &before);
			written += take_records();
			sigprocmask(SIG_SETMASK, &before, NULL);
		}
	}
	timer_delete(timer);
	written += take_records();
	CHECK(!local_lost(&local), "lost");
	CHECK(written == wanted + 2 * (unsigned)handled, "%u written, %u wanted, %d handlers", written, wanted,
	      (int)handled);
	printf("%d handlers amid %u records\n", (int)handled, wanted);
}

/* What was set goes with the session; the event is inline again. */
static void test_end(void)
{
	kymo_slot_disable_all(0);
	CHECK(!kymo__event_filter_words.first && !kymo__event_filter_words.filters->of[0], "off");
	kymo_trace(filter, words, 2, 0.75);
	CHECK(take_records() == 0, "a record of no session");
	local_enable(&kymo__event_filter_words, 2);
	CHECK((kymo__event_filter_words.first == &kymo_process->slots[0]) == (kymo_kind == KYMO_KIND_RSEQ), "inline");
	kymo_trace(filter, words, 2, 0);
	CHECK(take_records() == 1, "all are wanted again");
}

static void tell(struct kymo_conn *conn, int fd, const void *message, size_t bytes)
{
	CHECK(send(fd, message, bytes, 0) == (ssize_t)bytes, "sent");
	kymo_conn_receive(conn);
}

/* What a collector says: a good filter, bad ones that change nothing, none, and a message that is none. */
static void test_messages(void)
{
	struct {
		struct kymo_msg_filter head;
		struct kymo_filter_insn insns[2];
	} message = { { { KYMO_MSG_FILTER, sizeof(message) }, 0, 2, 0, 12, { 0 } }, { two[0], two[1] } }, bad = message;
	const struct kymo_filter **set = kymo_event_filters(&kymo__event_filter_words)->of;
	const struct kymo_filter *good;
	struct kymo_conn *conn;
	int fds[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), "sockets");
	kymo_lock();
	conn = kymo_conn_open(fds[0]);
	CHECK(conn, "connection");
	conn->slot = 0;
	message.head.index = bad.head.index = kymo__event_filter_words.index;
	tell(conn, fds[1], &message, sizeof(message));
	good = set[0];
	CHECK(good && good->chain == 2, "taken");
	bad.insns[1].jump_true = 0;
	tell(conn, fds[1], &bad, sizeof(bad));
	bad = message;
	bad.head.payload_min_bytes = 13;
	tell(conn, fds[1], &bad, sizeof(bad));
	bad = message;
	bad.head.index = 1000000;
	tell(conn, fds[1], &bad, sizeof(bad));
	CHECK(set[0] == good && kymo_conn_is_open(conn), "what is refused changes nothing");
	bad = message;
	bad.head.msg.bytes = sizeof(bad.head);
	bad.head.insn_count = 0;
	tell(conn, fds[1], &bad, sizeof(bad.head));
	CHECK(!set[0] && kymo_conn_is_open(conn), "taken away");
	bad = message;
	bad.head.pool_bytes = 1;
	tell(conn, fds[1], &bad, sizeof(bad));
	CHECK(!kymo_conn_is_open(conn), "a message that says more than it has ends the connection");
	kymo_unlock();
	close(fds[1]);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 || argc == 3, "filter VECTORS [CHANGED]");
	if (argc == 3)
		changed_max = atoi(argv[2]);
	read_vectors(argv[1]);
	test_vectors();
	test_changed();
	test_records();
	test_handlers();
	test_end();
	test_messages();
	return 0;
}
