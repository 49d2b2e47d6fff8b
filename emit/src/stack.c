/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stack.c: from where to where the stack may be read that the calling thread runs on [context.md 4]: of a
 * thread that glibc made by what glibc notes of it, else by /proc/self/maps; of a signal stack by what
 * the kernel knows. Of any other memory nothing is known, and nobody reads it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* A thread looks at its mappings so often: a stack that grows, or one that is nobody's. */
#define LOOKS_MAX 256u
/* Of /proc/self/maps, bytes. */
#define MAPS_MAX (8u << 20)

/*
 * glibc has in a thread's own block, behind the thread pointer, where its stack begins, its bytes and those
 * of its guard, in three words. Where in the block differs by version, so that the helper thread looks for
 * them in its own. Bytes of the block that every version has:
 */
#define BLOCK_BYTES 2048u
/* From the thread pointer to the stack's end: the block, at the start of a page perhaps. */
#define BLOCK_TO_END_MAX 16384u

/* /proc/self/maps, byte by byte, by bare system calls: at read(3) threads are cancelled. */
struct maps {
	int fd;
	uint32_t at, have, total;
	char bytes[512];
};

/* The next byte; 0 at the end. */
static unsigned char next_byte(struct maps *maps)
{
	if (maps->at == maps->have) {
		long got = maps->total < MAPS_MAX ? syscall(SYS_read, maps->fd, maps->bytes, sizeof(maps->bytes)) : 0;

		if (got <= 0)
			return 0;
		maps->at = 0;
		maps->have = (uint32_t)got;
		maps->total += maps->have;
	}
	return (unsigned char)maps->bytes[maps->at++];
}

/* A number in base 16, and the byte behind it. */
static uintptr_t next_number(struct maps *maps)
{
	uintptr_t value = 0;

	for (;;) {
		unsigned char byte = next_byte(maps);

		if (byte >= '0' && byte <= '9')
			value = value << 4 | (uintptr_t)(byte - '0');
		else if (byte >= 'a' && byte <= 'f')
			value = value << 4 | (uintptr_t)(byte - 'a' + 10);
		else
			return value;
	}
}

/* Whether the rest of a line ends in "[stack]". Clears *more at the end of the file. */
static bool is_stack_line(struct maps *maps, bool *more)
{
	uint64_t newest = 0, name = 0;

	for (const char *at = "[stack]"; *at; at++)
		name = name << 8 | (unsigned char)*at;
	for (;;) {
		unsigned char byte = next_byte(maps);

		*more = byte != 0;
		if (!byte || byte == '\n')
			return (newest & ((1ull << 56) - 1)) == name;
		newest = newest << 8 | byte;
	}
}

/* Of the three words, from the thread pointer, bytes; 0: not known. */
static uint32_t words_at;

/*
 * The stack that at is in, if it is the thread's own: that of a process's first thread has a name;
 * that of any other ends with its thread-local storage, where we stand ourselves, and what is
 * mapped behind that is not ours. The first thread's storage lies elsewhere, beside memory that may
 * be a coroutine's stack; and where glibc's notes are known, no other thread is without.
 */
