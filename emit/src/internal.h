/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * internal.h: what the files of libkymo share. The flow: register.c (modules) -> control.c
 * (sockets, helper thread) -> session.c (messages) -> slots.c, events.c, memory.c (mappings), filter_make.c;
 * entry.c -> record.c, filter.c, portable.c, context.c, counters.c, callstack.c, stack.c and loader.c are the record
 * path's out-of-line part and know nothing of sockets; both stand on process.c. block.c is where a record waits, if
 * it may. unwind.c (tables of call stacks) -> eh_frame.c run in the helper thread. ARCHITECTURE.md has the order of
 * all files.
 */
#ifndef KYMO_INTERNAL_H
#define KYMO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "context.h"
#include "descriptor.h"
#include "kymo/abi/wire.h"
#include "kymo/ring.h"

#define KYMO_EXPORT __attribute__((visibility("default")))

/* -fvisibility says so of definitions only; what is declared here is reached without a table. */
#pragma GCC visibility push(hidden)

#define KYMO_LANES_MAX 4096u	/* more than any machine has CPUs */
#define KYMO_CLAIMS_MAX 512u	/* portable lanes of one session */
#define KYMO_STARTUP_WAIT_MS 100
#define KYMO_STARTUP_WAIT_MAX_MS 10000
#define KYMO_STARTUP_WAITS_MAX 10 /* of a collector that speaks, but has not answered */
#define KYMO_CONNS_MAX (2 * KYMO_SLOTS)

/* This thread, as record.c and portable.c see it. The first member is what inline code reads. */
struct kymo_self {
	struct kymo_thread inline_part;
	uint32_t tid, pid;
	uint32_t generation; /* kymo_process.generation when tid and pid were read */
	/*
	 * Programs that load libkymo late have few bytes for this, and perhaps two copies of it:
	 * places and a share of the contexts, not a pointer and a block for each session.
	 */
	uint32_t claim[KYMO_SLOTS]; /* see claim_of in lanes.h; 0: none */
	struct kymo_cell *cell;	    /* see lanes.h; null: none */
	/* Records in progress out of line, and 1 more under kymo_lock: above 1 nothing waits for room. */
	uint32_t busy;
	bool is_clockless;	    /* its records are counted as lost: see clockless.c */
	uint8_t held[KYMO_SLOTS];   /* of the slot's holders, those that are this thread */
	struct kymo_stack_bounds stack;
	struct kymo_thread_contexts contexts[KYMO_SLOTS];
	struct kymo_fixed_contexts fixed[KYMO_FIXED_MAX]; /* of slots modulo that; their serial says whose */
	int cancel_state; /* the program's, while the thread is under kymo_lock */
};
_Static_assert(sizeof(struct kymo_self) <= 512, "static thread-local storage is scarce");

/* One mapped session memory. Private to the process; the record path sees only struct kymo_slot. */
struct kymo_memory {
	/*
	 * Header page and control blocks; then the doubled lanes, or the lanes as they stand in
	 * the file, without access, from where each is doubled when it is claimed (portable).
	 */
	uint8_t *base;
	size_t control_bytes, mapped_bytes;
	struct kymo_ring *rings;
	struct kymo_marks *marks; /* of lane 0; null in discard mode */
	struct kymo_places *places; /* the same, of compact records: beside the marks [ring.md 11.4] */
	struct kymo_contexts contexts;
	uint32_t lane_count, ring_bytes;
	uint64_t serial;
	bool lanes_are_doubled; /* all of them; else each when it is claimed */
	bool locked;
	uint64_t touched_bytes;
	/* A bit for each lane: its pages are there; it is asked for that they be. Under kymo_lock. */
	uint8_t ready[KYMO_LANES_MAX / 8], wanted[KYMO_LANES_MAX / 8];
	uint32_t wanted_count;
	uint64_t block_ns; /* a record waits so long for room; 0: not at all */
};

/* A portable lane that a thread holds. Never unmapped, so a stale index is harmless. */
struct kymo_claim {
	uint64_t serial; /* of the memory; 0: not mapped */
	struct kymo_ring *ring;
	uint8_t *data;
	uint32_t owner; /* thread id; 0: free */
	uint32_t depth; /* records in progress [ring.md 6] */
	/* Calls that may touch the lane, of threads without a cell; it stays mapped meanwhile. */
	uint32_t users;
	uint32_t inside; /* of these, the owner's */
};

/* What the kernel wipes in a child, whatever way it was made. */
struct kymo_process {
	struct kymo_slot slots[KYMO_SLOTS];
	struct kymo_slot out_of_line; /* never has lanes; see struct kymo_event */
	struct kymo_slot several;     /* the same, where several sessions want records as they are */
	struct kymo_slot alone[KYMO_SLOTS]; /* the same, for a slot that alone wants all records; see direct.h */
	uint32_t generation;	      /* 0 in a new child */
};

