/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * session_copy BYTES ROUNDS: bytes per second of memcpy from memory of that size into memory that is fresh each time, as a
 * snapshot's copy is, and of the write of such a copy to the file in $OUT. One line for each round: copy, copy and write.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *fresh(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(1);
	return at;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	const char *out = getenv("OUT");
	char *from = fresh(bytes);

	memset(from, 7, bytes);
	for (int round = atoi(argv[2]); round > 0; round--) {
		double begin = now(), copied, written;
		char *to = fresh(bytes);
		int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		memcpy(to, from, bytes);
		copied = now() - begin;
		if (fd < 0 || write(fd, to, bytes) != (ssize_t)bytes)
			return 1;
		close(fd);
		written = now() - begin;
		munmap(to, bytes);
		printf("%.0f %.0f\n", (double)bytes / copied, (double)bytes / written);
	}
	unlink(out);
	return 0;
}
