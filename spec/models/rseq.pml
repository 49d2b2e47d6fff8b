/*
 * rseq.pml: the rseq ring of spec/ring.md section 5, for Spin. Shows that the restartable sequence keeps the promises
 * of section 1 against pre-emption, migration, signals, SIGKILL, a full ring, and the unmapping of 5.3.
 * Does not model weak memory (README.md says why that is enough), other processes, or a hostile program.
 *
 * A cell is 4 bytes. A ring has 8 cells, a record 3 or 4 (12 or 16 bytes: header, payload), a store 2 (8 bytes), so a
 * record of 3 cells is written by stores that run one cell past it. head, tail and their differences are the packed
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
 *   COUNT_APART    a full ring is counted by a second sequence, as kymo__sequence_count does
 *   BROKEN_*       one mistake each; Spin must find it
 */

#ifndef RECORDS
#define RECORDS 2		/* write attempts of each writer */
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
#define ROUNDED(size) 4		/* 12 and 16 bytes, rounded up to 8 */
#endif

/* Shared memory: lanes and control blocks [3]. */
byte cell[24];			/* LANES * RING, at most */
byte head[LANES] = START;
byte tail[LANES] = START;
byte last[LANES];
byte lost_full[LANES];
byte lost_restart;		/* of the spill lane */
bit owner;			/* of the spill lane */

/* The traced process: is the event on, does the slot have lanes, threads on the spill path. */
bit id = 1;
bit lanes = 1;
byte spill_users;
bit mapped = 1;

/* The kernel. */
byte on[WRITERS] = NOWHERE;	/* the CPU whose sequence the writer is in */
byte clock = 1;
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

#define CHECK(property, condition) property = (condition); assert(property)

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
	:: atomic { MAY_RUN && Armed[me] -> on[me] = NOWHERE; goto aborted } \
	fi
#else
#define SEQ(statement) \
	if \
	:: atomic { MAY_RUN && IN_SEQUENCE -> statement } \
	:: atomic { MAY_RUN -> on[me] = NOWHERE; goto aborted } \
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

/* One 8-byte store. It reuses the cells of one ring length earlier, which the reader must have finished with. */
#define STORE(lane, at, first, second) \
	assert(mapped); \
	CHECK(unread_kept, LOW((at) + 2 - Used[lane]) >= 1 && LOW((at) + 2 - Used[lane]) <= RING); \
	CELL(lane, at) = first; \
	CELL(lane, (at) + 1) = second

/* The header's id says which record this is (tag) and so how long; the payload repeats the tag. */
#define STORE_HEADER(lane) STORE(lane, h, (tag * 2 + (size == 4)), word)
#define STORE_PAYLOAD(lane) STORE(lane, h + 2, tag, tag)
#define IS_FULL(lane) (LOW(h - tail[lane]) + ROUNDED(size) > RING)

#ifdef BROKEN_CS_GAP
bool Armed[WRITERS];
#endif

