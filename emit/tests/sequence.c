/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sequence.c: the assembly of the record path against the pseudocode of ring.md 5.1 and 6, run in
 * C: same bytes, same head, same decision about room, for pieces of every length, at every
 * position, also where the low half of head wraps.
 */
#include "local.h"

#include <sched.h>

KYMO_EVENT(sequence, words_1, (u64, a))
KYMO_EVENT(sequence, words_2, (u64, a), (u32, b))
KYMO_EVENT(sequence, words_3, (u64, a), (u64, b), (u8, c))
KYMO_EVENT(sequence, words_4, (u64, a), (u64, b), (u64, c), (u64, d))
KYMO_EVENT(sequence, none)
KYMO_EVENT(sequence, tail_1, (u32, a), (bytes, tail))
KYMO_EVENT(sequence, tail_2, (u64, a), (bytes, tail))
KYMO_EVENT(sequence, tail_3, (u64, a), (u64, b), (bytes, tail))
KYMO_EVENT(sequence, tail_4, (u64, a), (u64, b), (u64, c), (u32, d), (bytes, tail))

/* How events are cut into fields that are stored on their own, words, and pieces: tracepoint.h. */
KYMO_ENUM(sequence, kind, i16, (one, 1), (other, -2))
KYMO_EVENT(sequence, own_5, (u8, a), (i16, b), (bool, c), (f32, d), (enum(sequence, kind), e))
KYMO_EVENT(sequence, own_long, (u64, a), (f64, b), (i64, c), (x64, d), (u64, e))
KYMO_EVENT(sequence, packed_6, (u8, a), (u16, b), (u32, c), (u8, d), (u16, e), (u32, f))
KYMO_EVENT(sequence, staged_6, (u64, a), (u64, b), (u64, c), (u64, d), (u64, e), (u64, f))
KYMO_EVENT(sequence, text, (str, tail))
KYMO_EVENT(sequence, array_only, (array(u16, 5), tail))
KYMO_EVENT(sequence, array_last, (u8, a), (array(u8, 3), tail))
KYMO_EVENT(sequence, seq_last, (f64, a), (bool, b), (seq(u32), tail))
KYMO_EVENT(sequence, text_of_10, (u8, a), (u16, b), (u32, c), (u64, d), (u8, e), (u16, f), (u32, g), (u64, h),
	   (enum(sequence, kind), i), (str, tail))
KYMO_EVENT(sequence, text_of_11, (u8, a), (u16, b), (u32, c), (u64, d), (u8, e), (u16, f), (u32, g), (u64, h),
	   (u8, i), (i16, j), (str, tail))
KYMO_EVENT(sequence, text_inside, (u8, a), (str, tail), (u32, c))

#define RING_BYTES 4096u

static struct local local;
static uint64_t seed = 1;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* The lane that the test thread writes to: it is pinned, or has claimed it. */
static uint32_t lane;

static void set(uint64_t head, uint64_t tail)
{
	struct kymo_ring *ring = local_ring(&local, lane);

	ring->head = ring->reserve = head;
	ring->tail = tail;
	ring->last = 0;
}

static uint8_t *data(uint64_t position)
{
	const uint8_t *at;
	uint64_t head;

	if (!local.data[lane]) {
		set(1, 0);
		local_take(&local, lane, &at, &head);
		set(0, 0);
	}
	return local.data[lane] + (position & (RING_BYTES - 1));
}

