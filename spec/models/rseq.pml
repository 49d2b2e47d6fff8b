/*
 * rseq.pml: the rseq ring of spec/ring.md section 5, for Spin. Shows that the restartable sequence keeps the promises
 * of section 1 against pre-emption, migration, signals, SIGKILL, a full ring, and the unmapping of 5.3.
 * Does not model weak memory (README.md says why that is enough), other processes, or a hostile program.
 *
 * A cell is 4 bytes. A ring has 8 cells, a record 3 or 5 (12 or 20 bytes, 2 of them header), a store 2 (8 bytes),
 * so the last store runs one cell past the record. head, tail and their differences are the packed
 * words of 3.2 in 8 bits instead of 64: the low half wraps at 16 cells and carries, and starts close to the wrap.
 *
 * Names with a capital are the model's; the others are the spec's. Two threads write. A thread that is outside a
 * sequence may be on any CPU or on none, and it makes no difference, so the model places a thread on a CPU from the
 * first to the last instruction of a sequence only, and a CPU holds one sequence at most. Every instruction of a
 * sequence may be its last before the kernel takes the CPU away: then the thread is NOWHERE, others may use the CPU,
 * and the thread goes to aborted.
 *
 * Configurations (run.sh):
 *   KILL           SIGKILL after any instruction
 *   HANDLER        writer 1 is a signal handler of writer 0: it starts at any instruction and runs to its end
 *   UNMAP          the helper thread switches the session off and unmaps the memory [5.3]
 *   SINGLE_STEP    a debugger steps through the program: no sequence ever ends
 *   CALM           the last attempt is not interrupted (a smaller state space)
 *   WAITS          writers that may wait for room: a full ring is dealt with out of line [session.md 12]
 *   ENDS           without the reader's check for SIGKILL, which is a loop of its own: for the search for endless loops
 *   BROKEN_*       one mistake each; Spin must find it (README.md says what each is)
 */

#ifndef RECORDS_0
#define RECORDS_0 2		/* write attempts of writer 0 */
#endif
#ifndef RECORDS_1
#define RECORDS_1 1
#endif
#ifndef RESTARTS
#define RESTARTS 1		/* 64 in the spec */
#endif
#ifndef CPUS
#define CPUS 2
#endif

#define WRITERS 2
#define SPILL CPUS		/* the last lane [5.4] */
#define LANES (CPUS + 1)
#define NOWHERE 7
#define RING 8			/* ring_bytes, in cells */
#define START 253		/* head and tail at the beginning: 13 cells, 15 records */

#define LOW(word) ((word) & 15)
#define RECORD_COUNT(word) ((word) >> 4)
#define ADVANCE(word, cells) (((word) + (cells) + 16) & 255)
#define CELL(lane, at) cell[(lane) * RING + ((at) & (RING - 1))]

#ifdef BROKEN_NO_ROUNDING
#define ROUNDED(size) (size)
#else
#define ROUNDED(size) ((size) + 1)	/* 12 and 20 bytes, rounded up to 8 */
#endif

/* Shared memory: lanes and control blocks [3]. */
byte cell[24];			/* LANES * RING, at most */
byte head[LANES] = START;
byte tail[LANES] = START;
byte last[LANES];
byte lost_full[LANES];
byte lost_restart;		/* of the spill lane */
bit owner;			/* of the spill lane */

/* The traced process: is the event on, does the slot have lanes, threads that hold its memory out of line. */
bit id = 1;
bit cpu_count = 1;
byte users;
bit mapped = 1;

/* The kernel. */
byte on[WRITERS] = NOWHERE;	/* the CPU whose sequence the writer is in */
byte clock[LANES] = 1;		/* only stamps of one lane are compared, so each lane counts its own reads */
bool killed;
bool in_handler;
bool Detached;			/* the helper has answered the collector */
byte Ended;

/* What truly happened. */
byte Begun, Done, Off, Published;
byte Used[LANES] = 13;		/* LOW(START); the reader has finished with the cells below */

/* One name for each property: Spin prints the name in the assertion that failed. */
bool whole = true;		/* a record is whole or absent */
bool ordered = true;		/* time stamps do not decrease along a lane */
bool unread_kept = true;	/* no store into a cell that the reader has still to use */
bool newest_bounded = true;	/* last is an upper bound for what is below head [3.4] */
bool plausible = true;		/* head - tail passes the collector's check [4] */
bool published_read = true;	/* everything published is read, once */
bool exact = true;		/* produced = read + counted lost */

