/*
 * portable.pml: the portable ring of spec/ring.md section 6, for Spin. One lane, its owning thread, signal handlers
 * nested two deep, and the collector. Shows that reservation by a compare-and-exchange that is atomic only against
 * signals, and publication by the outermost record, keep the promises of section 1.
 * Does not model claiming a lane, fork, siglongjmp, weak memory, or a hostile program.
 *
 * Cells and the packed words of head, tail and reserve are those of rseq.pml: 4-byte cells, a ring of 8, 8-bit words that
 * start close to the wrap. Records have 3 or 4 cells (12 or 16 bytes). Unlike there, no store runs past its record: a
 * handler's finished record may stand right behind it (BROKEN_OVERRUN).
 *
 * Names with a capital are the model's; the others are the spec's. Level 0 is the thread; level 1 is a handler that may
 * start at any instruction of level 0, level 2 one that may start at any instruction of either. A handler runs to its
 * end before what it interrupted goes on. A started handler writes one record.
 *
 * Configurations (run.sh):
 *   KILL           SIGKILL after any instruction
 *   UNMAP          the helper thread switches the session off and unmaps the memory [5.3]
 *   OVERWRITE      a flight recorder: writers move tail and leave marks, and a snapshot is taken at any moment [10]
 *   BROKEN_*       one mistake each; Spin must find it (README.md says what each is)
 */

#ifndef RECORDS_0
#define RECORDS_0 2		/* write attempts of the thread */
#endif
#ifndef RECORDS_1
#define RECORDS_1 2		/* of handlers at level 1 */
#endif
#ifndef RECORDS_2
#define RECORDS_2 1		/* of handlers at level 2 */
#endif

#define LEVELS 3
#define RING 8			/* ring_bytes, in cells */
#define START 253		/* head, tail and reserve at the beginning: 13 cells, 15 records */

#define LOW(word) ((word) & 15)
#define RECORD_COUNT(word) ((word) >> 4)
#define ADVANCE(word, cells) (((word) + (cells) + 16) & 255)
#define CELL(at) cell[(at) & (RING - 1)]

#ifdef BROKEN_NO_ROOM
#define ROUNDED(size) 0
#else
#define ROUNDED(size) 4		/* 12 and 16 bytes, rounded up to 8 */
#endif

/* Shared memory: one lane. */
byte cell[RING];
byte head = START;
byte tail = START;
byte reserve = START;
byte last;
byte lost_full;
#ifdef OVERWRITE
byte mark[4] = START;
#endif

/* The traced process: does the slot have lanes, records of the lane in progress, calls that may touch its memory. */
bit cpu_count = 1;
byte depth;
byte users;
bit mapped = 1;
bool Detached;			/* the helper has answered the collector */

/* The machine. Current is the level that has the CPU; Busy counts the record calls that have begun and not returned. */
byte clock = 1;
bool killed;
byte Current;
byte Busy;
byte Ended;

/* What truly happened. Settled: attempts that had returned when no record was in progress any more. */
byte Begun, Done, Off, Settled;
byte Published;			/* records that some store of head has covered */
byte Used = 13;			/* LOW(START); the reader has finished with the cells below */

/* One name for each property: Spin prints the name in the assertion that failed. */
bool whole = true;		/* a record is whole or absent */
bool ordered = true;		/* time stamps do not decrease along the lane */
bool unread_kept = true;	/* no store into a cell that the reader has still to use */
bool newest_bounded = true;	/* last is an upper bound for what is below head [3.4] */
bool plausible = true;		/* head - tail passes the collector's check [4] */
bool nothing_left = true;	/* no record in progress: head == reserve */
bool published_read = true;	/* everything published is read, once */
bool exact = true;		/* produced = read + counted lost */

/* With WATCH, only the named property is asserted: so each broken configuration can show which ones it breaks. */
#ifdef WATCH
#define CHECK(property, condition) property = (property && (condition)); assert(WATCH)
#else
#define CHECK(property, condition) property = (condition); assert(property)
#endif

