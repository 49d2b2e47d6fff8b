/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ring.h: the shared memory that one program and one collector have in common: a header page, one
 * control block per lane, and the lanes' bytes. spec/ring.md section 3 is the text to this layout;
 * section 4 says who may write which word.
 */
#ifndef KYMO_ABI_RING_H
#define KYMO_ABI_RING_H

#include "check.h"

#define KYMO_MEM_MAGIC 0x314d454d4f4d594bull /* "KYMOMEM1", little endian */

/* A record with its header may not be longer; a longer one is refused and counted in lost_size. */
#define KYMO_RECORD_MAX 65536u
#define KYMO_RECORD_HEADER 8u

/*
 * Ring sizes are powers of two between these. The upper bound keeps byte counts in 32 bits [ring.md
 * 3.2].
 */
#define KYMO_RING_BYTES_MIN 4096u
#define KYMO_RING_BYTES_MAX (1u << 30)

/*
 * A writer stores whole words: up to so many bytes behind a record (of an event without fields, a
 * word). A record is written only where they are free, too.
 */
#define KYMO_STORE_PAST 8u

/* Sessions that one program can serve at once. */
#define KYMO_SLOTS 16u

enum kymo_kind {
	KYMO_KIND_RSEQ = 1,	/* one lane per CPU, then one spill lane */
	KYMO_KIND_PORTABLE = 2, /* lanes are claimed by threads */
};

enum kymo_clock {
	KYMO_CLOCK_TSC = 1,	  /* raw invariant TSC, in cycles */
	KYMO_CLOCK_MONOTONIC = 2, /* CLOCK_MONOTONIC, in nanoseconds */
	KYMO_CLOCK_CNTVCT = 3,	  /* raw count of the Arm generic timer, as a program reads it in cntvct_el0 */
};

enum kymo_mem_flags {
	KYMO_MEM_BLOCK = 1,  /* writers that have agreed wait for room [session.md 12] */
	KYMO_MEM_SHARED = 2, /* several programs write into these rings [session.md 13] */
};

/* What a record has between its thread id and its payload, in this order [context.md]. */
enum kymo_context {
	KYMO_CONTEXT_VPID = 1,	     /* u32 */
	KYMO_CONTEXT_PRIO = 2,	     /* i32, as it was at the thread's first record */
	KYMO_CONTEXT_PRIO_NOW = 4,   /* i32, by a system call */
	KYMO_CONTEXT_CGROUP = 8,     /* u64 */
	KYMO_CONTEXT_PROCNAME = 16,  /* 16 bytes, NUL padded */
	KYMO_CONTEXT_PERF = 32,	     /* u64 for each counter in the header */
	KYMO_CONTEXT_CALLSTACK = 64, /* u16 count, then so many u64 */
	/* No context: records are compact, and have no thread id [ring.md 11]. */
	KYMO_CONTEXT_COMPACT = 1 << 30,
};

/* A counter, as perf_event_open(2) knows it. */
struct kymo_perf {
	uint32_t type;
	uint32_t unused;
	uint64_t config;
};
KYMO_CHECK_SIZE(struct kymo_perf, 16);
#define KYMO_PERF_MAX 4u

/* Nobody waits longer for room [session.md 12]. */
#define KYMO_BLOCK_NS_MAX 10000000000ull

/*
 * First page of the memory. Written by the collector before the program sees it, except lost_lane,
 * lanes_used, block_agreed and block_waits.
 */
struct kymo_mem {
	uint64_t magic;
	uint32_t abi;
	uint32_t kind;
	uint32_t clock;
	uint32_t lane_count;
	uint32_t ring_bytes;
	uint32_t rings_offset; /* bytes from the start of the memory to ring control block 0 */
	uint64_t data_offset;  /* bytes from the start of the memory to the bytes of lane 0 */
	uint64_t mem_bytes;
	uint64_t serial;       /* identity of this memory, unique on the collector */
	uint64_t lost_lane;    /* program: records lost because no lane was free for the thread */
	uint32_t lanes_used;   /* program, portable: lanes at and above this were never claimed */
	uint32_t marks_offset; /* collector: bytes to the marks of lane 0; 0 in discard mode */
	uint32_t flags;        /* collector: enum kymo_mem_flags */
	uint32_t contexts;     /* collector: enum kymo_context: how records are laid out */
	uint32_t perf_count;   /* collector: of perf; at most KYMO_PERF_MAX */
	uint32_t lanes_limit;  /* collector, portable: lanes at and above this must not be claimed; 0: all may */
	struct kymo_perf perf[KYMO_PERF_MAX];
	uint64_t block_ns;     /* collector, with KYMO_MEM_BLOCK: how long a record waits for room at most */
	uint64_t block_waits;  /* program: records that had to wait */
	uint32_t block_agreed; /* program: processes that wait */
	uint32_t left;         /* program: 1: it could not talk to the collector, and records no more */
};
KYMO_CHECK_SIZE(struct kymo_mem, 176);
KYMO_CHECK_OFFSET(struct kymo_mem, block_ns, 152);
KYMO_CHECK_OFFSET(struct kymo_mem, block_waits, 160);
KYMO_CHECK_OFFSET(struct kymo_mem, block_agreed, 168);
KYMO_CHECK_OFFSET(struct kymo_mem, left, 172);
KYMO_CHECK_OFFSET(struct kymo_mem, lanes_used, 64);
KYMO_CHECK_OFFSET(struct kymo_mem, marks_offset, 68);
KYMO_CHECK_OFFSET(struct kymo_mem, flags, 72);
KYMO_CHECK_OFFSET(struct kymo_mem, contexts, 76);
KYMO_CHECK_OFFSET(struct kymo_mem, lanes_limit, 84);
KYMO_CHECK_OFFSET(struct kymo_mem, perf, 88);
KYMO_CHECK_OFFSET(struct kymo_mem, ring_bytes, 24);
KYMO_CHECK_OFFSET(struct kymo_mem, data_offset, 32);
KYMO_CHECK_OFFSET(struct kymo_mem, lost_lane, 56);