/* With WATCH, only the named property is asserted: so each broken configuration can show which ones it breaks. */
#ifdef WATCH
#define CHECK(property, condition) property = (property && (condition)); assert(WATCH)
#else
#define CHECK(property, condition) property = (condition); assert(property)
#endif

#ifdef HANDLER
#define MAY_RUN (me == 1 || !in_handler)
#else
#define MAY_RUN true
#endif

#define PLAIN(statement) atomic { MAY_RUN -> statement }

/*
 * SEQ: one instruction of the sequence, or the interruption before it. An interruption leaves the CPU to others and,
 * when the writer comes back, enters at the abort address.
 */
#ifdef BROKEN_CS_GAP
#define CPU_ID (on[me] == NOWHERE -> 0 : on[me])
#else
#define CPU_ID on[me]
#endif
#define IN_SEQUENCE (on[me] != NOWHERE)
#if defined(BROKEN_ABORT_IGNORED)
#define SEQ(statement) \
	do \
	:: atomic { MAY_RUN && IN_SEQUENCE -> statement; break } \
	:: atomic { MAY_RUN && IN_SEQUENCE && Ignored < 2 -> Ignored++; on[me] = NOWHERE } \
	:: atomic { MAY_RUN && !IN_SEQUENCE && on[1 - me] != 0 -> on[me] = 0 } \
	:: atomic { MAY_RUN && !IN_SEQUENCE && on[1 - me] != 1 -> on[me] = 1 } \
	od
#elif defined(BROKEN_CS_GAP)
#define SEQ(statement) \
	if \
	:: atomic { MAY_RUN && (IN_SEQUENCE || !Armed[me]) -> statement } \
	:: atomic { MAY_RUN && Armed[me] -> on[me] = NOWHERE; FORGET; goto aborted } \
	fi
#else
#ifdef CALM
#define INTERRUPTIBLE (!IN_SEQUENCE || restarts < RESTARTS)
#else
#define INTERRUPTIBLE true
#endif
#ifdef SINGLE_STEP
#define MAY_STEP false
#else
#define MAY_STEP IN_SEQUENCE
#endif
#define SEQ(statement) \
	if \
	:: atomic { MAY_RUN && MAY_STEP -> statement } \
	:: atomic { MAY_RUN && INTERRUPTIBLE -> \
		if \
		:: IN_SEQUENCE && Placed -> WIPE(cpu, h, size) \
		:: else \
		fi; \
		on[me] = NOWHERE; FORGET; goto aborted } \
	fi
#endif

/* rseq.rseq_cs = &sequence, on whatever free CPU the scheduler has given us. */
#if CPUS == 2
#define BEGIN_SEQUENCE \
	if \
	:: atomic { MAY_RUN && on[1 - me] != 0 -> on[me] = 0 } \
	:: atomic { MAY_RUN && on[1 - me] != 1 -> on[me] = 1 } \
	fi
#else
#define BEGIN_SEQUENCE atomic { MAY_RUN && on[1 - me] != 0 -> on[me] = 0 }
#endif
#define END_OF_SEQUENCE on[me] = NOWHERE

/* A store reuses the cells of one ring length earlier; the reader must have finished with them. */
#define MAY_STORE(lane, end) \
	assert(mapped); \
	CHECK(unread_kept, LOW((end) - Used[lane]) >= 1 && LOW((end) - Used[lane]) <= RING)

/* The header's id says which record this is (tag) and so how long; the payload repeats the tag. */
#define STORE_HEADER(lane) \
	MAY_STORE(lane, h + 2); \
	CELL(lane, h) = tag * 2 + (size == 5); \
	CELL(lane, h + 1) = word

#define STORE_PAYLOAD(lane) \
	MAY_STORE(lane, h + size + 1); \
	CELL(lane, h + 2) = tag; \
	CELL(lane, h + 3) = (size == 5 -> tag : 0); \
	CELL(lane, h + 4) = (size == 5 -> tag : CELL(lane, h + 4)); \
	CELL(lane, h + 5) = (size == 5 -> 0 : CELL(lane, h + 5))