active [WRITERS] proctype writer()
{
	byte n, tag, size, restarts, cpu, h, word;
	bit seen_id, seen_lanes;
#ifdef BROKEN_ABORT_IGNORED
	byte Ignored;
#endif
#define me _pid
	{
	skip;
next:
	if
	:: atomic { n == RECORDS && MAY_RUN -> goto finish }
	:: atomic {
		n < RECORDS && MAY_RUN ->
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
		tag = me * RECORDS + n;
		restarts = 0;
		Begun++;
		if
		:: size = 3
		:: size = 4
		fi
	}
	fi;

retry:
#ifdef BROKEN_STALE
	PLAIN(seen_id = id; if :: !seen_id -> goto off :: else fi);
	PLAIN(seen_lanes = lanes; if :: !seen_lanes -> goto off :: else fi);
#endif
#ifdef BROKEN_CS_GAP
	PLAIN(Armed[me] = true);	/* rseq_cs is set, but the next instruction is not yet inside */
#endif
	BEGIN_SEQUENCE;
#if defined(UNMAP) && !defined(BROKEN_STALE)
	SEQ(seen_id = id; if :: !seen_id -> END_OF_SEQUENCE; goto off :: else fi);
	SEQ(seen_lanes = lanes; if :: !seen_lanes -> END_OF_SEQUENCE; goto off :: else fi);
#endif
	SEQ(cpu = on[me]);
	SEQ(assert(mapped); h = head[cpu]);
	SEQ(assert(mapped); if :: IS_FULL(cpu) -> goto no_room :: else fi);
	SEQ(word = clock; clock++);
#ifdef BROKEN_COMMIT_FIRST
	SEQ(assert(mapped); last[cpu] = word);
	SEQ(assert(mapped); head[cpu] = ADVANCE(h, size); Published++);
	SEQ(STORE_HEADER(cpu));
	SEQ(STORE_PAYLOAD(cpu); END_OF_SEQUENCE);
#else
	SEQ(STORE_HEADER(cpu));
	SEQ(STORE_PAYLOAD(cpu));
#ifdef BROKEN_LAST_AFTER
	SEQ(assert(mapped); head[cpu] = ADVANCE(h, size); Published++; END_OF_SEQUENCE);
	PLAIN(assert(mapped); last[cpu] = word);
#else
	SEQ(assert(mapped); last[cpu] = word);
	SEQ(assert(mapped); head[cpu] = ADVANCE(h, size); Published++; END_OF_SEQUENCE);
#endif
#endif
	goto written;

no_room:
#if defined(BROKEN_COUNT_EARLY)
	SEQ(assert(mapped); lost_full[cpu]++);
	SEQ(END_OF_SEQUENCE);
#elif defined(BROKEN_COUNT_OUTSIDE)
	PLAIN(END_OF_SEQUENCE);
	PLAIN(assert(mapped); lost_full[cpu]++);
#elif defined(COUNT_APART)
	PLAIN(END_OF_SEQUENCE; restarts = 0);
count:
	BEGIN_SEQUENCE;
#define aborted count_aborted
#ifdef UNMAP
	SEQ(seen_lanes = lanes; if :: !seen_lanes -> END_OF_SEQUENCE; goto off :: else fi);
#endif
	SEQ(cpu = on[me]);
	SEQ(assert(mapped); lost_full[cpu]++; END_OF_SEQUENCE);
#undef aborted
	goto written;
count_aborted:
	atomic {
		MAY_RUN ->
		if
		:: restarts < RESTARTS -> restarts++; goto count
		:: else
		fi
	};
#ifdef UNMAP
	PLAIN(spill_users++);
	PLAIN(if :: !lanes -> spill_users--; goto off :: else fi);
#endif
	PLAIN(assert(mapped); lost_restart++);
	goto spill_left;
#else
	SEQ(assert(mapped); lost_full[cpu]++; END_OF_SEQUENCE);
#endif
	goto written;

aborted:
	atomic {
		MAY_RUN ->
#ifdef BROKEN_NO_BOUND
		goto retry
#else
		restarts++;
		if
		:: restarts <= RESTARTS -> goto retry
		:: else
		fi
#endif
	};

	/* 5.4: plain code under a try-lock. spill_users tells the helper that somebody may hold a pointer. */
#ifdef UNMAP
#ifndef BROKEN_SPILL_UNSEEN
	PLAIN(spill_users++);
#endif
	PLAIN(seen_id = id; if :: !seen_id -> goto off_spill :: else fi);
	PLAIN(seen_lanes = lanes; if :: !seen_lanes -> goto off_spill :: else fi);
#endif
	PLAIN(assert(mapped); if :: owner -> goto contended :: else -> owner = 1 fi);
	PLAIN(assert(mapped); h = head[SPILL]);
	PLAIN(assert(mapped); if :: IS_FULL(SPILL) -> goto spill_full :: else fi);
	PLAIN(word = clock; clock++);
	PLAIN(STORE_HEADER(SPILL));
	PLAIN(STORE_PAYLOAD(SPILL));
	PLAIN(assert(mapped); last[SPILL] = word);
	PLAIN(assert(mapped); head[SPILL] = ADVANCE(h, size); Published++);
	goto unlock;
spill_full:
	PLAIN(assert(mapped); lost_full[SPILL]++);
unlock:
	PLAIN(assert(mapped); owner = 0);
	goto spill_left;
contended:
	PLAIN(assert(mapped); lost_restart++);
spill_left:
#if defined(UNMAP) && !defined(BROKEN_SPILL_UNSEEN)
	PLAIN(spill_users--);
#endif
written:
	atomic {
		MAY_RUN ->
		Done++;
		goto leave
	};
#ifdef UNMAP
off_spill:
#ifndef BROKEN_SPILL_UNSEEN
	PLAIN(spill_users--);
#endif
off:
	PLAIN(Off++);
#endif
leave:
	atomic {
		MAY_RUN ->
		h = 0; word = 0; cpu = 0; size = 0; restarts = 0; seen_id = 0; seen_lanes = 0;
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
	Ended++
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
	lanes = 0;
#if !defined(BROKEN_NO_FENCE) && !defined(BROKEN_FENCE_FIRST)
	/* membarrier(PRIVATE_EXPEDITED_RSEQ) */
	ABORT_ON(0);
	ABORT_ON(1);
#endif
	spill_users == 0;
	mapped = 0;
	Detached = true
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
		size = 3 + (CELL(l, t) & 1);
		CHECK(whole, (tag != 0 && size <= LOW(d) && d >= 16
			&& CELL(l, t + 2) == tag && (size == 3 || CELL(l, t + 3) == tag)
			&& (seen & (1 << tag)) == 0));
		seen = seen | (1 << tag);
		CHECK(ordered, CELL(l, t + 1) > newest[l]);
		newest[l] = CELL(l, t + 1);
		CHECK(newest_bounded, newest[l] <= upper);
		read_count++;
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
		:: killed -> CHECK(exact, Done <= read_count + lost && read_count + lost <= Begun)
		:: else -> CHECK(exact, Begun - Off == read_count + lost)
		fi
	}
}