#define CPU(statement) atomic { Current == me -> statement }	/* one instruction */

#ifdef OVERWRITE
#define MAY_STORE(end) assert(mapped)
#else
#define MAY_STORE(end) \
	assert(mapped); \
	CHECK(unread_kept, LOW((end) - Used) >= 1 && LOW((end) - Used) <= RING)
#endif

/* The header's id says which record this is (tag) and so how long; the payload repeats the tag. */
#define STORE_HEADER \
	MAY_STORE(r + 2); \
	CELL(r) = tag * 2 + (size == 4); \
	CELL(r + 1) = ts

#ifdef BROKEN_OVERRUN
#define STORE_PAYLOAD \
	MAY_STORE(r + 4); \
	CELL(r + 2) = tag; \
	CELL(r + 3) = (size == 4 -> tag : 0)
#else
#define STORE_PAYLOAD \
	MAY_STORE(r + size); \
	CELL(r + 2) = tag; \
	CELL(r + 3) = (size == 4 -> tag : CELL(r + 3))
#endif

#define IS_FULL (LOW(r - tail) + ROUNDED(size) > RING)
#ifdef BROKEN_NESTED_PUBLISHES
#define OUTERMOST (depth >= 1)
#else
#define OUTERMOST (depth == 1)
#endif
#define READ_CLOCK ts = clock; clock++
#define STORE_HEAD \
	assert(mapped); \
	Published = Published + RECORD_COUNT((r - head) & 255); \
	head = r
#define FORGET r = 0; ts = 0	/* dead values only make the state space larger */
#if defined(UNMAP) && !defined(BROKEN_DEPTH_HOLDS)
#define RELEASE users--
#else
#define RELEASE skip
#endif
/* 10: the oldest cells are given up. Not beyond head: what stands there may be reserved and not written yet. */
#define MARK(at) mark[(LOW(at) >> 2) & 3]
#define LEAST(now, size) LOW((now) + ROUNDED(size) - RING)
#ifdef BROKEN_BEYOND_HEAD
#define IS_PUBLISHED(now, size) true
#else
#define IS_PUBLISHED(now, size) (LOW(head - LEAST(now, size)) <= RING)
#endif
#define RETURN \
	Done++; \
	NOT_BUSY
#define NOT_BUSY \
	Busy--; \
	if \
	:: Busy == 0 -> Settled = Done; CHECK(nothing_left, head == reserve) \
	:: else \
	fi

#define MY_RECORDS (me == 0 -> RECORDS_0 : (me == 1 -> RECORDS_1 : RECORDS_2))
#define FIRST_TAG (me == 0 -> 1 : (me == 1 -> 1 + RECORDS_0 : 1 + RECORDS_0 + RECORDS_1))