/* An empty space looks like no record: what an aborted sequence left, and what the reader has done with, is 0. */
#define WIPE(lane, at, size) \
	CELL(lane, at) = 0; \
	CELL(lane, (at) + 1) = 0; \
	CELL(lane, (at) + 2) = 0; \
	CELL(lane, (at) + 3) = (size == 5 -> 0 : CELL(lane, (at) + 3)); \
	CELL(lane, (at) + 4) = (size == 5 -> 0 : CELL(lane, (at) + 4))

#define FORGET h = 0; word = 0; cpu = 0; Placed = 0	/* dead values only make the state space larger */
#define READ_CLOCK(lane) word = clock[lane]; clock[lane]++
#define IS_FULL(lane) (LOW(h - tail[lane]) + ROUNDED(size) > RING)

#ifdef BROKEN_CS_GAP
bool Armed[WRITERS];
#endif

active [WRITERS] proctype writer()
{
	byte n, tag, size, restarts, cpu, h, word;
	bit Placed;			/* past the test for room: h and cpu say where the record goes */
#ifdef BROKEN_ABORT_IGNORED
	byte Ignored;
#endif
#define me _pid
	{
	skip;
next:
	if
	:: atomic { n == (me == 0 -> RECORDS_0 : RECORDS_1) && MAY_RUN -> goto finish }
	:: atomic {
		n < (me == 0 -> RECORDS_0 : RECORDS_1) && MAY_RUN ->
#ifdef HANDLER
		if
		:: me == 1 ->
			in_handler = true;
#ifdef BROKEN_CS_GAP
			/* The kernel drops an rseq_cs that the thread is not inside. */
			if
			:: on[0] == NOWHERE -> Armed[0] = false
			:: else
			fi;
#endif
			on[0] = NOWHERE
		:: else
		fi;
#endif
		n++;
		tag = me * RECORDS_0 + n;
		restarts = 0;
		Begun++;
		size = 3 + ((me + n) & 1) * 2
	}
	fi;

retry:
#ifdef BROKEN_STALE
	PLAIN(if :: !cpu_count -> goto off :: else fi);
	PLAIN(if :: !id -> goto off :: else fi);
#endif
#ifdef BROKEN_CLOCK_BEFORE
	PLAIN(word = clock[0]; clock[0]++);	/* one CPU only */
#endif
#ifdef BROKEN_CS_GAP
	PLAIN(Armed[me] = true);	/* rseq_cs is set, but the next instruction is not yet inside */
#endif
	BEGIN_SEQUENCE;
#if defined(UNMAP) && !defined(BROKEN_STALE)
	SEQ(if :: !cpu_count -> END_OF_SEQUENCE; goto off :: else fi);
	SEQ(if :: !id -> END_OF_SEQUENCE; goto off :: else fi);
#endif
	SEQ(cpu = CPU_ID);
#ifndef BROKEN_CLOCK_BEFORE
	SEQ(READ_CLOCK(cpu));
#endif
	SEQ(assert(mapped); h = head[cpu]);
	SEQ(assert(mapped); if :: IS_FULL(cpu) -> goto no_room :: else -> Placed = true fi);
#ifdef BROKEN_COMMIT_FIRST
	SEQ(assert(mapped); last[cpu] = word);
	SEQ(assert(mapped); head[cpu] = ADVANCE(h, size); Published++);
	SEQ(STORE_HEADER(cpu));
	SEQ(STORE_PAYLOAD(cpu); END_OF_SEQUENCE);
#else
	SEQ(STORE_HEADER(cpu));
#ifndef BROKEN_LAST_AFTER
	SEQ(assert(mapped); last[cpu] = word);
#endif
	SEQ(STORE_PAYLOAD(cpu));
	SEQ(assert(mapped); head[cpu] = ADVANCE(h, size); Published++; END_OF_SEQUENCE);
#ifdef BROKEN_LAST_AFTER
	PLAIN(assert(mapped); last[cpu] = word);
#endif
#endif
	goto written;

no_room:
#ifdef BROKEN_COUNT_EARLY
	SEQ(assert(mapped); lost_full[cpu]++);
	SEQ(END_OF_SEQUENCE);
	goto written;
#endif
#ifndef WAITS
	/* The same last instruction, with another address. */
	SEQ(assert(mapped); h = lost_full[cpu]);
	SEQ(assert(mapped); lost_full[cpu] = h + 1; END_OF_SEQUENCE);
	goto written;
#else
	PLAIN(END_OF_SEQUENCE; FORGET);
#endif

aborted:
	/* Out of line: hold the memory, find out why the attempt failed, settle the record or try again. */
#ifdef BROKEN_NO_BOUND
	goto retry;
#endif
#ifdef UNMAP
#ifndef BROKEN_UNHELD
	PLAIN(users++);
#endif
	PLAIN(if :: !cpu_count -> goto off_held :: else fi);
	PLAIN(if :: !id -> goto off_held :: else fi);
#endif
	/* The CPU that the thread is on just now, or was on. */
	if
	:: PLAIN(assert(mapped); cpu = 0; h = head[0])
#if CPUS == 2
	:: PLAIN(assert(mapped); cpu = 1; h = head[1])
#endif
	fi;
	atomic {
		MAY_RUN ->
		assert(mapped);
		if
#if defined(WAITS) || defined(BROKEN_COUNT_LANE)
		:: IS_FULL(cpu) -> goto count
		:: !IS_FULL(cpu) && restarts < RESTARTS ->
#else
		:: IS_FULL(cpu) && restarts == RESTARTS -> goto count
		:: restarts < RESTARTS ->
#endif
			restarts++;
			h = 0;
			cpu = 0;
#if defined(UNMAP) && !defined(BROKEN_UNHELD)
			goto release_and_retry
#else
			goto retry
#endif
		:: else -> cpu = 0
		fi
	};

	/* 5.4: the spill lane, by plain code under a try-lock. */
	PLAIN(assert(mapped); if :: owner -> goto contended :: else -> owner = 1 fi);
	PLAIN(assert(mapped); h = head[SPILL]);
	PLAIN(assert(mapped); if :: IS_FULL(SPILL) -> goto spill_full :: else fi);
	PLAIN(READ_CLOCK(SPILL));
	PLAIN(assert(mapped); last[SPILL] = word);
	PLAIN(STORE_HEADER(SPILL));
	PLAIN(STORE_PAYLOAD(SPILL));
	PLAIN(assert(mapped); head[SPILL] = ADVANCE(h, size); Published++);
	goto unlock;
spill_full:
	PLAIN(assert(mapped); lost_full[SPILL]++);
unlock:
	PLAIN(assert(mapped); owner = 0);
	goto release;
contended:
	PLAIN(assert(mapped); lost_restart++);
	goto release;

count:
	/* By an atomic add, and at the spill lane: a CPU's lane has its losses counted by sequences only. */
#ifdef BROKEN_COUNT_PLAIN
	PLAIN(assert(mapped); h = lost_full[SPILL]);	/* another CPU may come between the halves of an add */
	PLAIN(assert(mapped); lost_full[SPILL] = h + 1);
#elif defined(BROKEN_COUNT_LANE)
	PLAIN(assert(mapped); lost_full[cpu]++);
#else
	PLAIN(assert(mapped); lost_full[SPILL]++);
#endif
release:
#if defined(UNMAP) && !defined(BROKEN_UNHELD)
	PLAIN(users--);
#endif
written:
	atomic { MAY_RUN -> Done++; goto leave };
#ifdef UNMAP
#ifndef BROKEN_UNHELD
release_and_retry:
	PLAIN(users--);
	goto retry;
#endif
off_held:
#ifndef BROKEN_UNHELD
	PLAIN(users--);
#endif
off:
	PLAIN(Off++);
#endif
leave:
	atomic {
		MAY_RUN ->
		FORGET; size = 0; restarts = 0;
#ifdef BROKEN_ABORT_IGNORED
		Ignored = 0;
#endif
#ifdef HANDLER
		if
		:: me == 1 -> in_handler = false
		:: else
		fi;
#endif
		goto next
	}
	} unless { killed };
finish:
	atomic { n = 0; tag = 0; size = 0; restarts = 0; cpu = 0; h = 0; word = 0; Placed = 0; Ended++ }
#undef me
}

