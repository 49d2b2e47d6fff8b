/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * messages.c listen|talk ADDRESS PORT COUNT: two programs that exchange numbered messages by UDP, one at a time. Each says where it
 * sends one and where it receives one. The listener prints "ready" when it can be talked to.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common.h"

KYMO_EVENT(msg, send, (u64, id))
KYMO_EVENT(msg, receive, (u64, id))

static int open_socket(struct sockaddr_in *at, const char *address, const char *port)
{
	struct timeval patience = { .tv_sec = 20 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memset(at, 0, sizeof(*at));
	at->sin_family = AF_INET;
	at->sin_port = htons((uint16_t)atoi(port));
	if (fd < 0 || inet_pton(AF_INET, address, &at->sin_addr) != 1)
		exit(2);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void send_to(int fd, uint64_t id, const struct sockaddr_in *to)
{
	kymo_trace(msg, send, id);
	if (sendto(fd, &id, sizeof(id), 0, (const struct sockaddr *)to, sizeof(*to)) != sizeof(id))
		exit(3);
}

static uint64_t receive(int fd, struct sockaddr_in *from)
{
	socklen_t length = sizeof(*from);
	uint64_t id;

	if (recvfrom(fd, &id, sizeof(id), 0, (struct sockaddr *)from, &length) != sizeof(id))
		exit(4);
	kymo_trace(msg, receive, id);
	return id;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at, from;
	int fd;

	if (argc != 5)
		return 2;
	fd = open_socket(&at, argv[2], argv[3]);
	if (!strcmp(argv[1], "listen")) {
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)))
			return 5;
		printf("ready\n");
		fflush(stdout);
	}
	for (uint64_t n = 0; n < strtoull(argv[4], NULL, 0); n++) {
		if (!strcmp(argv[1], "listen")) {
			uint64_t id = receive(fd, &from);

			send_to(fd, id + 1, &from);
		} else {
			send_to(fd, 2 * n, &at);
			receive(fd, &from);
		}
	}
	return 0;
}