/* What ring.md says must stand in the ring after a record of these pieces; then compares. */
static void expect(uint64_t head, uint64_t tail, uint16_t id, const struct kymo_seg *segs,
		   unsigned seg_count, uint64_t lost_before)
{
	const struct kymo_ring *ring = local_ring(&local, lane);
	uint32_t bytes = 12;
	uint8_t *at = data(head);

	for (unsigned i = 0; i < seg_count; i++)
		bytes += (uint32_t)segs[i].bytes;
	if ((uint32_t)head - (uint32_t)tail + bytes > RING_BYTES - KYMO_STORE_PAST) {
		CHECK(ring->head == head, "written into a full ring");
		CHECK(local_lost(&local) == lost_before + 1, "loss not counted");
		return;
	}
	CHECK(local_lost(&local) == lost_before, "loss counted for a written record");
	CHECK(ring->head == head + bytes + KYMO_ONE_RECORD, "head %lx after %lx and %u bytes",
	      (unsigned long)ring->head, (unsigned long)head, bytes);
	CHECK((uint16_t)ring->last == id, "id %u in last", (uint16_t)ring->last);
	CHECK(!memcmp(at, &ring->last, 8), "header");
	CHECK(*(uint32_t *)(at + 8) == (uint32_t)getpid(), "thread id %u", *(uint32_t *)(at + 8));
	at += 12;
	for (unsigned i = 0; i < seg_count; at += segs[i].bytes, i++)
		CHECK(!memcmp(at, segs[i].at, segs[i].bytes), "piece %u of %zu bytes", i,
		      (size_t)segs[i].bytes);
}

static void write_pieces(const struct kymo_seg *segs, unsigned seg_count)
{
	struct kymo_event *event = &kymo__event_sequence_none;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < seg_count; i++)
		bytes += segs[i].bytes;
	kymo__write_segs(event, KYMO_ONE_RECORD + KYMO__BEFORE_PAYLOAD + bytes, segs, segs + seg_count,
			 kymo__wanted(event));
}

static void pieces_of_every_length(void)
{
	uint8_t source[3000];

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)random_number();
	for (size_t bytes = 0; bytes < 700; bytes++) {
		struct kymo_seg segs[3] = { { source + bytes % 9, bytes },
					    { source + 1000, bytes % 17 },
					    { source + 2000, bytes * 7 % 300 } };
		uint64_t head = random_number() << 32 | (uint32_t)(random_number() % RING_BYTES);

		set(head, head);
		write_pieces(segs, 3);
		expect(head, head, 7, segs, 3, local_lost(&local));
	}
}

static void random_positions(void)
{
	uint8_t source[4096];

	memset(source, 0x5a, sizeof(source));
	for (int i = 0; i < 200000; i++) {
		struct kymo_seg seg = { source, random_number() % 1500 };
		/* Often near the wrap of the low half, which carries into the record count. */
		uint32_t low = random_number() % 2 ? (uint32_t)random_number() :
						     (uint32_t)(0 - random_number() % 5000);
		uint64_t tail = random_number() << 32 | low;
		uint64_t head = tail + random_number() % RING_BYTES;
		uint64_t lost = local_lost(&local);

		set(head, tail);
		write_pieces(&seg, 1);
		expect(head, tail, 7, &seg, 1, lost);
	}
}

static void words(void)
{
	const uint64_t a = 0x0123456789abcdef, b = 0xfedcba9876543210, c = 0x5555aaaa5555aaaa, d = ~a;
	struct kymo_seg segs[4] = { { &a, 8 }, { &b, 8 }, { &c, 8 }, { &d, 8 } };
	uint64_t lost = local_lost(&local);

	for (uint32_t tail = 0; tail < 2 * RING_BYTES; tail++) {
		uint64_t head = tail + RING_BYTES - 60 + tail % 60;

		lost = local_lost(&local);
		set(head, tail);
		kymo_trace(sequence, words_1, a);
		segs[0].bytes = 8;
		expect(head, tail, 1, segs, 1, lost);
		set(tail, tail);
		kymo_trace(sequence, words_2, a, (uint32_t)b);
		segs[1].bytes = 4;
		expect(tail, tail, 2, segs, 2, local_lost(&local));
		segs[1].bytes = 8;
		set(tail, tail);
		kymo_trace(sequence, words_3, a, b, (uint8_t)c);
		segs[2].bytes = 1;
		expect(tail, tail, 3, segs, 3, local_lost(&local));
		segs[2].bytes = 8;
		set(tail, tail);
		kymo_trace(sequence, words_4, a, b, c, d);
		expect(tail, tail, 4, segs, 4, local_lost(&local));
	}
}