active [LEVELS] proctype writer()
{
	byte n, tag, size, r, ts, Interrupted;
	bit Dated;		/* last was stored in this record */
#define me _pid
	{
	skip;
next:
	if
	:: atomic { n == MY_RECORDS && Current <= me -> goto finish }
	:: atomic {
		n < MY_RECORDS && ((me == 0 && Current == 0) || Current < me) ->
		Interrupted = Current;
		Current = me;
		tag = FIRST_TAG + n;
		size = 3 + ((me + n) & 1);
		n++;
		Begun++;
		Busy++
	}
	fi;

	/*
	 * Who may touch the memory says so in users, to the very end, and asks then whether it is still there. depth
	 * must not do both: the test after depth = 0 looks at the memory (BROKEN_DEPTH_HOLDS), and who counts in depth
	 * before it asks keeps a handler from publishing, and then leaves without doing so (BROKEN_OFF_SILENT).
	 */
#ifdef UNMAP
#ifndef BROKEN_DEPTH_HOLDS
	CPU(users++);
#endif
#if defined(BROKEN_OFF_SILENT) || defined(BROKEN_DEPTH_HOLDS)
	CPU(depth++);
	CPU(if :: !cpu_count -> goto off :: else fi);
#else
	CPU(if :: !cpu_count -> goto off :: else fi);
	CPU(depth++);
#endif
#else
	CPU(depth++);
#endif
again:
#ifdef BROKEN_CLOCK_FIRST
	CPU(READ_CLOCK);
	CPU(assert(mapped); r = reserve);
	CPU(if :: IS_FULL -> goto no_room :: else fi);
#else
	CPU(assert(mapped); r = reserve);
	CPU(if :: IS_FULL -> goto no_room :: else fi);
	CPU(READ_CLOCK);
#endif
	CPU(assert(mapped); last = ts);
#ifdef BROKEN_PLAIN_STORE
	CPU(reserve = ADVANCE(r, size));
#else
	CPU(if :: reserve == r -> reserve = ADVANCE(r, size) :: else -> FORGET; Dated = 1; goto again fi);
#endif
	CPU(STORE_HEADER);
	CPU(STORE_PAYLOAD; FORGET);
	goto leave;

no_room:
#if !defined(BROKEN_CLOCK_FIRST) && !defined(BROKEN_LAST_STALE)
	/*
	 * An exchange that failed has left last, and a handler's record that this writer will publish may be newer. So
	 * last is set again, and no handler may have reserved since (BROKEN_LAST_STALE).
	 */
	CPU(if :: !Dated -> goto settle :: else fi);
	CPU(READ_CLOCK);
	CPU(assert(mapped); last = ts);
settle:
	CPU(if :: reserve != r -> FORGET; goto again :: else fi);
#endif
#ifdef OVERWRITE
	CPU(ts = tail);				/* a word is short: ts is free here */
	CPU(r = reserve);
	CPU(if :: LOW(r - ts) + ROUNDED(size) <= RING -> FORGET; goto again :: else fi);
	CPU(if :: !IS_PUBLISHED(r, size) -> goto lose :: else fi);
	CPU(if :: tail != ts -> FORGET; goto again :: else fi);
	CPU(MARK(r) = r);
	CPU(if :: tail == ts -> tail = LEAST(r, size) :: else fi; FORGET; goto again);
lose:
#endif
	CPU(assert(mapped); lost_full++; FORGET);

leave:
	CPU(if :: OUTERMOST -> goto publish :: else fi);	/* else an outer record will publish */
	CPU(depth--);
	goto returning;
publish:
	CPU(depth = 1);
	CPU(assert(mapped); r = reserve);
	CPU(STORE_HEAD);
#ifdef BROKEN_NO_RECHECK
	CPU(depth = 0);
#else
	CPU(depth = 0);
	CPU(assert(mapped); r = reserve);
	CPU(assert(mapped); if :: r != head -> goto publish :: else fi);
#endif
returning:
	CPU(RETURN; RELEASE; goto returned);
#ifdef UNMAP
off:
#if defined(BROKEN_OFF_SILENT) || defined(BROKEN_DEPTH_HOLDS)
	CPU(depth--);
#endif
	CPU(Off++; NOT_BUSY; RELEASE);
#endif
returned:
	atomic { Current == me -> FORGET; Dated = 0; size = 0; tag = 0; Current = Interrupted; Interrupted = 0; goto next };
	} unless { killed };
finish:
	atomic { n = 0; tag = 0; size = 0; r = 0; ts = 0; Dated = 0; Interrupted = 0; Ended++ }
#undef me
}

#ifdef KILL
active proctype killer()
{
	if
	:: atomic { Ended < LEVELS -> killed = true }
	:: Ended == LEVELS
	fi
}
#endif

/* 5.3, the helper thread. membarrier: what a writer does not see yet, the helper sees. */
#ifdef UNMAP
active proctype helper()
{
	cpu_count = 0;
#ifdef BROKEN_DEPTH_HOLDS
	depth == 0;
#else
	users == 0;
#endif
	mapped = 0;
	Detached = true
}
#define QUIET Detached
#else
#define QUIET (killed || Ended == LEVELS)
#endif

