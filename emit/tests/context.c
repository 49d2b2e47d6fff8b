/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * context.c: contexts of records, byte for byte, by a collector inside the test: their order, what a
 * header may not ask for, records that they make too long, and slots that never change between
 * sessions with and without them.
 *
 *	context [rounds]
 */
#include "local.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/wait.h>

KYMO_EVENT(context, none)
KYMO_EVENT(context, one, (u32, value))
KYMO_EVENT(context, text, (u8, first), (str, text), (u16, last))
KYMO_EVENT(context, two, (u64, a), (u32, b))
KYMO_EVENT(context, three, (u64, a), (u64, b), (u8, c))
KYMO_EVENT(context, four, (u64, a), (u64, b), (u64, c), (u64, d))
KYMO_EVENT(context, tail, (u32, a), (str, text))

#define EVERY                                                                                      \
	(KYMO_CONTEXT_VPID | KYMO_CONTEXT_PRIO_NOW | KYMO_CONTEXT_CGROUP | KYMO_CONTEXT_PROCNAME | \
	 KYMO_CONTEXT_PERF | KYMO_CONTEXT_CALLSTACK)

static int rounds_max = 30000;

static uint32_t lanes(void)
{
	return 1 + (kymo_kind == KYMO_KIND_RSEQ ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) : 1);
}

static int attach(struct local *local, uint32_t slot, const struct kymo_mem *header)
{
	return local_attach_at(local, slot, 1u << 20, lanes(), false, header);
}

/* What a header may ask for is held against what this library knows. */
static void headers(void)
{
	static const struct {
		uint32_t contexts, perf_count;
		int error;
	} cases[] = {
		{ 0, 0, 0 },
		{ EVERY, 2, 0 },
		{ 128, 0, EPROTO },
		{ 1u << 31, 0, EPROTO },
		{ KYMO_CONTEXT_PRIO | KYMO_CONTEXT_PRIO_NOW, 0, EPROTO },
		{ KYMO_CONTEXT_PERF, 0, EPROTO },
		{ KYMO_CONTEXT_PERF, KYMO_PERF_MAX + 1, EPROTO },
		{ KYMO_CONTEXT_PERF, UINT32_MAX, EPROTO },
		{ KYMO_CONTEXT_PRIO, 1, EPROTO },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct kymo_mem header = { .contexts = cases[i].contexts,
						 .perf_count = cases[i].perf_count };
		struct local local;
		int error = attach(&local, 15, &header);

		CHECK(error == cases[i].error, "header %zu: error %d", i, error);
		CHECK(!error == (kymo_memories[15].base != NULL), "header %zu: what is mapped", i);
		kymo_slot_publish(15, NULL);
		if (!error)
			kymo_memory_unmap(&kymo_memories[15]);
	}
}

/* The only record that is published, and its bytes. */
static const uint8_t *take_one(struct local *local, uint32_t *bytes)
{
	const uint8_t *found = NULL;

	for (uint32_t lane = 0; lane < local->lane_count; lane++) {
		const uint8_t *at;
		uint64_t head;
		uint32_t have = local_take(local, lane, &at, &head);

		if (!have)
			continue;
		CHECK(!found && head - local_ring(local, lane)->tail == have + KYMO_ONE_RECORD, "one record");
		found = at;
		*bytes = have;
		local_done(local, lane, head);
	}
	CHECK(found, "a record");
	return found;
}

static uint64_t number(const uint8_t **at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, *at, bytes);
	*at += bytes;
	return value;
}

/* Contexts in their order, then the payload; *left: bytes behind the contexts. */
static const uint8_t *check_contexts(const uint8_t *at, uint32_t bytes, uint32_t *left)
{
	const uint8_t *begin = at;
	uint64_t faults, clock, count;

	at += KYMO_RECORD_HEADER;
	CHECK(number(&at, 4) == (uint32_t)getpid(), "vtid");
	CHECK(number(&at, 4) == (uint32_t)getpid(), "vpid");
	CHECK((int32_t)number(&at, 4) == 20 + getpriority(PRIO_PROCESS, 0), "prio");
	CHECK(number(&at, 8) == kymo_memories[3].contexts.cgroup, "cgroup");
	CHECK(!strncmp((const char *)at, "context", 7), "procname is %.16s", (const char *)at);
	at += 16;
	faults = number(&at, 8);
	clock = number(&at, 8);
	CHECK(clock > 0 && faults < 1u << 20, "counters");
	count = number(&at, 2);
	CHECK(count >= 1 && count <= KYMO_STACK_MAX, "%lu addresses", (unsigned long)count);
	at += 8 * count;
	CHECK(at <= begin + bytes, "they end in the record");
	*left = (uint32_t)(begin + bytes - at);
	return at;
}

