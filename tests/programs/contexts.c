/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts.c MODE: one situation for each context, with the truth in the fields of the records.
 *	pids		records of a parent, a forked child and a thread of that: field pid
 *	prio		three records; between them its nice value goes from 0 to 5 to 7: field prio
 *	groups		waits for a line, then records
 *	faults		a record, PAGES pages touched, a record, three times over; then the same in a second thread
 *	stacks		records from nested functions: on the main thread, another one, a signal stack
 *	lengths		records of growing length, of which contexts make the last ones too long
 *	many COUNT	COUNT records, paced
 */
#include <sched.h>
#include <sys/resource.h>

#include "common.h"

KYMO_EVENT(ctx, who, (u32, pid), (u32, tid))
KYMO_EVENT(ctx, level, (i32, prio))
KYMO_EVENT(ctx, mark, (u32, n))
KYMO_EVENT(ctx, nothing)
KYMO_EVENT(ctx, place, (str, where), (u64, address))
KYMO_EVENT(ctx, blob, (bytes, data))

#define PAGES 37

static void who(void)
{
	kymo_trace(ctx, who, (uint32_t)getpid(), tid());
}

static void *who_thread(void *unused)
{
	who();
	return unused;
}

static void pids(void)
{
	pthread_t thread;
	pid_t child;

	who();
	child = fork();
	who();
	if (!child) {
		until_enabled(ctx, who);
		if (pthread_create(&thread, NULL, who_thread, NULL))
			die("pthread_create");
		pthread_join(thread, NULL);
		exit(0);
	}
	waitpid(child, NULL, 0);
	who();
}

static void prio(void)
{
	static const int nice_values[] = { 0, 5, 7 };

	for (int i = 0; i < 3; i++) {
		if (setpriority(PRIO_PROCESS, 0, nice_values[i]))
			die("setpriority");
		kymo_trace(ctx, level, 20 + nice_values[i]);
	}
}

static void *faults(void *name)
{
	for (uint32_t round = 0; round < 3; round++) {
		volatile char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise((void *)pages, PAGES * 4096, MADV_NOHUGEPAGE);
		kymo_trace(ctx, mark, 2 * round);
		for (int i = 0; i < PAGES; i++)
			pages[i * 4096] = 1;
		kymo_trace(ctx, mark, 2 * round + 1);
	}
	return name;
}

#define NEVER_INLINE __attribute__((noinline, noclone))
/* Something behind the call, so that it is one. */
#define BEHIND __asm__ __volatile__("" ::: "memory")

NEVER_INLINE void inner(const char *where)
{
	kymo_trace(ctx, place, where, (uint64_t)(uintptr_t)inner);
	BEHIND;
}

NEVER_INLINE void middle(const char *where)
{
	inner(where);
	BEHIND;
}

NEVER_INLINE void outer(const char *where)
{
	middle(where);
	BEHIND;
}

NEVER_INLINE void deep(int depth)
{
	if (depth)
		deep(depth - 1);
	else
		inner("deep");
	BEHIND;
}

/* A frame pointer that leads to next: the stack must be read no further than it goes. */
NEVER_INLINE void astray(uintptr_t next)
{
	uintptr_t frame[2] = { next, (uintptr_t)astray + 1 };

	__asm__ __volatile__("movq %%rsp, %%r12\n\t"
			     "movq %%rbp, %%r13\n\t"
			     "subq $256, %%rsp\n\t"
			     "andq $-16, %%rsp\n\t"
			     "movq %%rax, %%rbp\n\t"
			     "call inner\n\t"
			     "movq %%r12, %%rsp\n\t"
			     "movq %%r13, %%rbp"
			     :
			     : "a"(frame), "D"("astray")
			     : "memory", "cc", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "xmm0",
			       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
			       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void go_astray(void)
{
	char *heap = malloc(64);
	const uintptr_t leads_to[] = { 1, 16, (uintptr_t)&leads_to, (uintptr_t)&leads_to + 1, (uintptr_t)heap,
				       0x7fffffffe000, 0x7ffffffffff8, 0xffffffffffffffff, 0xfffffffffffffff8,
				       0x8000000000000000 };

	for (size_t i = 0; i < sizeof(leads_to) / sizeof(leads_to[0]); i++)
		astray(leads_to[i]);
	free(heap);
}

static void on_signal(int number)
{
	(void)number;
	outer("signal stack");
}

static void *stack_thread(void *unused)
{
	outer("thread");
	return unused;
}

static void stacks(void)
{
	static char space[64 << 10] __attribute__((aligned(4096)));
	const stack_t stack = { .ss_sp = space, .ss_size = sizeof(space) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	pthread_t thread;

	outer("main");
	if (pthread_create(&thread, NULL, stack_thread, NULL))
		die("pthread_create");
	pthread_join(thread, NULL);
	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
		die("sigaltstack");
	raise(SIGUSR1);
	deep(100);
	go_astray();
	outer("main");
}

/* Contexts take a place too: of records that just fit, some do not any more. */
static void lengths(void)
{
	static char data[65536];

	for (size_t bytes = 65536 - 14 - 40; bytes <= 65536 - 14; bytes++)
		kymo_trace(ctx, blob, data, bytes);
}

static void many(uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		kymo_trace(ctx, mark, n);
		kymo_trace(ctx, nothing);
		if (n % 256 == 0)
			nap_us(300);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t thread;

	live_shortly();
	if (!strcmp(mode, "pids"))
		pids();
	if (!strcmp(mode, "prio"))
		prio();
	if (!strcmp(mode, "groups")) {
		hear();
		kymo_trace(ctx, mark, 0);
	}
	if (!strcmp(mode, "faults")) {
		faults(NULL);
		if (pthread_create(&thread, NULL, faults, NULL))
			die("pthread_create");
		pthread_join(thread, NULL);
	}
	if (!strcmp(mode, "stacks"))
		stacks();
	if (!strcmp(mode, "lengths"))
		lengths();
	if (!strcmp(mode, "many"))
		many(argc > 2 ? (uint32_t)atoi(argv[2]) : 1000);
	return 0;
}
