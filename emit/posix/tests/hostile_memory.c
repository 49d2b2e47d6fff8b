/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* hostile_memory.c: a target that writes what it likes into the memory that it has in common with its controller. */
#define _GNU_SOURCE
#include "test.h"

#include <sys/mman.h>
#include <sys/stat.h>

#if KYMO_POSIX_ONLINE && KYMO_POSIX_USER_EVENTS

/* The stream's file in the directory of streams, mapped as a target that means harm has it. */
static unsigned *memory_of(int slot, size_t *words)
{
	const char *set = getenv("KYMO_RUNTIME_DIR");
	struct stat info;
	char path[300];
	void *at;
	int fd;

	if (set)
		snprintf(path, sizeof(path), "%s/posix/s.%d", set, slot);
	else
		snprintf(path, sizeof(path), "/dev/shm/kymo-posix-%u/s.%d", (unsigned)geteuid(), slot);
	fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0 && !fstat(fd, &info));
	at = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(at != MAP_FAILED);
	close(fd);
	*words = (size_t)info.st_size / sizeof(unsigned);
	return at;
}

TEST("2.11 memory", overwritten_words,
	"a target that overwrites the stream's memory, word for word, does not crash its controller")
{
	trace_attr_t attr = attr_with(POSIX_TRACE_LOOP, 4096, 64);
	unsigned values[] = { 0, 1, 0x7fffffff, 0xffffffff, 0x1000, 0x12345678 };
	trace_event_id_t event = event_named("e");
	size_t words, at = 0;
	struct got got;
	trace_id_t trid;

	/* The page's numbers, one at a time; then all of it at once, and the control blocks, at random. */
	for (int round = 0; round < 400; round++) {
		unsigned *memory, value = values[round % 6];

		EQUAL(posix_trace_create(0, &attr, &trid), 0);
		memory = memory_of(0, &words);
		EQUAL(posix_trace_start(trid), 0);
		for (int i = 0; i < 20; i++)
			emit_number(event, i);
		at = round < 300 ? (size_t)round / 6 : 1024 + (size_t)(round * 7919) % 400;
		memory[at] = value;
		if (round % 50 == 49)
			for (size_t i = 0; i < 2048; i++)
				memory[i] = value;
		for (int i = 0; i < 20; i++)
			emit_number(event, i);
		for (int i = 0; i < 60 && take(trid, &got); i++)
			;
		status_of(trid);
		EQUAL(posix_trace_stop(trid), 0);
		EQUAL(posix_trace_clear(trid), 0);
		EQUAL(posix_trace_shutdown(trid), 0);
		munmap(memory, words * sizeof(unsigned));
	}
	/* And the next one works. */
	EQUAL(posix_trace_create(0, &attr, &trid), 0);
	EQUAL(posix_trace_start(trid), 0);
	emit_number(event, 7);
	EXPECT(take_user(trid, &got));
	EQUAL(number_of(&got), 7);
}
#endif
