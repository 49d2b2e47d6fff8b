/*
 * compact.pml: short records of spec/ring.md section 11 on a lane of the rseq ring, for Spin. Shows that whoever begins
 * to read at a head that it has read, or at a mark, knows thread and time of every record behind it. What rseq.pml shows
 * (whole records, room, losses) is not shown again: here a store is one step and the ring is never full.
 *
 * Two threads write. Every instruction of a sequence may be its last before the kernel takes the CPU away. A short time
 * stamp has WRAP values; between two readings of the clock there are few cycles or more than WRAP.
 *
 * Configurations (run.sh):
 *   MARKS          threads leave marks out of line, and a reader begins at them [11.4]
 *   BROKEN_*       one mistake each; Spin must find it (README.md says what each is)
 */

#ifndef RECORDS_0
#define RECORDS_0 2		/* write attempts of writer 0 */
#endif
#ifndef RECORDS_1
#define RECORDS_1 1
#endif

#define WRAP 4			/* 2^27 in the spec */
#define FAR 6			/* cycles of a long pause */
#define CELLS ((RECORDS_0 + RECORDS_1) * 4)	/* the ring, which nothing laps */
#define NOBODY 2
#define COMPACT 1
#define EXTENDED 2
#define THREAD 3		/* a thread record and an extended one */

/* The control block. state is two members of one word: they are stored and loaded in one step. */
byte head, last, state_thread = 9, state_at;
/* What stands in the ring, by where it begins. Short records have the low bits of the time only. */
byte form[CELLS], true_thread[CELLS], true_time[CELLS];
#define LOW(h) (true_time[h] % WRAP)
#define SIZE_OF(h) (form[h] + 1)

byte clock = 1, running = NOBODY, Ended;

/* A mark and its place: two of the three words, which do not differ. */
byte mark, place_thread = 9, place_thread_at, place_time, place_time_at;

bool thread_known = true;	/* a reader finds the thread that wrote the record */
bool time_known = true;		/* and the time */
/* With WATCH, only the named property is asserted. */
#ifdef WATCH
#define CHECK(property, condition) property = (property && (condition)); assert(WATCH)
#else
#define CHECK(property, condition) property = (condition); assert(property)
#endif

/* One instruction of the sequence, or the interruption before it. */
#define SEQ(statement) \
	if \
	:: atomic { running == me -> statement } \
	:: atomic { running == me -> running = NOBODY; goto aborted } \
	fi

#define STORE_STATE SEQ(state_thread = me; state_at = h + size)
#define STORE_LAST SEQ(last = word)

#ifdef BROKEN_NO_PLACE
#define IS_KNOWN(h) (state_thread == me)
#else
#define IS_KNOWN(h) (state_thread == me && state_at == h)
#endif

active [2] proctype writer()
{
	byte n, h, word, size, kind;
#define me _pid
next:
	if
	:: n == (me == 0 -> RECORDS_0 : RECORDS_1) -> goto finish
	:: n < (me == 0 -> RECORDS_0 : RECORDS_1) -> n++
	fi;
	atomic { running == NOBODY -> running = me };
	/* Nobody sees what is loaded, and nothing comes between on this CPU: one step. */
	SEQ(
		if
		:: clock = clock + 1
		:: clock = clock + FAR
		fi;
		word = clock;
		h = head;
		if
		:: !IS_KNOWN(h) -> kind = THREAD
#ifdef BROKEN_NO_TIME
		:: IS_KNOWN(h) -> kind = COMPACT
#else
		:: IS_KNOWN(h) && word - last < WRAP -> kind = COMPACT
		:: IS_KNOWN(h) && !(word - last < WRAP) -> kind = EXTENDED
#endif
		fi;
		size = kind + 1);
	SEQ(form[h] = kind; true_thread[h] = me; true_time[h] = word);
#ifdef BROKEN_LAST_FIRST
	STORE_LAST;
	STORE_STATE;
#else
	STORE_STATE;
	STORE_LAST;
#endif
	SEQ(head = h + size; running = NOBODY);
aborted:
	atomic { h = 0; word = 0; size = 0; kind = 0; goto next };
finish:
	Ended++
#undef me
}

/* head, state, last and head again [11.3]. */
#ifdef BROKEN_ONE_LOOK
#define LOOK(again) \
	h = head; \
	atomic { thread = state_thread; is_here = (state_at == h) }; \
	time = last
#else
#define LOOK(again) \
	h = head; \
	atomic { thread = state_thread; is_here = (state_at == h) }; \
	time = last; \
	if \
	:: h != head -> goto again \
	:: else \
	fi
#endif

/* Reads all records from h on, once all are there: with thread and time of the place. */
#define READ_ON \
	do \
	:: d_step { \
		h != head -> \
		if \
		:: form[h] == COMPACT -> time = time + ((LOW(h) + WRAP * 8 - time) % WRAP) \
		:: form[h] == EXTENDED -> time = true_time[h] \
		:: form[h] == THREAD -> time = true_time[h]; thread = true_thread[h] \
		fi; \
		CHECK(thread_known, thread == true_thread[h]); \
		CHECK(time_known, time == true_time[h]); \
		h = h + SIZE_OF(h) \
	} \
	:: h == head -> break \
	od

#ifndef MARKS
/* The collector, which cuts at any moment. */
active proctype reader()
{
	byte h, thread, time;
	bool is_here;
again:
	LOOK(again);
	Ended == 2;
	READ_ON
}
#else
/* Somebody who makes room, out of line: may be stopped anywhere. */
active [2] proctype marker()
{
	byte h, thread, time, seen;
	bool is_here;
	seen = mark;
	h = head;
	atomic { thread = state_thread; is_here = (state_at == h) };
	time = last;
#ifndef BROKEN_MARK_ONE_LOOK
	if
	:: h != head -> goto leave
	:: else
	fi;
#endif
	atomic { place_thread = thread; place_thread_at = h };
	atomic { place_time = time; place_time_at = h };
	atomic {
		if
		:: mark == seen -> mark = h
		:: else
		fi
	};
leave:
	skip
}

active proctype snapshot()
{
	byte h, thread, time, thread_at, time_at;
	bool is_here;
	Ended == 2;
	h = mark;
	atomic { thread = place_thread; thread_at = place_thread_at };
	atomic { time = place_time; time_at = place_time_at };
	if
#ifdef BROKEN_MARK_UNNAMED
	:: true ->
#else
	:: thread_at == h && time_at == h ->
#endif
		READ_ON
	:: else
	fi
}
#endif