/* Of a killed program: what was published is read; what had returned before the last record began is accounted for. */
#define CHECK_KILLED \
	CHECK(published_read, read_count == Published); \
	CHECK(exact, Settled <= read_count + lost_full && read_count + lost_full <= Begun)

#ifdef OVERWRITE
/* Copies, then asks tail what of the copy is intact, then takes what the oldest mark of that leads to. */
active proctype snapshot()
{
	byte copy[RING];
	byte h, t, d, i, from, size, tag;
	bool found;

	h = head;
	atomic { i = 0; do :: i < RING -> copy[i] = cell[i]; i++ :: i == RING -> break od; i = 0 };
	t = tail;
	atomic {
		do
		:: i < 4 ->
			d = (h - mark[i]) & 255;
			if
			:: (LOW(mark[i] - t) <= RING && LOW(d) <= RING && RECORD_COUNT(d) * 3 <= LOW(d)
				&& RECORD_COUNT(d) * 4 >= LOW(d) && (!found || LOW(d) > LOW(h - from))) ->
				from = mark[i];
				found = true
			:: else
			fi;
			i++
		:: else -> break
		od;
		d = 0;
		if :: found -> d = (h - from) & 255 :: else fi
	};
	do
	:: atomic {
		d != 0 ->
		tag = copy[from & (RING - 1)] / 2;
		size = 3 + (copy[from & (RING - 1)] & 1);
		CHECK(whole, (tag != 0 && size <= LOW(d) && d >= 16
			&& copy[(from + 2) & (RING - 1)] == tag
			&& (size == 3 || copy[(from + 3) & (RING - 1)] == tag)));
		d = d - size - 16;
		from = ADVANCE(from, size)
	}
	:: d == 0 -> break
	od
}
#else
active proctype reader()
{
	byte h, t, d, upper, size, tag, newest, read_count, lost;
	short seen;

poll:
	if
	:: atomic { head != tail -> h = head; t = tail }
	:: atomic { QUIET && head == tail -> goto total }
#if !defined(ENDS) && !defined(UNMAP)
	/* A SIGKILL now, or at any earlier instruction since which the writer has not moved, would leave just this. */
	:: atomic { head == tail && !killed && Ended < LEVELS -> CHECK_KILLED; goto poll }
#endif
	fi;
	upper = last;
#ifdef BROKEN_TAIL_EARLY
	tail = h;
#endif
	d_step {
		d = (h - t) & 255;
		CHECK(plausible, LOW(d) <= RING && RECORD_COUNT(d) * 3 <= LOW(d))
	};
	do
	:: d_step {
		d != 0 ->
		tag = CELL(t) / 2;
		size = 3 + (CELL(t) & 1);
		CHECK(whole, (tag != 0 && size <= LOW(d) && d >= 16
			&& CELL(t + 2) == tag
			&& (size == 3 || CELL(t + 3) == tag)
			&& (seen & (1 << (tag & 15))) == 0));
		seen = seen | (1 << (tag & 15));
		CHECK(ordered, CELL(t + 1) > newest);
		newest = CELL(t + 1);
		CHECK(newest_bounded, newest <= upper);
		read_count++;
		CELL(t) = 0; CELL(t + 1) = 0; CELL(t + 2) = 0;
		CELL(t + 3) = (size == 4 -> 0 : CELL(t + 3));
		d = d - size - 16;
		t = ADVANCE(t, size);
		Used = LOW(t)
	}
	:: else -> break
	od;
	tail = h;			/* release, after the bytes were used */
	d_step { h = 0; t = 0; upper = 0; size = 0; tag = 0 };
	goto poll;

total:
	lost = lost_full;
	CHECK(published_read, read_count == Published);
	(killed || Ended == LEVELS);
	atomic {
		if
		:: killed -> CHECK_KILLED
		:: else -> CHECK(exact, Begun - Off == read_count + lost)
		fi
	}
}
#endif
