/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * describe.c: sends who we are and what events we have. Descriptions are taken from the objects'
 * sections as they are [event.md 3]. Under kymo_lock.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* A DESCS message that fills up; sent when the next description does not fit. */
static struct {
	uint64_t bytes[KYMO_MSG_BYTES_MAX / 8];
	size_t used;
} batch;

static bool batch_send(struct kymo_conn *conn)
{
	struct kymo_msg head = { KYMO_MSG_DESCS, (uint32_t)batch.used };

	if (batch.used <= sizeof(head))
		return true;
	memcpy(batch.bytes, &head, sizeof(head));
	batch.used = sizeof(head);
	return kymo_conn_send(conn, batch.bytes, head.bytes);
}

static bool batch_add(struct kymo_conn *conn, uint32_t index, const struct kymo_desc *desc)
{
	struct kymo_msg_desc head = { index, desc->bytes };
	size_t padded = (desc->bytes + 7) & ~(size_t)7;

	if (desc->bytes > KYMO_DESC_BYTES_MAX)
		return true; /* cannot be declared with our macros */
	if (batch.used + sizeof(head) + padded > sizeof(batch.bytes) && !batch_send(conn))
		return false;
	memcpy((uint8_t *)batch.bytes + batch.used, &head, sizeof(head));
	memset((uint8_t *)batch.bytes + batch.used + sizeof(head) + padded - 8, 0, 8);
	memcpy((uint8_t *)batch.bytes + batch.used + sizeof(head), desc, desc->bytes);
	batch.used += sizeof(head) + padded;
	return true;
}

/* Enumerations first: events refer to them. */
static bool send_enums(struct kymo_conn *conn, const struct kymo_module *module)
{
	const uint8_t *at = module->descs;

	while (at + sizeof(struct kymo_desc) <= module->descs_end) {
		const struct kymo_desc *desc = (const struct kymo_desc *)(const void *)at;

		if (desc->magic != KYMO_DESC_MAGIC || desc->bytes < sizeof(*desc) ||
		    desc->bytes > (size_t)(module->descs_end - at)) {
			at += KYMO_DESC_ALIGN;
			continue;
		}
		if (desc->kind == KYMO_DESC_ENUM && !batch_add(conn, KYMO_NO_INDEX, desc))
			return false;
		at += (desc->bytes + 7) & ~(size_t)7;
	}
	return true;
}

static bool describe(struct kymo_conn *conn, const struct kymo_module *module)
{
	batch.used = sizeof(struct kymo_msg);
	if (!send_enums(conn, module))
		return false;
	for (struct kymo_event *event = module->events; event < module->events_end; event++)
		if (!batch_add(conn, event->index, event->desc))
			return false;
	return batch_send(conn);
}

/*
 * CPUs that can exist. Without /sys the C library counts those that we may run on now, which says
 * nothing of their numbers: the size of the kernel's own mask is a bound. Lanes of CPUs that are not
 * there cost nothing [session.md 6].
 */
static uint32_t cpu_count(void)
{
	unsigned long mask[KYMO_LANES_MAX / 8 / sizeof(unsigned long)];
	long bytes = 0;

	if (access("/sys/devices/system/cpu", F_OK))
		bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	if (bytes <= 0)
		return (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	return bytes * 8 < KYMO_LANES_MAX ? (uint32_t)bytes * 8 : KYMO_LANES_MAX - 1;
}

/* kymo_conn_describe_new: the objects that came since the last time, and DESCS_END. */
bool kymo_conn_describe_new(struct kymo_conn *conn, uint32_t generation)
{
	for (struct kymo_module *m = kymo_modules; m; m = m->next)
		if (m->index_base >= conn->described_end && !describe(conn, m))
			return false;
	conn->described_end = kymo_events_end;
	conn->said = generation;
	return kymo_conn_send_generation(conn, generation);
}

/* kymo_conn_greet: HELLO, all descriptions, DESCS_END. */
bool kymo_conn_greet(struct kymo_conn *conn, uint32_t generation)
{
	static uint64_t message[(sizeof(struct kymo_msg_hello) + 4096 + 8) / 8];
	struct kymo_msg_hello *hello = (struct kymo_msg_hello *)(void *)message;
	char *exe = (char *)(hello + 1);
	ssize_t exe_bytes = readlink("/proc/self/exe", exe, 4095);

	if (exe_bytes < 0)
		exe_bytes = 0;
	exe[exe_bytes] = 0;
	memset(hello, 0, sizeof(*hello));
	hello->msg.type = KYMO_MSG_HELLO;
	hello->msg.bytes = (uint32_t)(sizeof(*hello) + (size_t)exe_bytes + 1);
	hello->abi = KYMO_ABI_VERSION;
	hello->pid = (uint32_t)getpid();
	hello->kind = kymo_kind;
	hello->clock = kymo_clock_kind;
	hello->cpu_count = cpu_count();
	hello->nonce = kymo_own_nonce;
	kymo_read_comm(hello->comm, sizeof(hello->comm));
	return kymo_conn_send(conn, message, hello->msg.bytes) && kymo_conn_describe_new(conn, generation);
}
