/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session.c: the program's side of the protocol of session.md 4: what is said on one connection.
 * Finding collectors and waiting for them is control.c, what a session occupies slots.c. All under
 * kymo_lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "filter.h"
#include "runtime_dir.h"
#include "unwind.h"

/* A session that wants call stacks is answered so much later: its first records have them, of most programs. */
#define UNWIND_NS 20000000

struct kymo_conn kymo_conns[KYMO_CONNS_MAX];
bool kymo_conns_were_lost;

/* kymo_conn_send: one message. Returns false, and the connection is closed, where that fails. */
bool kymo_conn_send(struct kymo_conn *conn, const void *bytes, size_t count)
{
	ssize_t sent;

	if (!kymo_fd_is_ours(&conn->socket)) {
		kymo_conn_lost(conn);
		return false;
	}
	do
		sent = send(conn->socket.number, bytes, count, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent == (ssize_t)count)
		return true;
	/* The collector does not read: it shall know that we did not end. */
	if (conn->slot >= 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		__atomic_store_n(&kymo_memory_header(&kymo_memories[conn->slot])->left, 1,
				 __ATOMIC_RELAXED);
	kymo_conn_close(conn);
	return false;
}

/* Tells those who wait for it that nobody is inside of a memory any more that was replaced. */
static void answer_for(uint32_t slot)
{
	for (struct kymo_conn *c = kymo_conns; c < kymo_conns + KYMO_CONNS_MAX; c++)
		if (kymo_conn_is_open(c) && c->awaits == (int32_t)slot) {
			c->awaits = -1;
			kymo_conn_send(c, &c->answer, sizeof(c->answer));
		}
}

/*
 * kymo_sessions_retry: unmaps what could not be unmapped before. Returns whether something is left.
 */
bool kymo_sessions_retry(void)
{
	bool left = false;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++) {
		left |= kymo_slot_retry(slot);
		if (!kymo_slot_is_retired(slot))
			answer_for(slot);
	}
	return left;
}

/* kymo_slot_is_served: whether a connection is there on which the session of a slot speaks. */
bool kymo_slot_is_served(uint32_t slot)
{
	for (struct kymo_conn *c = kymo_conns; c < kymo_conns + KYMO_CONNS_MAX; c++)
		if (kymo_conn_is_open(c) && c->slot == (int32_t)slot)
			return true;
	return false;
}

/* A second memory on a connection. The answer says that nobody writes to the first one any more. */
static int attach_again(struct kymo_conn *conn, const struct kymo_msg_attach *attach,
			struct kymo_fd *fd)
{
	int from = conn->slot;
	int error;

	if (kymo_slot_of_session(conn->collector, attach->session) != from)
		return EPROTO;
	error = kymo_slot_change((uint32_t)from, attach, fd, &conn->slot);
	if (!error && kymo_slot_is_retired((uint32_t)from))
		conn->awaits = from;
	return error;
}

/* Returns an errno value for ATTACHED. */
static int attach_session(struct kymo_conn *conn, struct kymo_msg_attach *attach,
			  struct kymo_fd *fd)
{
	int slot, error;

	if (fd->number < 0)
		return EBADF;
	attach->session[sizeof(attach->session) - 1] = 0;
	if (conn->awaits >= 0)
		return EBUSY;
	if (attach->kind != kymo_kind || attach->clock != kymo_clock_kind)
		return EPROTO;
	kymo_fence_prepare();
	kymo_sessions_retry();
	if (conn->slot >= 0)
		return attach_again(conn, attach, fd);
	slot = kymo_slot_of_session(conn->collector, attach->session);
	if (slot >= 0) {
		/* Rings of the process that forked us, or of a connection that was lost. */
		if (kymo_slot_is_served((uint32_t)slot))
			return EALREADY;
		/* We have recorded all the time. */
		conn->late = false;
		error = kymo_slot_inherit((uint32_t)slot, attach, fd, &slot);
		if (!error)
			conn->slot = slot;
		return error;
	}
	if (!conn->go)
		conn->late |= kymo_was_missed(attach->session);
	return kymo_slot_take(conn->collector, attach, fd, &conn->slot);
}