/* Events that end in a piece, for pieces of every length. */
static void tails(void)
{
	const uint64_t a = 0x0123456789abcdef, b = 0xfedcba9876543210, c = 0x5555aaaa5555aaaa;
	uint8_t source[1200];

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)random_number();
	for (uint16_t bytes = 0; bytes < 1000; bytes++) {
		const uint8_t *tail = source + bytes % 13;
		const uint32_t d = bytes;
		struct kymo_seg segs[6] = { { &a, 8 }, { &b, 8 }, { &c, 8 }, { &d, 4 }, { &bytes, 2 }, { tail, bytes } };
		struct kymo_seg one[3] = { { &d, 4 }, segs[4], segs[5] }, two[3] = { segs[0], segs[4], segs[5] };
		struct kymo_seg three[4] = { segs[0], segs[1], segs[4], segs[5] };
		uint64_t head = random_number() << 32 | (uint32_t)(0 - random_number() % 5000);

		set(head, head);
		kymo_trace(sequence, tail_1, d, tail, bytes);
		expect(head, head, 11, one, 3, local_lost(&local));
		set(head, head);
		kymo_trace(sequence, tail_2, a, tail, bytes);
		expect(head, head, 12, two, 3, local_lost(&local));
		set(head, head);
		kymo_trace(sequence, tail_3, a, b, tail, bytes);
		expect(head, head, 13, three, 4, local_lost(&local));
		set(head, head);
		kymo_trace(sequence, tail_4, a, b, c, d, tail, bytes);
		expect(head, head, 14, segs, 6, local_lost(&local));
	}
}

/* Behind kymo_trace of one event: its payload, as the fields stand in it. */
static void expect_payload(uint16_t id, uint64_t head, const void *payload, uint64_t bytes)
{
	struct kymo_seg seg = { payload, bytes };

	expect(head, head, id, &seg, 1, local_lost(&local));
}

static uint64_t anywhere(void)
{
	uint64_t head = random_number() << 32 | (uint32_t)(0 - random_number() % 5000);

	set(head, head);
	return head;
}

static void fields(void)
{
	uint64_t head = anywhere();

	kymo_trace(sequence, none);
	expect_payload(7, head, "", 0);
	head = anywhere();
	kymo_trace(sequence, own_5, 0x81, -2, true, 1.5f, -2);
	expect_payload(21, head, "\x81\xfe\xff\1\0\0\xc0\x3f\xfe\xff", 10);
	head = anywhere();
	kymo_trace(sequence, own_long, 1, 2.0, -1, 3, 0x8000000000000000);
	expect_payload(22, head, "\1\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\x40" "\xff\xff\xff\xff\xff\xff\xff\xff"
		       "\3\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\x80", 40);
	head = anywhere();
	kymo_trace(sequence, packed_6, 1, 0x203, 0x4050607, 8, 0x90a, 0xb0c0d0e);
	expect_payload(23, head, "\1\3\2\7\6\5\4\x8\xa\x9\xe\xd\xc\xb", 14);
	head = anywhere();
	kymo_trace(sequence, staged_6, 1, 2, 3, 4, 5, 6);
	expect_payload(24, head, "\1\0\0\0\0\0\0\0" "\2\0\0\0\0\0\0\0" "\3\0\0\0\0\0\0\0"
		       "\4\0\0\0\0\0\0\0" "\5\0\0\0\0\0\0\0" "\6\0\0\0\0\0\0\0", 48);
}