/* process.c */
extern struct kymo_process *kymo_process;
extern struct kymo_slot kymo_slot_copies[KYMO_SLOTS]; /* what a new child starts from */
extern uint32_t kymo_last_generation;
extern intptr_t kymo_rseq_offset;
extern uint32_t kymo_kind, kymo_clock_kind;
extern struct kymo_memory kymo_memories[KYMO_SLOTS];
extern bool kymo_with_contexts[KYMO_SLOTS];
extern uint32_t kymo_moved_to[KYMO_SLOTS];
/* Threads that hold pointers into a slot's memory outside a sequence; it stays mapped meanwhile. */
extern uint32_t kymo_holders[KYMO_SLOTS];
extern __thread struct kymo_self kymo_self_tls __attribute__((tls_model("initial-exec")));
static inline struct kymo_self *kymo_self(void)
{
	return &kymo_self_tls;
}
void kymo_slot_publish(uint32_t slot, const struct kymo_slot *value);
bool kymo_slot_idle(uint32_t slot);
void kymo_holders_after_fork(const struct kymo_self *self);
uint64_t kymo_clock_monotonic(void);
static inline uint64_t kymo_clock_read(void)
{
#if KYMO_ARCH_SEQUENCE
	if (KYMO__LIKELY(kymo_clock_kind == KYMO_CLOCK_COUNTER))
		return kymo__counter();
#endif
	return kymo_clock_monotonic();
}

static inline void kymo_release(uint32_t slot)
{
	__atomic_sub_fetch(&kymo_holders[slot], 1, __ATOMIC_SEQ_CST);
	kymo_self()->held[slot]--;
}

/*
 * kymo_hold: the control blocks of a live slot, which stay until kymo_release; null, and not held,
 * where the session is gone.
 */
static inline struct kymo_ring *kymo_hold(uint32_t slot)
{
	struct kymo_slot *from = &kymo_process->slots[slot];

	kymo_self()->held[slot]++;
	__atomic_add_fetch(&kymo_holders[slot], 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&from->cpu_count, __ATOMIC_SEQ_CST))
		return __atomic_load_n(&from->rings, __ATOMIC_RELAXED);
	kymo_release(slot);
	return NULL;
}

/* thread.c */
void kymo_refresh(struct kymo_self *self);

/* runtime.c */
void kymo_runtime_init(void);

struct kymo_filter;

/* rseq.c */
bool kymo_rseq_init(const char *wish, intptr_t *offset);
void kymo_rseq_thread(void);
/* glibc keeps the values of this many keys in the thread itself: setting one allocates nothing. */
#define KYMO_KEYS_WITHOUT_MALLOC 32

/* calls.c */
void kymo_calls_link(void);

/* control.c: for calls.c */
bool kymo_helper_pause(void);
void kymo_helper_resume(void);
bool kymo_sandbox_begins(bool with_all_threads);
void kymo_sandbox_failed(void);

/* clockless.c */
extern bool kymo_any_clockless; /* at any time: events go out of line from there on */
void kymo_clockless_look(struct kymo_self *self);

/* entry.c */
extern struct kymo_rt kymo_runtime;
void kymo_record_init(void);

/* record.c */
void kymo_write_to(uint32_t wanted, struct kymo_event *event, uint64_t step, const struct kymo_seg *segs,
		   const struct kymo_seg *segs_end, const void *frame);

/* segs.c */
void kymo_copy_segs(uint8_t *to, const struct kymo_seg *segs, const struct kymo_seg *segs_end);

/* What becomes of a record that an attempt did not write, or did. */
enum kymo_verdict {
	KYMO_SETTLED, /* written, spilled, counted as lost, or wanted by nobody any more */
	KYMO_RETRY,   /* another attempt may succeed */
	KYMO_WAIT,    /* another one behind a pause may */
	KYMO_GONE,    /* the slot is off: see kymo_moved_to */
};

/* block.c */
struct kymo_wait { /* of one record; zeros: it has not waited */
	uint64_t end_ns; /* CLOCK_MONOTONIC */
	uint32_t pause_ns;
	bool is_over;
};
void kymo_block_init(void);
int kymo_block_agree(struct kymo_memory *memory);
bool kymo_may_wait(const struct kymo_self *self, struct kymo_wait *wait,
		   const struct kymo_memory *memory);
void kymo_wait(struct kymo_wait *wait);

/* overwrite.c */
bool kymo_overwrite(const struct kymo_memory *memory, uint32_t lane, uint64_t *end, uint64_t bytes);
void kymo_unmark(const struct kymo_memory *memory, uint32_t lane);

/* portable.c */
enum kymo_verdict kymo_portable_write(struct kymo_self *self, struct kymo_event *event,
				      uint32_t slot, uint64_t step, const struct kymo_seg *segs,
				      const struct kymo_seg *segs_end, bool is_compact);
bool kymo_portable_words(uint32_t slot, struct kymo_event *event, uint64_t step, const uint64_t *words);
bool kymo_portable_segs(uint32_t slot, struct kymo_event *event, uint64_t step,
			const struct kymo_seg *segs, const struct kymo_seg *segs_end);

/* lanes.c */
void kymo_lanes_init(void);
void kymo_lanes_orphan(uint32_t slot, bool was_on);
void kymo_lanes_forget(uint32_t slot);
void kymo_lanes_gone(uint32_t slot);
void kymo_lanes_child(const struct kymo_self *self);
void kymo_lanes_refresh(const struct kymo_self *self);
bool kymo_lanes_idle(uint32_t slot);
void kymo_lanes_unmap(uint32_t slot);
void kymo_lanes_claim_all(struct kymo_self *self);

