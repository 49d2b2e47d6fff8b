/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wire.h: messages between a program and a collector over a SOCK_SEQPACKET Unix socket, one message
 * a packet, in the byte order of the machine. spec/session.md section 4 says who sends what, and
 * when.
 */
#ifndef KYMO_ABI_WIRE_H
#define KYMO_ABI_WIRE_H

#include "check.h"

/* No message is longer. Longer lists are sent as several messages. */
#define KYMO_MSG_BYTES_MAX 32768u

enum kymo_msg_type {
	/* program to collector */
	KYMO_MSG_HELLO = 1,
	KYMO_MSG_DESCS = 2,
	KYMO_MSG_DESCS_END = 3,
	KYMO_MSG_GONE = 4,
	KYMO_MSG_ATTACHED = 5,
	KYMO_MSG_FILTERED = 6,
	KYMO_MSG_LATE = 7,
	/* collector to program */
	KYMO_MSG_ATTACH = 16,
	KYMO_MSG_ENABLE = 17,
	KYMO_MSG_DISABLE = 18,
	KYMO_MSG_GO = 19,
	KYMO_MSG_BYE = 20,
	KYMO_MSG_FILTER = 21,
	KYMO_MSG_READY = 22,
};

struct kymo_msg {
	uint32_t type;
	uint32_t bytes; /* of the whole message, this head included */
};
KYMO_CHECK_SIZE(struct kymo_msg, 8);

/*
 * First message of a program on every connection; exe (NUL-terminated) fills the rest of the
 * message.
 */
struct kymo_msg_hello {
	struct kymo_msg msg;
	uint32_t abi;
	uint32_t pid;	/* as the program sees itself */
	uint32_t kind;	/* enum kymo_kind: the ring that this program will use */
	uint32_t clock; /* enum kymo_clock */
	uint32_t cpu_count; /* CPUs that can exist: the lanes of an rseq program, less the spill lane */
	uint32_t nonce; /* of the program's own socket, p.PID.NONCE; 0: none, and no helper thread */
	char comm[16];
};
KYMO_CHECK_SIZE(struct kymo_msg_hello, 48);
KYMO_CHECK_OFFSET(struct kymo_msg_hello, comm, 32);

/* KYMO_MSG_DESCS: entries of this head, then a description, padded to 8 bytes. */
struct kymo_msg_desc {
	uint32_t index; /* of the event in this program; KYMO_NO_INDEX for an enumeration */
	uint32_t bytes; /* of the description that follows, without the padding */
};
KYMO_CHECK_SIZE(struct kymo_msg_desc, 8);

/*
 * KYMO_MSG_DESCS_END (program) and KYMO_MSG_GO (collector): what is said up to here is one
 * generation. KYMO_MSG_LATE (program): it went on without waiting for GO any longer.
 */
struct kymo_msg_generation {
	struct kymo_msg msg;
	uint32_t generation;
	uint32_t unused;
};
KYMO_CHECK_SIZE(struct kymo_msg_generation, 16);

/* KYMO_MSG_GONE and KYMO_MSG_DISABLE: the head, then uint32_t indices. KYMO_MSG_READY: lanes. */

/* KYMO_MSG_ENABLE: the head, then pairs of these. */
struct kymo_msg_enable {
	uint32_t index;
	uint32_t id; /* 1 to 65535: the id that records of this event carry in this session */
};
KYMO_CHECK_SIZE(struct kymo_msg_enable, 8);

/*
 * KYMO_MSG_FILTER: what records of an event this session wants [filter.md 6]; this head, then
 * insn_count instructions (filter.h), then the pool. Without instructions, and without a pool: all
 * of them again. It comes before the ENABLE of the event.
 */
struct kymo_msg_filter {
	struct kymo_msg msg;
	uint32_t index;
	uint16_t insn_count;
	uint16_t pool_bytes;
	uint16_t payload_min_bytes; /* of every payload of the event */
	uint16_t unused[3];
};
KYMO_CHECK_SIZE(struct kymo_msg_filter, 24);
KYMO_CHECK_OFFSET(struct kymo_msg_filter, index, 8);
KYMO_CHECK_OFFSET(struct kymo_msg_filter, insn_count, 12);
KYMO_CHECK_OFFSET(struct kymo_msg_filter, pool_bytes, 14);
KYMO_CHECK_OFFSET(struct kymo_msg_filter, payload_min_bytes, 16);

/* KYMO_MSG_FILTERED: answer to a FILTER that was refused; the event is recorded without it. */
struct kymo_msg_filtered {
	struct kymo_msg msg;
	uint32_t index;
	uint32_t error; /* an errno value: EINVAL, EMSGSIZE, ENOMEM */
};
KYMO_CHECK_SIZE(struct kymo_msg_filtered, 16);

/*
 * KYMO_MSG_ATTACH, with the memory's descriptor as SCM_RIGHTS. A second one on a connection
 * replaces the memory of the first [ring.md 5.6].
 */
struct kymo_msg_attach {
	struct kymo_msg msg;
	uint32_t abi;
	uint32_t kind;
	uint32_t clock;
	uint32_t lane_count;
	uint32_t ring_bytes;
	uint32_t rings_offset;
	uint64_t data_offset;
	uint64_t mem_bytes;
	uint64_t serial;
	char session[64]; /* NUL-terminated */
};
KYMO_CHECK_SIZE(struct kymo_msg_attach, 120);
KYMO_CHECK_OFFSET(struct kymo_msg_attach, data_offset, 32);
KYMO_CHECK_OFFSET(struct kymo_msg_attach, session, 56);

enum kymo_attached_flags {
	KYMO_ATTACHED_LOCKED = 1, /* the rings are locked into memory; else only touched once */
	KYMO_ATTACHED_LATE = 2,	  /* the program ran before, and the session was there already */
};

/* KYMO_MSG_ATTACHED: how it went. error is an errno value, 0 when the rings are in place. */
struct kymo_msg_attached {
	struct kymo_msg msg;
	uint64_t serial;
	uint32_t error;
	uint32_t flags; /* enum kymo_attached_flags */
	uint64_t touched_bytes;
};
KYMO_CHECK_SIZE(struct kymo_msg_attached, 32);

/* KYMO_MSG_BYE: reason, then NUL-terminated text that fills the rest of the message. */
enum kymo_bye {
	KYMO_BYE_END = 1,	/* the session is over */
	KYMO_BYE_SCOPE = 2,	/* this session does not want this program */
	KYMO_BYE_VERSION = 3,	/* abi or clock do not match */
	KYMO_BYE_MEMORY = 4,	/* the session's memory cap is reached */
	KYMO_BYE_PROTOCOL = 5,	/* the program broke the protocol */
};
struct kymo_msg_bye {
	struct kymo_msg msg;
	uint32_t reason;
	uint32_t unused;
};
KYMO_CHECK_SIZE(struct kymo_msg_bye, 16);

#endif
