/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * callstack.c: the return addresses of the calling thread's stack, by frame pointers [context.md].
 * Reads nothing but the stack that it runs on, from its own frame upwards: code without frame
 * pointers may leave anything in the chain.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* A thread looks at its mappings so often: a stack that grows, or one that is nobody's. */
#define LOOKS_MAX 256u
/* Of /proc/self/maps, bytes. */
#define MAPS_MAX (8u << 20)

/* A saved frame pointer, and the return address behind it. */
struct frame {
	uintptr_t next;
	uintptr_t address;
};

/* /proc/self/maps, byte by byte. */
struct maps {
	int fd;
	uint32_t at, have, total;
	char bytes[512];
};

/* The next byte; 0 at the end. */
static unsigned char next_byte(struct maps *maps)
{
	if (maps->at == maps->have) {
		ssize_t got = maps->total < MAPS_MAX ? read(maps->fd, maps->bytes, sizeof(maps->bytes)) : 0;

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

/*
 * The stack that at is in, if it is the thread's own: that of a process's first thread has a name;
 * that of any other ends with its thread-local storage, where we stand ourselves, and what is
 * mapped behind that is not ours.
 */
static void find_stack(struct kymo_self *self, uintptr_t at)
{
	struct kymo_stack_bounds *stack = &self->stack;
	struct kymo_fd file = kymo_fd_note(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	struct maps maps = { .fd = file.number };
	bool more = maps.fd >= 0;

	while (more) {
		uintptr_t low = next_number(&maps), high = next_number(&maps), own = (uintptr_t)self;
		bool is_first = is_stack_line(&maps, &more);

		if (at < low || at >= high)
			continue;
		if (own > at && own < high)
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

/* Up to where the stack that at is in may be read. Returns false where that is not known. */
static bool find_end(struct kymo_self *self, uintptr_t at, uintptr_t *end)
{
	struct kymo_stack_bounds *stack = &self->stack;

	for (;;) {
		*end = stack->high;
		if (at >= stack->low && at < stack->high)
			return true;
		if (is_on_signal_stack(at, end))
			return true;
		if (stack->looks >= LOOKS_MAX)
			return false;
		stack->looks++;
		find_stack(self, at);
		if (at < stack->low || at >= stack->high)
			return false;
	}
}

/*
 * kymo_callstack: at most KYMO_STACK_MAX addresses to to, the innermost first: where the function of
 * frame was called from. Code without frame pointers ends it early.
 * Context: any; system calls where the thread's stack is not known yet, and on a signal stack.
 * Returns: how many, 1 at least.
 */
uint32_t kymo_callstack(struct kymo_self *self, const void *frame, uint64_t *to)
{
	const struct frame *at = frame;
	uint32_t count = 0;
	uintptr_t end;

	to[count++] = at->address;
	if (!find_end(self, (uintptr_t)at, &end))
		return count;
	while (count < KYMO_STACK_MAX) {
		uintptr_t next = at->next;

		if (next <= (uintptr_t)at || next % sizeof(uintptr_t) || end < sizeof(*at) ||
		    next > end - sizeof(*at))
			break;
		at = (const struct frame *)next;
		if (!at->address)
			break;
		to[count++] = at->address;
	}
	return count;
}