#define KYMO_MEM_HEADER_BYTES 4096u

/* Thread and time at a tail [ring.md 11.3]. */
struct kymo_cut {
	uint64_t state; /* as in struct kymo_ring */
	uint64_t time;	/* as last there */
};
KYMO_CHECK_SIZE(struct kymo_cut, 16);

/*
 * Control block of one lane. head and tail count bytes in the low 32 bits and records above:
 * value = bytes + records * 2^32, modulo 2^64 [ring.md 3.2].
 */
struct kymo_ring {
	uint64_t head;	       /* program: everything below is published */
	uint64_t last;	       /* program: header word of the newest record begun; never older than head */
	uint64_t tail;	       /* collector: everything below is free again. Overwrite mode: program,
				* everything at and above is intact */
	uint64_t lost_full;    /* program: records lost because the ring was full; a CPU's lane: by its sequences only */
	uint64_t lost_size;    /* program: records lost because they were too long */
	uint64_t lost_restart; /* program: records lost because the sequence could not be completed */
	uint64_t reserve;      /* portable ring: end of the space that is handed out */
	uint32_t unused_word;
	uint32_t owner;	       /* portable ring: thread id of the owner; spill lane: 1 while locked */
	uint64_t told;	       /* collector: lost records that packets tell of, once tail is told_at */
	uint64_t told_before;  /* collector: the same until then */
	uint64_t told_at;      /* collector: tail behind the packet that told of a loss last */
	uint64_t state;	       /* program, compact: the thread * 2^32, and the low half of head behind its record */
	struct kymo_cut cut[2]; /* collector, compact: of tail, by turns */
};
KYMO_CHECK_SIZE(struct kymo_ring, 128);
KYMO_CHECK_OFFSET(struct kymo_ring, last, 8);
KYMO_CHECK_OFFSET(struct kymo_ring, tail, 16);
KYMO_CHECK_OFFSET(struct kymo_ring, lost_full, 24);
KYMO_CHECK_OFFSET(struct kymo_ring, lost_restart, 40);
KYMO_CHECK_OFFSET(struct kymo_ring, reserve, 48);
KYMO_CHECK_OFFSET(struct kymo_ring, owner, 60);
KYMO_CHECK_OFFSET(struct kymo_ring, told, 64);
KYMO_CHECK_OFFSET(struct kymo_ring, told_before, 72);
KYMO_CHECK_OFFSET(struct kymo_ring, told_at, 80);
KYMO_CHECK_OFFSET(struct kymo_ring, state, 88);
KYMO_CHECK_OFFSET(struct kymo_ring, cut, 96);

#define KYMO_ONE_RECORD (1ull << 32)

/*
 * Overwrite mode [ring.md 10]: marks of one lane. Each is a value that head had, so a place where a
 * record begins. The ring has KYMO_CHUNKS chunks; mark i is of the newest chunk whose number is i
 * modulo KYMO_MARKS.
 */
#define KYMO_CHUNKS 32u
#define KYMO_MARKS 64u

struct kymo_marks {
	uint64_t at[KYMO_MARKS]; /* program */
};
KYMO_CHECK_SIZE(struct kymo_marks, 512);

/*
 * Compact records [ring.md 11]: the header of a short one, of a longer one, and of a thread record,
 * which stands in front of a longer one and has the thread as its payload.
 */
#define KYMO_COMPACT_BYTES 4u
#define KYMO_COMPACT_ID_MAX 29u
#define KYMO_COMPACT_TIME_BITS 27u
#define KYMO_EXTENDED_BYTES 9u
#define KYMO_EXTENDED_ID 31u
#define KYMO_THREAD_BYTES 13u
#define KYMO_THREAD_ID 0xffffu

/*
 * With marks: thread and time at each mark. The low half of each word is that of the mark that it is
 * of. The places of all lanes stand behind the marks of all lanes.
 */
struct kymo_places {
	uint64_t thread[KYMO_MARKS]; /* program: thread * 2^32 */
	uint64_t high[KYMO_MARKS];   /* program: the upper 24 of 48 bits of time, * 2^32 */
	uint64_t low[KYMO_MARKS];    /* program: the lower 24 bits, * 2^32 */
};
KYMO_CHECK_SIZE(struct kymo_places, 1536);

#endif
