/*
 * attach.pml: how a process comes to the memory of a POSIX Trace stream and leaves it, for Spin: spec/posix.md 3.4.
 * Shows that a writer which is pre-empted anywhere neither touches memory that is unmapped, nor takes one stream's
 * numbers for those of another, nor keeps a later stream of the slot from being recorded.
 * Does not model lanes (rseq.pml, portable.pml), weak memory, fork, and several slots.
 *
 * One slot. A stream is known by its generation, 1, 2, ...; 0 is none. The controller makes GENERATIONS streams for the
 * process of the writers, one after the other, and leaves the last one running. Each writer records one event at any
 * time, and one more when all that is over; that one must be in the last stream.
 *
 * Configurations (run.sh):
 *   SAME       the controller is a thread of the writers' process, and uses the memory itself; else another process
 *   SEQUENCE   writers are inside of a restartable sequence; else out of line, where they count themselves
 *   BROKEN_*   one mistake each; Spin must find it (README.md says what each is)
 */

#ifndef GENERATIONS
#define GENERATIONS 2
#endif
#define WRITERS 2
#define LOOKS 4

/* The slot's file, and the page of the writers' process: what controller and target share. */
byte file;			/* generation in it */
bool dead[4];			/* state in the stream's page, by generation */
byte page;			/* kymop_page.generation */
bool idle = true;		/* kymop_page.idle */

/* The writers' process. */
byte current;			/* what writers find */
byte header;			/* what is mapped at the slot's fixed address */
bool mapped[4];
bool retired[4];
byte users[4];
bool busy;
bool sequence[WRITERS];		/* the writer is inside of one that was not interrupted */
byte Done;			/* writers whose first event is over */
bool Quiet;			/* the last stream runs */

/* One name for each property: Spin prints the name in the assertion that failed. */
bool is_mapped = true;		/* nobody touches memory that is not mapped */
bool one_stream = true;		/* sizes and wishes are those of the stream whose lanes are written */
bool recorded = true;		/* a stream that runs gets what is recorded */
#define CHECK(property, condition) property = (condition); assert(property)

#define TAKE atomic { !busy -> busy = true }
#define GIVE busy = false

/* From the writers; under busy. */
inline retire()
{
	if
	:: current != 0 ->
		old = current;
		current = 0;
#ifndef BROKEN_NO_FENCE
		/* membarrier: who is inside begins again */
		atomic { sequence[0] = false; sequence[1] = false };
#endif
		retired[old] = true
	:: else
	fi
}

/* What nobody holds; under busy. */
inline reap()
{
	n = 1;
	do
	:: n > GENERATIONS -> break
	:: else ->
		if
#ifdef BROKEN_NO_COUNT
		:: retired[n] -> mapped[n] = false; retired[n] = false
#else
		:: retired[n] && users[n] == 0 -> mapped[n] = false; retired[n] = false
#endif
		:: else
		fi;
		n++
	od;
	n = 0
}

inline take_place(generation)
{
#ifdef BROKEN_HEADER_FIRST
	header = generation;
	retire();
#else
	retire();
	header = generation;
#endif
	current = generation;
	reap()
}

inline leave(generation)
{
	idle = true;
#ifndef BROKEN_LEAVE
	if
	:: page != generation -> idle = false
	:: else
	fi
#endif
}

/* The first event of a stream in the process. Nothing changes before the stream is known to be the right one. */
inline attach_first()
{
	TAKE;
	if
	:: current == generation -> skip
#ifndef BROKEN_STALE
	:: current != generation && page != generation -> skip
	:: current != generation && page == generation ->
#else
	:: current != generation ->
#endif
		found = file;
#ifdef BROKEN_UNMAP_FIRST
		retire();
		if
		:: old != 0 -> mapped[old] = false; retired[old] = false
		:: else
		fi;
#endif
		if
		:: found == generation ->
			mapped[generation] = true;
			take_place(generation)
		:: found != generation && found != 0 && !dead[found] ->
			atomic {
				if
				:: page == generation -> page = found
				:: else
				fi
			}
		:: else -> leave(generation)
		fi;
		found = 0
	fi;
	GIVE
}

/* In a sequence: one step, or the fence has come in between. */
#define SEQ(statement) \
	if \
	:: atomic { sequence[me] -> statement } \
	:: atomic { !sequence[me] -> goto interrupted } \
	fi

proctype writer(byte me)
{
	byte generation, found, old, n, looks, written;

	looks = 0;
	written = 0;
#ifdef SEQUENCE
	goto inside;
interrupted:
	generation = 0;
	goto look;
inside:
	sequence[me] = true;
	SEQ(generation = current);
	if
	:: generation == 0 -> sequence[me] = false; goto look
	:: else
	fi;
	SEQ(CHECK(one_stream, header == generation));
	SEQ(CHECK(is_mapped, mapped[generation]));
	/* The stream's own page says that it does not want the event. */
	SEQ(if :: dead[generation] -> sequence[me] = false; generation = 0; goto look :: else fi);
	SEQ(CHECK(is_mapped, mapped[generation]); written = generation; sequence[me] = false);
	goto out;
#endif
look:
	do
	:: idle || looks == LOOKS -> break
	:: else ->
		looks++;
		generation = page;
		found = current;
		if
		:: found == generation -> goto hold
		:: else
		fi;
first:
		attach_first();
		found = current;
		if
		:: found != generation -> goto next
		:: else
		fi;
hold:
		users[found]++;
		if
#ifdef BROKEN_NO_RECHECK
		:: false
#else
		:: current != found ->
			users[found]--;
			goto next
#endif
		:: else
		fi;
#ifdef BROKEN_FIXED_ADDRESS
		CHECK(one_stream, header == found);
#endif
		CHECK(is_mapped, mapped[found]);
		if
		:: dead[found] ->
			users[found]--;
			leave(found)
		:: else ->
			CHECK(is_mapped, mapped[found]);
			written = found;
			users[found]--;
			break
		fi;
next:
		found = 0
	od;
out:
	found = 0;
	generation = 0;
	Done++;
	(Quiet && Done == WRITERS);
	/* Nothing changes any more but by the other one's second event. */
	looks = 0;
	written = 0;
	do
	:: idle || looks == LOOKS -> break
	:: else ->
		looks++;
		generation = page;
		if
		:: current != generation -> attach_first()
		:: else
		fi;
		if
		:: current == generation -> written = generation; break
		:: else
		fi
	od;
	CHECK(recorded, written == GENERATIONS)
}

active proctype controller()
{
	byte generation, old, n;

	run writer(0);
	run writer(1);
	generation = 1;
	do
	:: true ->
#ifdef SAME
		TAKE;
		file = generation;
		mapped[generation] = true;
		users[generation]++;
		take_place(generation);
		GIVE;
#else
		file = generation;
#endif
		page = generation;
		idle = false;
#ifdef SAME
		CHECK(is_mapped, mapped[generation]);
#endif
		if
		:: generation == GENERATIONS -> break
		:: else
		fi;
		/* posix_trace_shutdown */
		dead[generation] = true;
		if
		:: page == generation -> idle = true
		:: else
		fi;
#ifdef SAME
		CHECK(is_mapped, mapped[generation]);
		TAKE;
		if
		:: current == generation -> retire(); header = 0
		:: else -> retired[generation] = true
		fi;
		users[generation]--;
		reap();
		file = 0;
		GIVE;
#else
		file = 0;
#endif
		generation++
	od;
	Quiet = true
}