static void attach(struct kymo_conn *conn, void *message, size_t bytes, struct kymo_fd *fd)
{
	struct kymo_msg_attach *attach = message;
	struct kymo_msg_attached answer = { .msg = { KYMO_MSG_ATTACHED, sizeof(answer) } };

	if (bytes != sizeof(*attach)) {
		kymo_conn_close(conn);
		return;
	}
	answer.serial = attach->serial;
	answer.error = (uint32_t)attach_session(conn, attach, fd);
	if (!answer.error && kymo_memories[conn->slot].contexts.bits & KYMO_CONTEXT_CALLSTACK)
		kymo_unwind_prepare(UNWIND_NS);
	if (!answer.error) {
		answer.flags = (kymo_memories[conn->slot].locked ? KYMO_ATTACHED_LOCKED : 0) |
			       (conn->late ? KYMO_ATTACHED_LATE : 0);
		conn->late = false;
		answer.touched_bytes = kymo_memories[conn->slot].touched_bytes;
	} else if (answer.error == EALREADY && conn->late) {
		/* The collector came to us meanwhile: that connection knows nothing of our having gone on. */
		answer.flags = KYMO_ATTACHED_LATE;
		conn->late = false;
	}
	if (conn->awaits >= 0 && !answer.error)
		conn->answer = answer; /* see kymo_sessions_retry */
	else
		kymo_conn_send(conn, &answer, sizeof(answer));
}

static void enable(struct kymo_conn *conn, const uint8_t *message, size_t bytes)
{
	struct kymo_msg_enable pair;

	if (conn->slot < 0)
		return;
	for (size_t at = sizeof(struct kymo_msg); at + sizeof(pair) <= bytes; at += sizeof(pair)) {
		struct kymo_event *event;

		memcpy(&pair, message + at, sizeof(pair));
		event = kymo_event_find(pair.index);
		if (!event || pair.id < 1 || pair.id > 65535)
			continue;
		kymo_event_enable(event, (uint32_t)conn->slot, (uint16_t)pair.id);
	}
}

static void disable(struct kymo_conn *conn, const uint8_t *message, size_t bytes)
{
	uint32_t index;

	if (conn->slot < 0)
		return;
	for (size_t at = sizeof(struct kymo_msg); at + sizeof(index) <= bytes; at += sizeof(index)) {
		struct kymo_event *event;

		memcpy(&index, message + at, sizeof(index));
		event = kymo_event_find(index);
		if (event)
			kymo_event_disable(event, (uint32_t)conn->slot);
	}
	kymo_fence();
}

/* Lanes whose pages the collector wants to be there: records come on their CPUs, or soon may. */
static void want_ready(struct kymo_conn *conn, const uint8_t *message, size_t bytes)
{
	uint32_t lane;

	if (conn->slot < 0)
		return;
	for (size_t at = sizeof(struct kymo_msg); at + sizeof(lane) <= bytes; at += sizeof(lane)) {
		memcpy(&lane, message + at, sizeof(lane));
		kymo_memory_want(&kymo_memories[conn->slot], lane);
	}
}

/* kymo_sessions_make_ready: a part of what want_ready was asked for. Returns whether more is left. */
bool kymo_sessions_make_ready(void)
{
	bool left = false;

	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		left |= kymo_slot_session(slot) && kymo_memory_make_ready(&kymo_memories[slot]);
	return left;
}

/* Says that a filter was refused: the event is as it was. */
static void send_filtered(struct kymo_conn *conn, uint32_t index, int error)
{
	struct kymo_msg_filtered message = { { KYMO_MSG_FILTERED, sizeof(message) },
					     index,
					     (uint32_t)error };

	kymo_conn_send(conn, &message, sizeof(message));
}

