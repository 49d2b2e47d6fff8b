/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime.h: what an instrumented object and libkymo share inside one process. Inline code reaches
 * everything through the pointer that registration leaves in kymo__module, so that no data symbol
 * crosses between objects. Not shared with the collector; that is abi/.
 */
#ifndef KYMO_RUNTIME_H
#define KYMO_RUNTIME_H

#include "abi/desc.h"
#include "abi/ring.h"
#include "arch/local.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO__LIKELY(x) __builtin_expect(!!(x), 1)
#define KYMO__UNLIKELY(x) __builtin_expect(!!(x), 0)
#define KYMO__INLINE static inline __attribute__((always_inline, unused)) KYMO__UNSEEN

/* The clock that kymo__counter reads. */
#if KYMO_ARCH_AARCH64
#define KYMO_CLOCK_COUNTER KYMO_CLOCK_CNTVCT
#elif KYMO_ARCH_X86_64
#define KYMO_CLOCK_COUNTER KYMO_CLOCK_TSC
#endif

struct kymo_slot;
struct kymo_filters;

/*
 * State of one event in one object. first is what a tracepoint looks at: null when no session wants
 * the event, else the slot of the only one that does, or a slot without lanes when the record has
 * to go out of line: several sessions, a filter, contexts, or the portable ring.
 */
struct kymo_event {
	const struct kymo_slot *first;
	const struct kymo_desc *desc;
	uint32_t index;	  /* KYMO_NO_INDEX until registered */
	uint32_t enabled; /* a bit for each slot that wants the event */
	uint16_t id[KYMO_SLOTS]; /* 0: off. Loaded inside the sequence [ring.md 5.1] */
	struct kymo_filters *filters; /* libkymo's own; null: no session has a filter for it */
} __attribute__((aligned(64)));
KYMO_CHECK_SIZE(struct kymo_event, 64);
KYMO_CHECK_OFFSET(struct kymo_event, id, 24);

/* What a sequence leaves for the next one of the same record, in another slot [ring.md 5.9]. */
struct kymo_shared {
	uint64_t clock;	   /* in the upper 48 bits */
	uint64_t sequence; /* the address of its struct rseq_cs, in rseq.rseq_cs unless the thread was interrupted */
};
KYMO_CHECK_OFFSET(struct kymo_shared, sequence, 8);

/*
 * One session. cpu_count is 0 while the slot is free: every CPU number is too large then, and the
 * sequence leaves. The slots stand in memory that the kernel wipes in a new child; rseq_offset is 0
 * then, and the child comes out of line first.
 */
struct kymo_slot {
	struct kymo_ring *rings; /* control blocks; the doubled bytes of lane i begin at rings + data_offset + i * stride */
	uint32_t cpu_count;	 /* lanes that belong to a CPU; portable: lanes */
	uint32_t room;		 /* ring_bytes - KYMO_STORE_PAST */
	uint32_t mask;		 /* ring_bytes - 1 */
	uint32_t id_offset;	 /* of this slot's id in a struct kymo_event */
	uint64_t stride;	 /* 2 * ring_bytes */
	uint64_t data_offset;	 /* bytes */
	uint64_t serial;
	intptr_t rseq_offset;	 /* of struct rseq from the thread pointer; 0: out of line */
	intptr_t thread_offset;	 /* of struct kymo_thread from the thread pointer */
	/* 1: a record for a full ring is counted as lost by its sequence; 0: libkymo is asked. */
	uint32_t counts_full;
	uint32_t is_compact; /* 1: records are compact, 2: and have contexts [ring.md 11] */
	uint32_t unused[14];
} __attribute__((aligned(64)));
KYMO_CHECK_SIZE(struct kymo_slot, 128);
KYMO_CHECK_OFFSET(struct kymo_slot, cpu_count, 8);
KYMO_CHECK_OFFSET(struct kymo_slot, room, 12);
KYMO_CHECK_OFFSET(struct kymo_slot, mask, 16);
KYMO_CHECK_OFFSET(struct kymo_slot, id_offset, 20);
KYMO_CHECK_OFFSET(struct kymo_slot, stride, 24);
KYMO_CHECK_OFFSET(struct kymo_slot, data_offset, 32);
KYMO_CHECK_OFFSET(struct kymo_slot, rseq_offset, 48);
KYMO_CHECK_OFFSET(struct kymo_slot, thread_offset, 56);
KYMO_CHECK_OFFSET(struct kymo_slot, counts_full, 64);
KYMO_CHECK_OFFSET(struct kymo_slot, is_compact, 68);

/*
 * Per thread, in libkymo's thread-local storage (initial-exec: no allocation in signal handlers).
 * inline_tid is the thread's id once it has been asked for, else 0: then its first record goes out
 * of line.
 */
struct kymo_thread {
	uint32_t inline_tid;
};

/*
 * A piece of a payload. KYMO_SEG_STAGED in bytes: at points to whole words, and up to 7 bytes
 * behind the piece may be read, and written into the ring where the next piece or nothing comes.
 */
struct kymo_seg {
	const void *at;
	uint64_t bytes;
};
KYMO_CHECK_SIZE(struct kymo_seg, 16);
#define KYMO_SEG_STAGED (1ull << 63)

/* Payload words that travel in registers; longer payloads are gathered from memory. */
#define KYMO_WORDS_MAX 4

struct kymo_rt {
	uint32_t abi;
	uint32_t unused;
	const uint8_t *zeros; /* KYMO_RECORD_MAX bytes, for null arrays */
	/*
	 * write_words, write_segs: the whole record for all sessions, out of line; what the inline
	 * path does not do itself. step is the record's bytes and one record, as ring.head counts
	 * [ring.md 3.2].
	 * Context: any, signal handlers included; system calls on a thread's first record only.
	 */
	void (*write_words)(struct kymo_event *event, uint64_t step, uint64_t w0, uint64_t w1,
			    uint64_t w2, uint64_t w3);
	void (*write_segs)(struct kymo_event *event, uint64_t step, const struct kymo_seg *segs,
			   const struct kymo_seg *segs_end);
};

/* One per shared object or executable: the weak definitions below merge. */
struct kymo_module {
	uint32_t abi;
	uint32_t index_base; /* of its first event */
	struct kymo_rt *rt;
	struct kymo_module *next;
	struct kymo_event *events, *events_end;
	const uint8_t *descs, *descs_end;
	uint64_t unused[2];
};

/*
 * kymo__register: makes a module's events known; at the first call in a process, attaches to live
 * sessions. kymo__unregister: the opposite, before the module's memory goes away.
 * Context: constructors and destructors. Register may wait 100 ms for live sessions [session.md 3].
 */
void kymo__register(struct kymo_module *module);
void kymo__unregister(struct kymo_module *module);

#define KYMO__WEAK __attribute__((weak, visibility("hidden")))

/* Of the object that this code is in. */
KYMO__WEAK struct kymo_module kymo__module;

#ifdef __cplusplus
}
#endif
#endif