/* Pieces of each kind behind fields that are stored on their own. */
static void pieces(void)
{
	static const uint16_t array[5] = { 1, 2, 3, 4, 0xfff5 };
	static const uint32_t numbers[3] = { 1, 2, 0xfffffff3 };
	uint64_t head = anywhere();

	kymo_trace(sequence, text, 0);
	expect_payload(25, head, "\6\0(null)", 8);
	head = anywhere();
	kymo_trace(sequence, array_only, array);
	expect_payload(26, head, array, 10);
	head = anywhere();
	kymo_trace(sequence, array_only, 0);
	expect_payload(26, head, "\0\0\0\0\0\0\0\0\0\0", 10);
	head = anywhere();
	kymo_trace(sequence, array_last, 9, (const uint8_t *)"\1\2\3");
	expect_payload(27, head, "\x9\1\2\3", 4);
	head = anywhere();
	kymo_trace(sequence, seq_last, -2.0, true, numbers, 3);
	expect_payload(28, head, "\0\0\0\0\0\0\0\xc0\1\3\0\1\0\0\0\2\0\0\0\xf3\xff\xff\xff", 23);
	head = anywhere();
	kymo_trace(sequence, seq_last, -2.0, false, 0, 3);
	expect_payload(28, head, "\0\0\0\0\0\0\0\xc0\0\0\0", 11);
	head = anywhere();
	kymo_trace(sequence, text_of_10, 1, 2, 3, 4, 5, 6, 7, 8, -2, "of ten");
	expect_payload(29, head, "\1\2\0\3\0\0\0\4\0\0\0\0\0\0\0\5\6\0\7\0\0\0\x8\0\0\0\0\0\0\0"
		       "\xfe\xff\6\0of ten", 40);
	head = anywhere();
	kymo_trace(sequence, text_of_11, 1, 2, 3, 4, 5, 6, 7, 8, 9, -2, "of eleven");
	expect_payload(30, head, "\1\2\0\3\0\0\0\4\0\0\0\0\0\0\0\5\6\0\7\0\0\0\x8\0\0\0\0\0\0\0"
		       "\x9\xfe\xff\x9\0of eleven", 44);
	head = anywhere();
	kymo_trace(sequence, text_inside, 1, "inside", 2);
	expect_payload(31, head, "\1\6\0inside\2\0\0\0", 13);
}

/* A text that is too long is cut, and a record that is too long for the ring is counted. */
static void long_texts(void)
{
	static char text[70000];
	uint64_t head = anywhere(), lost = local_lost(&local);

	memset(text, 'x', sizeof(text) - 1);
	kymo_trace(sequence, text, text);
	CHECK(local_lost(&local) == lost + 1 && local_ring(&local, lane)->head == head, "a text of 70,000 bytes");
	text[3000] = 0;
	kymo_trace(sequence, text, text);
	CHECK(local_ring(&local, lane)->head == head + KYMO_ONE_RECORD + 12 + 2 + 3000, "a text of 3,000 bytes");
}

int main(void)
{
	bool rseq = kymo_kind == KYMO_KIND_RSEQ;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one), "cannot pin");
	local_attach(&local, RING_BYTES, rseq ? (uint32_t)sysconf(_SC_NPROCESSORS_CONF) + 1 : 2, false);
	lane = 0;
	local_enable(&kymo__event_sequence_words_1, 1);
	local_enable(&kymo__event_sequence_words_2, 2);
	local_enable(&kymo__event_sequence_words_3, 3);
	local_enable(&kymo__event_sequence_words_4, 4);
	local_enable(&kymo__event_sequence_none, 7);
	local_enable(&kymo__event_sequence_tail_1, 11);
	local_enable(&kymo__event_sequence_tail_2, 12);
	local_enable(&kymo__event_sequence_tail_3, 13);
	local_enable(&kymo__event_sequence_tail_4, 14);
	local_enable(&kymo__event_sequence_own_5, 21);
	local_enable(&kymo__event_sequence_own_long, 22);
	local_enable(&kymo__event_sequence_packed_6, 23);
	local_enable(&kymo__event_sequence_staged_6, 24);
	local_enable(&kymo__event_sequence_text, 25);
	local_enable(&kymo__event_sequence_array_only, 26);
	local_enable(&kymo__event_sequence_array_last, 27);
	local_enable(&kymo__event_sequence_seq_last, 28);
	local_enable(&kymo__event_sequence_text_of_10, 29);
	local_enable(&kymo__event_sequence_text_of_11, 30);
	local_enable(&kymo__event_sequence_text_inside, 31);
	kymo_thread_init();
	data(0); /* map the reader's view, which disturbs head */
	pieces_of_every_length();
	random_positions();
	words();
	tails();
	for (int round = 0; round < 500; round++) {
		fields();
		pieces();
	}
	long_texts();
	printf("%s: the record path does what the specification says\n", rseq ? "rseq" : "portable");
	return 0;
}
