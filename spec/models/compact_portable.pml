/*
 * compact_portable.pml: short records of spec/ring.md 11.5 on a portable lane, for Spin: one thread whose signal handlers
 * nest two deep, and a collector that cuts. Shows that whoever begins to read at a cut knows the time of every record
 * behind it. The thread needs no showing: a lane has one. What portable.pml shows is not shown again.
 *
 * Only one process of the thread's runs at a time: Current. A handler may start at any step of what it interrupts.
 *
 * Configurations (run.sh): NO_ROOM: a record may find no room at any attempt. BROKEN_*: one mistake each.
 */

#ifndef RECORDS_0
#define RECORDS_0 2		/* records of the thread */
#endif
#ifndef RECORDS_1
#define RECORDS_1 1		/* of its handler */
#endif
#ifndef RECORDS_2
#define RECORDS_2 1		/* of the handler that interrupts the handler */
#endif

#define WRAP 4
#define FAR 6
#define CELLS ((RECORDS_0 + RECORDS_1 + RECORDS_2) * 2 + 2)
#define NOWHERE 255		/* the end of no record */
#define COMPACT 1
#define EXTENDED 2

byte head, reserve, last, state_at = NOWHERE;
byte form[CELLS], true_time[CELLS];
#define LOW(h) (true_time[h] % WRAP)
#define SIZE_OF(h) form[h]
byte clock = 1, depth, Ended;
byte Current;			/* who of the thread runs: the deepest that has begun and not ended */

bool time_known = true;
bool whole = true;
/* With WATCH, only the named property is asserted. */
#ifdef WATCH
#define CHECK(property, condition) property = (property && (condition)); assert(WATCH)
#else
#define CHECK(property, condition) property = (condition); assert(property)
#endif
#define STEP(statement) atomic { Current == me -> statement }

active [3] proctype writer()
{
	byte n, r, word, size, kind, now, outer, left;
	bool is_valid, is_dated;
#define me _pid
end_next:
	atomic {
		n < (me == 0 -> RECORDS_0 : (me == 1 -> RECORDS_1 : RECORDS_2)) && (me == 0 && Current == 0 || me > 0 && Current < me) ->
		n++;
		outer = Current;
		Current = me;
		is_dated = false;
		depth++
	}
again:
	STEP(r = reserve);
	/* In one step: what comes between makes the exchange fail. */
	STEP(is_valid = (state_at == r); now = last);
#ifdef NO_ROOM
	if
	:: atomic { Current == me -> skip }
	:: atomic { Current == me ->
		if
		:: is_dated ->
#ifndef BROKEN_LOST_VALID
			state_at = NOWHERE
#endif
		:: else -> goto out
		fi }
		STEP(if :: clock = clock + 1 :: clock = clock + FAR fi; last = clock);
		STEP(if :: reserve == r -> goto out :: else -> goto again fi)
	fi;
#endif
	STEP(if :: clock = clock + 1 :: clock = clock + FAR fi; word = clock);
	STEP(
		kind = EXTENDED;
		if
		:: is_valid && word - now < WRAP && word >= now -> kind = COMPACT
		:: else
		fi;
		size = kind);
#ifdef BROKEN_STATE_FIRST
	STEP(state_at = r + size);
#else
	STEP(state_at = NOWHERE);
#endif
	STEP(last = word);
#ifdef BROKEN_PLAIN_STORE
	STEP(if :: reserve == r :: else fi);
	STEP(reserve = r + size);
#else
	STEP(
		if
		:: reserve == r -> reserve = r + size
		:: else -> is_dated = true; goto again
		fi);
#endif
#ifndef BROKEN_STATE_FIRST
	STEP(state_at = r + size);
#endif
	STEP(form[r] = kind; true_time[r] = word);
out:
	STEP(
		if
		:: depth > 1 -> depth--; goto end
		:: else
		fi);
publish:
	STEP(left = reserve);
	STEP(head = left);
	STEP(depth = 0);
	STEP(
		if
		:: reserve != head -> depth = 1; goto publish
		:: else
		fi);
end:
	atomic {
		Current == me ->
		r = 0; word = 0; size = 0; kind = 0; now = 0; left = 0; is_valid = false; is_dated = false;
		Current = outer;
		outer = 0;
		if
		:: n == (me == 0 -> RECORDS_0 : (me == 1 -> RECORDS_1 : RECORDS_2)) -> Ended++
		:: else -> goto end_next
		fi
	}
#undef me
}

active proctype reader()
{
	byte h, r, time;
again:
	h = head;
	r = reserve;
	time = last;
#ifndef BROKEN_ONE_LOOK
	if
	:: reserve != r -> goto again
	:: else
	fi;
#endif
#ifndef BROKEN_IN_PROGRESS
	if
	:: h != r -> goto again
	:: else
	fi;
#endif
	if
	:: head != h -> goto again
	:: else
	fi;
	Ended == 3 || (Ended >= 1 && Current == 0 && depth == 0);
	do
	:: d_step {
		h != head ->
		CHECK(whole, form[h] != 0);
		if
		:: form[h] == COMPACT -> time = time + ((LOW(h) + WRAP * 16 - time) % WRAP)
		:: else -> time = true_time[h]
		fi;
		CHECK(time_known, time == true_time[h]);
		h = h + SIZE_OF(h)
	}
	:: h == head -> break
	od
}