/* memory.c: int is 0 or an errno value */
struct kymo_slot kymo_memory_slot(const struct kymo_memory *memory, uint32_t kind);
static inline struct kymo_mem *kymo_memory_header(const struct kymo_memory *memory)
{
	return (struct kymo_mem *)(void *)memory->base;
}
int kymo_memory_map(struct kymo_memory *memory, const struct kymo_msg_attach *attach,
		    struct kymo_fd *fd);
void kymo_memory_leave(struct kymo_memory *memory);
void kymo_memory_unmap(struct kymo_memory *memory);
void kymo_lane_give_back(const struct kymo_memory *memory, uint8_t *data);
int kymo_lane_claim(const struct kymo_memory *memory, uint32_t lane, uint8_t **data);
bool kymo_touch(void *at, size_t bytes);
bool kymo_memory_fits(size_t mapped_bytes);
void kymo_memory_want(struct kymo_memory *memory, uint32_t lane);
bool kymo_memory_make_ready(struct kymo_memory *memory);

/* events.c: under kymo_lock */
extern struct kymo_module *kymo_modules;
extern uint32_t kymo_events_end; /* of the indices given so far */
static inline uint32_t kymo_event_count(const struct kymo_module *module)
{
	return (uint32_t)(module->events_end - module->events);
}
void kymo_events_update(void);
struct kymo_event *kymo_event_find(uint32_t index);
void kymo_event_enable(struct kymo_event *event, uint32_t slot, uint16_t id);
void kymo_event_disable(struct kymo_event *event, uint32_t slot);
void kymo_event_filter(struct kymo_event *event, uint32_t slot, const struct kymo_filter *filter);
struct kymo_filters *kymo_event_filters(struct kymo_event *event);
void kymo_slot_prepare(uint32_t from, uint32_t to);
void kymo_slot_move(uint32_t from, uint32_t to);
void kymo_slot_disable_all(uint32_t slot);

/* lock.c */
extern uint32_t kymo_own_nonce; /* of our socket; 0: there is none */
void kymo_lock(void);
void kymo_unlock(void);

/* control.c; kymo_retract: answers.c */
void kymo_start(void);
void kymo_announce(void);
void kymo_retract(const struct kymo_module *module);

/* slots.c: under kymo_lock; int is 0 or an errno value where a descriptor is taken */
void kymo_fence_prepare(void);
bool kymo_fence(void);
int kymo_slot_take(pid_t collector, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		   int *taken);
int kymo_slot_change(uint32_t from, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		     int *to);
int kymo_slot_inherit(uint32_t from, const struct kymo_msg_attach *attach, struct kymo_fd *fd,
		      int *to);
int kymo_slot_of_session(pid_t collector, const char *session);
bool kymo_slot_is_retired(uint32_t slot);
const char *kymo_slot_session(uint32_t slot);
bool kymo_slot_retry(uint32_t slot);
void kymo_slot_off(uint32_t slot);
void kymo_slot_forget(uint32_t slot);

/* session.c */
struct kymo_conn {
	struct kymo_fd socket; /* none: free */
	int32_t slot;	       /* -1: no memory yet */
	pid_t collector;
	uint32_t described_end; /* of the event indices that it knows */
	uint32_t said;		/* newest generation that it was told of */
	uint32_t go;		/* newest one that it has answered */
	bool bye;
	/* A slot that must be unmapped before answer is sent; -1: no answer is due. */
	int32_t awaits;
	bool late; /* the session lives, and we run without having waited for it */
	struct kymo_msg_attached answer;
};
extern struct kymo_conn kymo_conns[KYMO_CONNS_MAX];
extern bool kymo_conns_were_lost; /* by the program's doing; until helper.c has looked */
static inline bool kymo_conn_is_open(const struct kymo_conn *conn)
{
	return conn->socket.number >= 0;
}
struct kymo_conn *kymo_conn_open(int fd);
void kymo_conn_close(struct kymo_conn *conn);
void kymo_conn_lost(struct kymo_conn *conn);
bool kymo_conn_send(struct kymo_conn *conn, const void *bytes, size_t count);
bool kymo_conn_greet(struct kymo_conn *conn, uint32_t generation);
bool kymo_conn_describe_new(struct kymo_conn *conn, uint32_t generation);
bool kymo_conn_send_generation(struct kymo_conn *conn, uint32_t generation);
void kymo_conn_send_late(struct kymo_conn *conn, uint32_t generation);
bool kymo_conn_send_gone(struct kymo_conn *conn, uint32_t first, uint32_t count);
bool kymo_conn_receive(struct kymo_conn *conn);
void kymo_conns_after_fork(bool keeps_rings);
bool kymo_sessions_retry(void);
bool kymo_sessions_make_ready(void);
bool kymo_slot_is_served(uint32_t slot);

/* comm.c */
void kymo_read_comm(char *to, size_t bytes);

#pragma GCC visibility pop
#endif