/* Returns an errno value, 0 where the event has the filter now. */
static int set_filter(struct kymo_event *event, uint32_t slot, const struct kymo_msg_filter *head,
		      const uint8_t *insns, const uint8_t *pool)
{
	struct kymo_filters *filters = kymo_event_filters(event);
	const struct kymo_filter *made;
	int error;

	if (!filters)
		return ENOMEM;
	error = kymo_filter_make(filters, insns, head->insn_count, pool, head->pool_bytes,
				 head->payload_min_bytes, &made);
	if (!error)
		kymo_event_filter(event, slot, made);
	return error;
}

/*
 * What records of an event this session wants. A filter that is refused leaves the event as it was,
 * and is answered [session.md 4]; a message that is not even laid out as one ends the connection.
 * Returns false then.
 */
static bool filter(struct kymo_conn *conn, const uint8_t *message, size_t bytes)
{
	struct kymo_msg_filter head;
	struct kymo_event *event;
	const uint8_t *insns = message + sizeof(head);
	size_t insns_bytes;
	int error;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, message, sizeof(head));
	insns_bytes = head.insn_count * sizeof(struct kymo_filter_insn);
	if (bytes != sizeof(head) + insns_bytes + head.pool_bytes)
		return false;
	event = conn->slot < 0 ? NULL : kymo_event_find(head.index);
	if (!event)
		return true;
	if (!head.insn_count && !head.pool_bytes) {
		kymo_event_filter(event, (uint32_t)conn->slot, NULL);
		return true;
	}
	error = set_filter(event, (uint32_t)conn->slot, &head, insns, insns + insns_bytes);
	if (error)
		send_filtered(conn, head.index, error);
	return true;
}

/* One message. fd is a descriptor that came with it, -1 if none. */
static void handle(struct kymo_conn *conn, void *message, size_t bytes, struct kymo_fd *fd)
{
	const struct kymo_msg *msg = message;

	if (bytes < sizeof(*msg) || msg->bytes != bytes) {
		kymo_conn_close(conn);
		return;
	}
	switch (msg->type) {
	case KYMO_MSG_ATTACH:
		attach(conn, message, bytes, fd);
		break;
	case KYMO_MSG_ENABLE:
		enable(conn, message, bytes);
		break;
	case KYMO_MSG_DISABLE:
		disable(conn, message, bytes);
		break;
	case KYMO_MSG_FILTER:
		if (!filter(conn, message, bytes))
			kymo_conn_close(conn);
		break;
	case KYMO_MSG_READY:
		want_ready(conn, message, bytes);
		break;
	case KYMO_MSG_GO:
		if (bytes == sizeof(struct kymo_msg_generation))
			conn->go = ((struct kymo_msg_generation *)message)->generation;
		conn->late = false;
		break;
	case KYMO_MSG_BYE:
	default: /* a collector that says what we do not know is not ours */
		conn->bye = true;
		kymo_conn_close(conn);
	}
}

/* kymo_conn_receive: handles what has arrived, without waiting. */
bool kymo_conn_receive(struct kymo_conn *conn)
{
	static uint64_t buffer[KYMO_MSG_BYTES_MAX / 8]; /* under kymo_lock */
	bool heard = false;

	while (kymo_conn_is_open(conn)) {
		union {
			struct cmsghdr align;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control;
		struct iovec iov = { buffer, sizeof(buffer) };
		struct msghdr header = { .msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control) };
		struct kymo_fd came = KYMO_FD_NONE;
		struct cmsghdr *cmsg;
		ssize_t got;
		int fd = -1;

		if (!kymo_fd_is_ours(&conn->socket)) {
			kymo_conn_lost(conn);
			return heard;
		}
		got = recvmsg(conn->socket.number, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		/* A collector that ended before it read all of ours: what it said at last comes after the error. */
		if (got < 0 && (errno == EINTR || errno == ECONNRESET))
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return heard;
		if (got <= 0) {
			kymo_conn_close(conn);
			return heard;
		}
		for (cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg))
			if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
			    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
				memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
		if (fd >= 0)
			came = kymo_fd_keep(fd);
		handle(conn, buffer, (size_t)got, &came);
		kymo_fd_close(&came);
		heard = true;
	}
	return heard;
}

