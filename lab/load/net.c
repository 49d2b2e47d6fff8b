/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * net.c: messages over the loopback interface: datagrams and a stream, each sent and echoed. Two
 * processes a worker; an operation is one message there and back.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define DATAGRAM 512 /* bytes */
#define STREAM 8192
#define TURNS 64 /* of one kind, then of the other */

static int loopback(int kind)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, kind | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		trouble("no socket on 127.0.0.1: %s (ip link set lo up)", strerror(errno));
	return fd;
}

static void join(int fd, int to)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	int one = 1;

	if (getsockname(to, (struct sockaddr *)&address, &length) ||
	    connect(fd, (struct sockaddr *)&address, length))
		trouble("no connection on 127.0.0.1: %s (ip link set lo up)", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* The whole of a stream's message. */
static void read_all(int fd, char *to, size_t bytes)
{
	while (bytes) {
		ssize_t got = read(fd, to, bytes);

		if (got <= 0 && !(got < 0 && errno == EINTR))
			_exit(0);
		if (got > 0) {
			to += got;
			bytes -= (size_t)got;
		}
	}
}

static void write_all(int fd, const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t put = write(fd, from, bytes);

		if (put < 0 && errno != EINTR)
			_exit(0);
		if (put > 0) {
			from += put;
			bytes -= (size_t)put;
		}
	}
}

_Noreturn static void echo_stream(int fd)
{
	static char message[STREAM];

	for (;;) {
		read_all(fd, message, sizeof(message));
		write_all(fd, message, sizeof(message));
	}
}

_Noreturn static void echo_datagrams(int fd)
{
	static char message[DATAGRAM];

	for (;;) {
		ssize_t got = recv(fd, message, sizeof(message), 0);

		/* The other end may not be there yet, or not any more. */
		if (got > 0)
			(void)!send(fd, message, (size_t)got, 0);
	}
}

static void ask(int datagrams, int stream, uint64_t *done)
{
	static char message[STREAM];

	for (int i = 0; i < TURNS; i++)
		/* A datagram that is lost is not waited for longer than the socket's time. */
		if (send(datagrams, message, DATAGRAM, 0) > 0 && recv(datagrams, message, DATAGRAM, 0) > 0)
			__atomic_store_n(done, *done + 1, __ATOMIC_RELAXED);
	for (int i = 0; i < TURNS; i++) {
		write_all(stream, message, sizeof(message));
		read_all(stream, message, sizeof(message));
		__atomic_store_n(done, *done + 1, __ATOMIC_RELAXED);
	}
}

void net(unsigned number, struct counters *counters)
{
	const struct timeval patience = { .tv_usec = 200000 };
	int near = loopback(SOCK_DGRAM), far = loopback(SOCK_DGRAM), door = loopback(SOCK_STREAM);
	int stream = loopback(SOCK_STREAM), other;

	(void)number;
	if (listen(door, 1))
		trouble("no connection on 127.0.0.1: %s", strerror(errno));
	join(near, far);
	join(far, near);
	join(stream, door);
	other = accept(door, NULL, NULL);
	if (other < 0)
		trouble("no connection on 127.0.0.1: %s", strerror(errno));
	setsockopt(near, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fork_tied(SIGKILL) == 0)
		echo_stream(other);
	if (fork_tied(SIGKILL) == 0)
		echo_datagrams(far);
	for (;;)
		ask(near, stream, &counters->done[0]);
}