static void layout(void)
{
	const struct kymo_mem header = { .contexts = EVERY,
					 .perf_count = 2,
					 .perf = { { PERF_TYPE_SOFTWARE, 0, PERF_COUNT_SW_PAGE_FAULTS },
						   { PERF_TYPE_SOFTWARE, 0, PERF_COUNT_SW_TASK_CLOCK } } };
	static char big[KYMO_RECORD_MAX];
	struct local local;
	const uint8_t *at;
	uint32_t bytes, left;

	CHECK(!attach(&local, 3, &header), "attach");
	kymo_event_enable(&kymo__event_context_none, 3, 1);
	kymo_event_enable(&kymo__event_context_one, 3, 2);
	kymo_event_enable(&kymo__event_context_text, 3, 3);
	for (int round = 0; round < rounds_max; round++) {
		kymo_trace(context, none);
		at = take_one(&local, &bytes);
		check_contexts(at, bytes, &left);
		CHECK(left == 0, "%u bytes of nothing", left);
		kymo_trace(context, one, 0xabcdef01);
		at = take_one(&local, &bytes);
		at = check_contexts(at, bytes, &left);
		CHECK(left == 4 && !memcmp(at, "\x01\xef\xcd\xab", 4), "payload of one");
		kymo_trace(context, text, 9, "some text", 0x1234);
		at = take_one(&local, &bytes);
		at = check_contexts(at, bytes, &left);
		CHECK(left == 14 && !memcmp(at, "\x09\x09\0some text\x34\x12", 14), "payload of text");
	}
	CHECK(!local_lost(&local), "nothing is lost");
	memset(big, 'x', sizeof(big));
	big[65000] = 0;
	kymo_trace(context, text, 9, big, 0x1234);
	at = take_one(&local, &bytes);
	CHECK(bytes > 65000, "a long text");
	kymo_slot_disable_all(3);
	kymo_slot_publish(3, NULL);
}

/* The next record has these contexts, and this payload to the byte. */
static void expect_kept(struct local *local, const void *contexts, uint32_t contexts_bytes, const void *payload,
			uint32_t payload_bytes)
{
	uint32_t bytes;
	const uint8_t *at = take_one(local, &bytes);

	CHECK(bytes == KYMO__BEFORE_PAYLOAD + contexts_bytes + payload_bytes, "%u bytes", bytes);
	CHECK(!memcmp(at + KYMO_RECORD_HEADER, &(uint32_t){ (uint32_t)getpid() }, 4), "vtid");
	CHECK(!memcmp(at + KYMO__BEFORE_PAYLOAD, contexts, contexts_bytes), "contexts");
	CHECK(!memcmp(at + KYMO__BEFORE_PAYLOAD + contexts_bytes, payload, payload_bytes), "payload");
}

static void write_kept(struct local *local, const void *contexts, uint32_t bytes)
{
	const uint64_t a = 0x0123456789abcdef, b = 0xfedcba9876543210, c = 0x5555aaaa5555aaaa, d = ~a;
	const uint64_t all[4] = { a, b, c, d };
	const char tail[] = "\x44\x33\x22\x11\x0c\0twelve bytes";

	for (int round = 0; round < rounds_max * 2 / 3; round++) {
		kymo_trace(context, none);
		expect_kept(local, contexts, bytes, "", 0);
		kymo_trace(context, one, (uint32_t)a);
		expect_kept(local, contexts, bytes, all, 4);
		kymo_trace(context, two, a, (uint32_t)b);
		expect_kept(local, contexts, bytes, all, 12);
		kymo_trace(context, three, a, b, (uint8_t)c);
		expect_kept(local, contexts, bytes, all, 17);
		kymo_trace(context, four, a, b, c, d);
		expect_kept(local, contexts, bytes, all, 32);
		kymo_trace(context, tail, 0x11223344, "twelve bytes");
		expect_kept(local, contexts, bytes, tail, sizeof(tail) - 1);
	}
}

static void enable_kept(uint32_t slot)
{
	kymo_event_enable(&kymo__event_context_none, slot, 1);
	kymo_event_enable(&kymo__event_context_one, slot, 2);
	kymo_event_enable(&kymo__event_context_two, slot, 3);
	kymo_event_enable(&kymo__event_context_three, slot, 4);
	kymo_event_enable(&kymo__event_context_four, slot, 5);
	kymo_event_enable(&kymo__event_context_tail, slot, 6);
}

/*
 * Contexts that a thread keeps: other ones in another session of the same slot, and those of a child in
 * a child. A portable lane is not the child's.
 */
static void kept(void)
{
	const struct kymo_mem vpid = { .contexts = KYMO_CONTEXT_VPID };
	const struct kymo_mem both = { .contexts = KYMO_CONTEXT_VPID | KYMO_CONTEXT_PRIO };
	uint32_t want[2] = { (uint32_t)getpid(), (uint32_t)(20 + getpriority(PRIO_PROCESS, 0)) };
	struct local local;
	int status;
	pid_t child;

	CHECK(!attach(&local, 5, &vpid), "attach");
	enable_kept(5);
	write_kept(&local, want, 4);
	child = kymo_kind == KYMO_KIND_RSEQ ? fork() : 0;
	if (!child && kymo_kind == KYMO_KIND_RSEQ) {
		want[0] = (uint32_t)getpid();
		write_kept(&local, want, 4);
		_exit(0);
	}
	if (child)
		CHECK(waitpid(child, &status, 0) == child && !status, "the child");
	write_kept(&local, want, 4);
	kymo_slot_disable_all(5);
	kymo_slot_publish(5, NULL);
	CHECK(!attach(&local, 5, &both), "attach again");
	kymo_memories[5].serial = 4711;
	kymo_process->slots[5].serial = 4711;
	enable_kept(5);
	write_kept(&local, want, 8);
	kymo_slot_disable_all(5);
	kymo_slot_publish(5, NULL);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds_max = atoi(argv[1]);
	headers();
	layout();
	kept();
	printf("contexts hold (%s)\n", kymo_kind == KYMO_KIND_RSEQ ? "rseq" : "portable");
	return 0;
}