struct kymo_conn *kymo_conn_open(int fd)
{
	const struct timeval limit = { 0, KYMO_STARTUP_WAIT_MS * 1000 };
	struct kymo_fd noted = kymo_fd_note(fd);
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ||
	    (peer.uid != geteuid() && peer.uid != 0))
		goto refuse;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++)
		if (!kymo_conn_is_open(conn)) {
			*conn = (struct kymo_conn){
				.socket = kymo_fd_keep(fd),
				.slot = -1,
				.awaits = -1,
				.collector = peer.pid,
			};
			return kymo_conn_is_open(conn) ? conn : NULL;
		}
refuse:
	kymo_fd_close(&noted);
	return NULL;
}

void kymo_conn_close(struct kymo_conn *conn)
{
	if (!kymo_conn_is_open(conn))
		return;
	/* Off first: the collector takes the hang-up as the word that nothing more will come. */
	if (conn->slot >= 0)
		kymo_slot_off((uint32_t)conn->slot);
	kymo_fd_close(&conn->socket);
	conn->slot = -1;
}

/*
 * kymo_conn_lost: the program has closed the descriptor, or put a file of its own there. The rings
 * stay: the collector reads them as long as they are mapped, and comes again [session.md 3].
 */
void kymo_conn_lost(struct kymo_conn *conn)
{
	conn->socket = KYMO_FD_NONE;
	conn->slot = -1;
	kymo_conns_were_lost = true;
}

/*
 * kymo_conns_after_fork: in the child, which has no use for its parent's connections: the rings
 * that it goes on with are kept for it as long as it has them mapped.
 */
void kymo_conns_after_fork(bool keeps_rings)
{
	for (struct kymo_conn *conn = kymo_conns; conn < kymo_conns + KYMO_CONNS_MAX; conn++) {
		/* From a table of the helper thread's own nothing was inherited. */
		if (kymo_fd_table_is_own)
			conn->socket = KYMO_FD_NONE;
		kymo_fd_close(&conn->socket);
		conn->slot = conn->awaits = -1;
	}
	kymo_unwind_after_fork();
	/* Without a helper thread it gets no rings of its own, and counts what it cannot record. */
	if (kymo_kind != KYMO_KIND_PORTABLE || keeps_rings)
		return;
	for (uint32_t slot = 0; slot < KYMO_SLOTS; slot++)
		kymo_slot_forget(slot);
}

static bool send_generation(struct kymo_conn *conn, uint32_t type, uint32_t generation)
{
	struct kymo_msg_generation message = { { type, sizeof(message) }, generation, 0 };

	return kymo_conn_send(conn, &message, sizeof(message));
}

bool kymo_conn_send_generation(struct kymo_conn *conn, uint32_t generation)
{
	return send_generation(conn, KYMO_MSG_DESCS_END, generation);
}

/* kymo_conn_send_late: the program goes on, whatever the collector has not answered yet. */
void kymo_conn_send_late(struct kymo_conn *conn, uint32_t generation)
{
	conn->late |= !conn->go;
	send_generation(conn, KYMO_MSG_LATE, generation);
}

bool kymo_conn_send_gone(struct kymo_conn *conn, uint32_t first, uint32_t count)
{
	static uint32_t message[KYMO_MSG_BYTES_MAX / 4]; /* under kymo_lock */
	const uint32_t per_message = KYMO_MSG_BYTES_MAX / 4 - 2;

	while (count) {
		uint32_t now = count < per_message ? count : per_message;

		message[0] = KYMO_MSG_GONE;
		message[1] = 8 + 4 * now;
		for (uint32_t i = 0; i < now; i++)
			message[2 + i] = first + i;
		if (!kymo_conn_send(conn, message, message[1]))
			return false;
		first += now;
		count -= now;
	}
	return true;
}
