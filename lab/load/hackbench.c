/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hackbench.c: messages between many processes. Each worker is a group: every sender writes to
 * every receiver in turn, senders sleep while a socket is full, receivers while it is empty. So
 * the scheduler wakes and switches all the time.
 */
#include "load.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS 8 /* senders, and as many receivers, of a group */
#define MESSAGE 100 /* bytes */

_Noreturn static void receive(int from, uint64_t *done)
{
	char message[MESSAGE];

	for (;;) {
		ssize_t got = read(from, message, sizeof(message));

		if (got <= 0 && errno != EINTR)
			_exit(0);
		/* Its only writer is this process; the guard reads it afterwards. */
		__atomic_store_n(done, *done + 1, __ATOMIC_RELAXED);
	}
}

_Noreturn static void send_to_all(const int *to)
{
	char message[MESSAGE];

	memset(message, 'k', sizeof(message));
	for (unsigned at = 0;; at = (at + 1) % PAIRS)
		if (write(to[at], message, sizeof(message)) < 0 && errno != EINTR)
			_exit(0);
}

void hackbench(unsigned number, struct counters *counters)
{
	int senders[PAIRS], receivers[PAIRS];

	(void)number;
	for (unsigned i = 0; i < PAIRS; i++) {
		int ends[2];

		/* Packets: a message is read as one, whoever wrote it. */
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			trouble("no socket for hackbench: %s", strerror(errno));
		senders[i] = ends[0];
		receivers[i] = ends[1];
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		pid_t pid = fork_tied(SIGKILL);

		if (pid < 0)
			trouble("no process for hackbench: %s", strerror(errno));
		if (pid == 0 && i < PAIRS)
			receive(receivers[i], &counters->done[i]);
		if (pid == 0)
			send_to_all(senders);
	}
	for (;;)
		pause();
}