#ifdef KILL
active proctype killer()
{
	if
	:: atomic { Ended < WRITERS -> killed = true }
	:: Ended == WRITERS
	fi
}
#define QUIET (killed || Ended == WRITERS)
#elif defined(UNMAP)
#define QUIET Detached
#else
#define QUIET (Ended == WRITERS)
#endif

/* 5.3, the helper thread. A fence aborts the sequence of each CPU in turn; it returns after the last. */
#ifdef UNMAP
#define ABORT_ON(c) \
	d_step { \
		if \
		:: on[0] == c -> on[0] = NOWHERE \
		:: on[1] == c -> on[1] = NOWHERE \
		:: else \
		fi \
	}

active proctype helper()
{
#ifdef BROKEN_FENCE_FIRST
	ABORT_ON(0);
	ABORT_ON(1);
#endif
	id = 0;
	cpu_count = 0;
#if !defined(BROKEN_NO_FENCE) && !defined(BROKEN_FENCE_FIRST)
	/* membarrier(PRIVATE_EXPEDITED_RSEQ) */
	ABORT_ON(0);
	ABORT_ON(1);
#endif
#ifdef BROKEN_ANSWER_EARLY
	Detached = true;
	users == 0;
	mapped = 0
#else
	users == 0;
	mapped = 0;
	Detached = true
#endif
}
#endif

