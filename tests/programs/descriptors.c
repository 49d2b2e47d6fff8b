/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * descriptors.c HOW [RECORDS]: does with its descriptors what daemons, shells and libraries do, and
 * finds out whether somebody else has touched them. HOW: keep, close (each number), closefrom,
 * close_range, dup2 (its own file over every number), bare (says which of 0 to 2 are open), list (says
 * which descriptors there are).
 *
 * Says "ready PID" when its descriptors are made and its first half of the records is written, waits for
 * a line, writes the second half, and says "bad N": descriptors that are not what they were, and
 * connections that did not reach it. A child and a thread do the same beside it.
 */
#include "common.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

KYMO_EVENT(fds, parent, (u64, n))
KYMO_EVENT(fds, child, (u64, n))

#define OWN_MAX 200
#define CONNECTIONS 50
#define HIGHEST 5000

static struct {
	int fd;
	struct stat info;
} own[OWN_MAX];
static unsigned own_count;
static uint64_t records = 1000;

static void keep(int fd)
{
	if (fd < 0 || own_count == OWN_MAX || fstat(fd, &own[own_count].info))
		die("a descriptor");
	own[own_count++].fd = fd;
}

static void close_the_rest(const char *how)
{
	if (!strcmp(how, "close")) {
		for (int fd = 3; fd < HIGHEST; fd++)
			close(fd);
	} else if (!strcmp(how, "closefrom")) {
		closefrom(3);
	} else if (!strcmp(how, "close_range")) {
		syscall(SYS_close_range, 3u, ~0u, 0);
	} else if (!strcmp(how, "dup2")) {
		int null = open("/dev/null", O_RDWR);

		for (int fd = 3; fd < HIGHEST; fd++)
			if (fd != null)
				dup2(null, fd);
		closefrom(300);
	}
}

/* Files, pipes and sockets on the lowest numbers, and some on the highest. */
static void make_own(void)
{
	for (int i = 0; i < 20; i++) {
		int pair[2];

		keep(open("/dev/null", O_RDWR));
		if (pipe(pair))
			die("pipe");
		keep(pair[0]);
		keep(pair[1]);
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			die("socketpair");
		keep(pair[0]);
		keep(pair[1]);
	}
	for (int fd = 1000; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) < 0 && dup2(own[0].fd, fd) == fd)
			keep(fd);
}

static unsigned bad_descriptors(void)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < own_count; i++) {
		struct stat now;

		bad += fstat(own[i].fd, &now) || now.st_dev != own[i].info.st_dev ||
		       now.st_ino != own[i].info.st_ino;
	}
	return bad;
}

/* Connections to a socket of our own: each must be accepted by us, and by nobody else. */
static unsigned lost_connections(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(at);
	unsigned lost = 0;
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&at, &bytes))
		die("listen");
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		int client = socket(AF_UNIX, SOCK_STREAM, 0), served;

		if (connect(client, (struct sockaddr *)&at, bytes))
			die("connect");
		served = accept(listener, NULL, NULL);
		lost += served < 0;
		close(client);
		if (served >= 0)
			close(served);
	}
	close(listener);
	return lost;
}

static void *churn(void *stop)
{
	while (!*(volatile int *)stop) {
		int fd = dup(own[0].fd);

		if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
			return (void *)1;
	}
	return NULL;
}

static void write_records(uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		kymo_trace(fds, parent, n);
		if (n % 16 == 0)
			nap_us(1);
	}
}

static unsigned in_a_child(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		unsigned bad = bad_descriptors() + lost_connections();

		for (uint64_t n = 0; n < records; n++)
			kymo_trace(fds, child, n);
		bad += bad_descriptors();
		_exit(bad > 100 ? 100 : (int)bad);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 1000;
}

static void list(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			printf("%s ", entry->d_name);
	say("");
	closedir(dir);
}

/* Which of the standard descriptors are open: to a file, because standard output may not be. */
static void bare(const char *file)
{
	int open_fds = 0, at;

	for (int fd = 0; fd < 3; fd++)
		open_fds |= (fcntl(fd, F_GETFD) >= 0) << fd;
	at = open(file, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	dprintf(at, "open %d\n", open_fds);
	close(at);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *failed = NULL;
	unsigned bad = 0;
	int stop = 0;

	live_shortly();
	if (!strcmp(argv[1], "bare")) {
		bare(argv[2]);
		write_records(0, records);
		return 0;
	}
	if (argc > 2)
		records = strtoull(argv[2], NULL, 10);
	close_the_rest(argv[1]);
	if (!strcmp(argv[1], "list"))
		list();
	make_own();
	write_records(0, records / 2);
	if (pthread_create(&thread, NULL, churn, &stop))
		die("thread");
	bad += in_a_child() + lost_connections();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	hear();
	bad += lost_connections() + bad_descriptors();
	write_records(records / 2, records);
	bad += in_a_child() + bad_descriptors();
	stop = 1;
	pthread_join(thread, &failed);
	printf("bad %u\n", bad + (failed != NULL));
	fflush(stdout);
	hear();
	return 0;
}
