/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* comm.c: the program's name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"

/* kymo_read_comm: the name of the program, which is its first thread's; ours may be the helper thread. */
void kymo_read_comm(char *to, size_t bytes)
{
	struct kymo_fd file = kymo_fd_keep(open("/proc/self/comm", O_RDONLY | O_CLOEXEC));
	ssize_t got = file.number < 0 ? 0 : read(file.number, to, bytes);

	kymo_fd_close(&file);
	if (got > 0)
		to[got - 1] = 0; /* the newline */
	else /* without /proc; the calling thread may be the helper */
		snprintf(to, bytes, "%s", program_invocation_short_name);
}