static void find_stack(struct kymo_self *self, uintptr_t at)
{
	struct kymo_stack_bounds *stack = &self->stack;
	struct kymo_fd file = kymo_fd_note((int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
	struct maps maps = { .fd = file.number };
	bool more = maps.fd >= 0;

	while (more) {
		uintptr_t low = next_number(&maps), high = next_number(&maps), own = (uintptr_t)self;
		bool is_first = is_stack_line(&maps, &more);

		if (at < low || at >= high)
			continue;
		if (!is_first && own > at && own < high && self->tid != self->pid &&
		    !__atomic_load_n(&words_at, __ATOMIC_RELAXED))
			high = own;
		else if (!is_first)
			break;
		stack->low = low;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		stack->high = high;
		break;
	}
	kymo_fd_close(&file);
}

static bool is_on_signal_stack(uintptr_t at, uintptr_t *end)
{
	stack_t stack;
	uintptr_t low;

	if (sigaltstack(NULL, &stack) || !(stack.ss_flags & SS_ONSTACK))
		return false;
	low = (uintptr_t)stack.ss_sp;
	*end = low + stack.ss_size;
	return at >= low && at < *end;
}

#if KYMO_ARCH_X86_64
/* There where libc is glibc. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static void read_words(uint32_t at, uintptr_t words[3])
{
	memcpy(words, kymo__thread_pointer() + at, 3 * sizeof(words[0]));
}

/* Whether three words of the calling thread describe the stack that it runs on, on which its block is, too. */
static bool is_own_stack(const uintptr_t words[3], uintptr_t here)
{
	uintptr_t pointer = (uintptr_t)kymo__thread_pointer();
	uintptr_t low = words[0], bytes = words[1], guard = words[2];

	return low && low % 4096 == 0 && bytes % 4096 == 0 && guard % 4096 == 0 && guard < bytes &&
	       bytes < UINTPTR_MAX - low && low + guard <= here && here < pointer && pointer < low + bytes &&
	       low + bytes - pointer <= BLOCK_TO_END_MAX;
}

/*
 * kymo_stack_learn: finds out where glibc notes a thread's stack.
 * Context: the helper thread, which runs on a stack that glibc made.
 */
void kymo_stack_learn(void)
{
	uintptr_t words[3];
	uint32_t found = 0;

	if (!gnu_get_libc_version)
		return;
	for (uint32_t at = sizeof(words[0]); at + sizeof(words) <= BLOCK_BYTES; at += sizeof(words[0])) {
		read_words(at, words);
		if (!is_own_stack(words, (uintptr_t)__builtin_frame_address(0)))
			continue;
		if (found)
			return; /* which of the two? */
		found = at;
	}
	__atomic_store_n(&words_at, found, __ATOMIC_RELAXED);
}

/*
 * The calling thread's stack, where glibc notes it: up to its thread-local storage, where we stand
 * ourselves. That of a process's first thread is not noted.
 */
static bool find_noted(const struct kymo_self *self, uintptr_t *low, uintptr_t *high)
{
	uint32_t at = __atomic_load_n(&words_at, __ATOMIC_RELAXED);
	uintptr_t words[3], own = (uintptr_t)self;

	if (!at)
		return false;
	read_words(at, words);
	if (!words[0] || words[1] > UINTPTR_MAX - words[0] || words[2] >= words[1] ||
	    own < words[0] + words[2] || own >= words[0] + words[1])
		return false;
	*low = words[0] + words[2];
	*high = own;
	return true;
}
#else
void kymo_stack_learn(void)
{
}

static bool find_noted(const struct kymo_self *self, uintptr_t *low, uintptr_t *high)
{
	(void)self, (void)low, (void)high;
	return false;
}
#endif

/* kymo_stack_is_own: whether at is on the thread's own stack; up to where that may be read. */
bool kymo_stack_is_own(struct kymo_self *self, uintptr_t at, uintptr_t *end)
{
	struct kymo_stack_bounds *stack = &self->stack;
	uintptr_t low;

	if (find_noted(self, &low, end))
		return at >= low && at < *end;
	if ((at < stack->low || at >= stack->high) && stack->looks < LOOKS_MAX) {
		stack->looks++;
		find_stack(self, at);
	}
	*end = stack->high;
	return at >= stack->low && at < stack->high;
}

/*
 * kymo_stack_end: up to where the stack that at is in may be read; at is in a frame of the caller.
 * Context: any; system calls where the thread's stack is not known yet, and on another one.
 * Returns: false where it is not known.
 */
bool kymo_stack_end(struct kymo_self *self, uintptr_t at, uintptr_t *end)
{
	const struct kymo_stack_bounds *stack = &self->stack;
	uintptr_t low;

	if (find_noted(self, &low, end)) {
		if (at >= low && at < *end)
			return true;
	} else if (at >= stack->low && at < stack->high) {
		*end = stack->high;
		return true;
	}
	return is_on_signal_stack(at, end) || kymo_stack_is_own(self, at, end);
}