/* The collector. */
#define TAKE(lane) atomic { head[lane] != tail[lane] -> l = lane; h = head[lane]; t = tail[lane] }
#if CPUS == 2
#define LOST (lost_full[0] + lost_full[1] + lost_full[2] + lost_restart)
#define DRAINED (head[0] == tail[0] && head[1] == tail[1] && head[2] == tail[2])
#else
#define LOST (lost_full[0] + lost_full[1] + lost_restart)
#define DRAINED (head[0] == tail[0] && head[1] == tail[1])
#endif

/* Of a killed program the finished attempts are accounted for, the one in progress may be. */
#define CHECK_KILLED(lost_sum) \
	CHECK(published_read, read_count == Published); \
	CHECK(exact, Done <= read_count + lost_sum && read_count + lost_sum <= Begun)

active proctype reader()
{
	byte l, h, t, d, upper, size, tag, lost;
	byte newest[LANES];
	byte read_count;
	short seen;

poll:
	if
	:: TAKE(0)
	:: TAKE(1)
#if CPUS == 2
	:: TAKE(2)
#endif
	:: atomic { QUIET && DRAINED -> goto total }
#if !defined(UNMAP) && !defined(ENDS)
	/* A SIGKILL now, or at any earlier instruction since which no writer has moved, would leave just this. */
	:: atomic { !QUIET && DRAINED -> CHECK_KILLED(LOST); goto poll }
#endif
	fi;
	upper = last[l];
#ifdef BROKEN_TAIL_EARLY
	tail[l] = h;
#endif
	d_step {
		d = (h - t) & 255;
		CHECK(plausible, LOW(d) <= RING && RECORD_COUNT(d) * 3 <= LOW(d))
	};
	do
	:: d_step {
		d != 0 ->
		tag = CELL(l, t) / 2;
		size = 3 + (CELL(l, t) & 1) * 2;
		CHECK(whole, (tag != 0 && size <= LOW(d) && d >= 16
			&& CELL(l, t + 2) == tag
			&& (size == 3 || (CELL(l, t + 3) == tag && CELL(l, t + 4) == tag))
			&& (seen & (1 << (tag & 15))) == 0));
		seen = seen | (1 << (tag & 15));
		CHECK(ordered, CELL(l, t + 1) > newest[l]);
		newest[l] = CELL(l, t + 1);
		CHECK(newest_bounded, newest[l] <= upper);
		read_count++;
		WIPE(l, t, size);
		d = d - size - 16;
		t = ADVANCE(t, size);
		Used[l] = LOW(t)
	}
	:: else -> break
	od;
	tail[l] = h;			/* release, after the bytes were used */
	d_step {
		l = 0; h = 0; t = 0; upper = 0; size = 0; tag = 0
	};
	goto poll;

total:
	lost = LOST;
	CHECK(published_read, read_count == Published);
	(killed || Ended == WRITERS);
	d_step {
		if
		:: killed -> CHECK_KILLED(lost)
		:: else -> CHECK(exact, Begun - Off == read_count + lost)
		fi
	}
}
