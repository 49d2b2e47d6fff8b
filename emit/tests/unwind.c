/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * unwind.c: call stacks [context.md 4] against those of the C library's backtrace(), in code with and
 * without frame pointers as this file is compiled: frames of variable and of large size, frames that
 * are realigned, callbacks of libc, signals at any instruction, signal stacks, threads on their own
 * memory, children, code without tables. On a coroutine's stack nothing is read.
 * Arguments: two libraries of unwind_plugin.c, which are loaded and unloaded under other threads.
 */
#include "stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/time.h>
#include <sys/wait.h>

#define INTERRUPTS 3000u
#define SWAPS 60

KYMO_EVENT(unwind, never, (u32, value))

static volatile uint32_t look_count, whole_count; /* of the main thread */
static volatile bool must_be_whole = true;
static volatile bool is_over;

/*
 * Where the caller was called from, and so on: as backtrace() has it, of which the first is this function.
 * Returns whether it is whole. An interrupted instruction is one byte further with us.
 */
static NEVER_INLINE bool compare(bool is_whole)
{
	uint64_t ours[KYMO_STACK_MAX];
	void *theirs[64];
	uint32_t count = kymo_callstack(kymo_self(), __builtin_frame_address(0), ours);
	uint32_t have = (uint32_t)backtrace(theirs, 64) - 1, both;

	have = have < KYMO_STACK_MAX ? have : KYMO_STACK_MAX;
	both = count < have ? count : have;
	for (uint32_t i = 0; i < both; i++) {
		uint64_t there = (uint64_t)(uintptr_t)theirs[i + 1];

		CHECK(ours[i] == there || ours[i] == there + 1, "frame %u of %u (%u): %#lx, not %#lx", i, count,
		      have, (unsigned long)ours[i], (unsigned long)there);
	}
	CHECK(!is_whole || count == have, "%u frames of %u, the last at %#lx", count, have,
	      (unsigned long)ours[count - 1]);
	BEHIND;
	return count >= have;
}

static NEVER_INLINE void look(void)
{
	look_count++;
	whole_count += compare(must_be_whole);
	BEHIND;
}

static NEVER_INLINE void variable(leaf *inner, size_t bytes)
{
	volatile char *at = alloca(bytes);

	at[0] = at[bytes - 1] = 1;
	inner();
	BEHIND;
}

static NEVER_INLINE void large(leaf *inner)
{
	volatile char at[300000];

	at[0] = at[sizeof(at) - 1] = 1;
	inner();
	BEHIND;
}

static NEVER_INLINE void realigned(leaf *inner)
{
	volatile char at[256] __attribute__((aligned(64)));

	at[0] = at[sizeof(at) - 1] = 1;
	inner();
	BEHIND;
}

static NEVER_INLINE void realigned_variable(leaf *inner, size_t bytes)
{
	volatile char at[256] __attribute__((aligned(64)));
	volatile char *more = alloca(bytes);

	at[0] = 1;
	more[0] = more[bytes - 1] = at[0];
	inner();
	BEHIND;
}

static void on_signal(int number)
{
	(void)number;
	plain(look);
	BEHIND;
}

static NEVER_INLINE void by_signal(void)
{
	raise(SIGUSR1);
	BEHIND;
}

/* A signal in a signal. */
static void on_other_signal(int number)
{
	(void)number;
	by_signal();
	BEHIND;
}

static NEVER_INLINE void by_two_signals(void)
{
	raise(SIGUSR2);
	BEHIND;
}

static NEVER_INLINE void all_frames(void)
{
	look();
	plain(look);
	variable(look, 100);
	variable(look, 5000);
	large(look);
	realigned(look);
	realigned_variable(look, 777);
	deep(look, 5);
	deep(look, 100);
	from_libc(look);
	by_signal();
	by_two_signals();
	from_libc(by_signal);
	variable(by_two_signals, 50);
	realigned(by_signal);
	BEHIND;
}

/* A frame that no row has room for ends the stack, and adds nothing. */
static NEVER_INLINE void huge(void)
{
	volatile char at[600000];

	at[0] = at[sizeof(at) - 1] = 1;
	must_be_whole = false;
	look();
	must_be_whole = true;
	BEHIND;
}

/* Handlers on a signal stack: behind them comes the thread's own. */
static void on_signal_stacks(void)
{
	void *space = malloc(STACK_BYTES);
	const stack_t stack = { .ss_sp = space, .ss_size = STACK_BYTES }, none = { .ss_flags = SS_DISABLE };

	CHECK(!sigaltstack(&stack, NULL), "sigaltstack");
	set_handler(SIGUSR1, on_signal, SA_ONSTACK);
	by_signal();
	by_two_signals();
	set_handler(SIGUSR2, on_other_signal, SA_ONSTACK);
	by_two_signals();
	from_libc(by_two_signals);
	set_handler(SIGUSR1, on_signal, 0);
	set_handler(SIGUSR2, on_other_signal, 0);
	CHECK(!sigaltstack(&none, NULL), "sigaltstack");
	free(space);
}

/* What is known of a thread's stack is what pthread_getattr_np says. */
static void check_bounds(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), end = 0;
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	CHECK(!pthread_getattr_np(pthread_self(), &attr) && !pthread_attr_getstack(&attr, &low, &bytes), "attr");
	pthread_attr_destroy(&attr);
	CHECK(kymo_stack_is_own(kymo_self(), here, &end) && end > here && end <= (uintptr_t)low + bytes, "%#lx",
	      (unsigned long)end);
	CHECK(kymo_stack_is_own(kymo_self(), (uintptr_t)low, &end), "the lowest byte");
	CHECK(!kymo_stack_is_own(kymo_self(), (uintptr_t)low - 1, &end), "the byte below");
	CHECK(!kymo_stack_is_own(kymo_self(), (uintptr_t)low + bytes, &end), "the byte above");
}

static char *shared_mapping;

/* The coroutine's stack and the thread's are one mapping: it is not the thread's all the same. */
static void coroutine_below(void)
{
	check_bounds();
	all_frames();
	run_coroutine(shared_mapping, STACK_BYTES, look_at_one);
}

static void threads(void)
{
	pthread_attr_t attr;

	run_thread(NULL, all_frames);
	run_thread(NULL, check_bounds);
	run_thread(NULL, on_signal_stacks);
	shared_mapping = mmap(NULL, 8 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(shared_mapping != MAP_FAILED, "mmap");
	pthread_attr_init(&attr);
	CHECK(!pthread_attr_setstack(&attr, shared_mapping + STACK_BYTES, 7 * STACK_BYTES), "setstack");
	run_thread(&attr, coroutine_below);
	pthread_attr_destroy(&attr);
	munmap(shared_mapping, 8 * STACK_BYTES);
}

static void children(void)
{
	for (int round = 0; round < 4; round++) {
		pid_t child = fork();
		int status;

		if (!child) {
			all_frames();
			if (round % 2)
				make_tables();
			all_frames();
			run_thread(NULL, all_frames);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status, "a child ended with %#x", status);
	}
}

/* Signals at any instruction: of our own code, of libc, of its stubs. */
static void interrupted(void)
{
	const struct itimerval fast = { { 0, 173 }, { 0, 173 } }, none = { { 0, 0 }, { 0, 0 } };
	char text[200];

	must_be_whole = false;
	look_count = whole_count = 0;
	set_handler(SIGALRM, on_signal, SA_RESTART);
	setitimer(ITIMER_REAL, &fast, NULL);
	while (look_count < INTERRUPTS) {
		int values[64];

		for (int i = 0; i < 64; i++)
			values[i] = (int)(next_random() >> 40);
		qsort(values, 64, sizeof(values[0]), by_value);
		snprintf(text, sizeof(text), "%g %d %s", strtod("1.25e17", NULL), values[3], getenv("PATH"));
		free(memset(malloc(1 + (unsigned)values[5] % 5000u), 1, 1));
	}
	setitimer(ITIMER_REAL, &none, NULL);
	must_be_whole = true;
	CHECK(whole_count >= INTERRUPTS / 100 * 95, "%u of %u interrupted stacks are whole", whole_count, look_count);
	printf("%u of %u interrupted stacks are whole\n", whole_count, look_count);
}

/* Code without a table: with frame pointers it is followed. */
static NEVER_INLINE void call_code(void (*code)(leaf *), leaf *inner)
{
	code(inner);
	BEHIND;
}

static uintptr_t code_at;

static NEVER_INLINE void look_over_code(void)
{
	uint64_t ours[KYMO_STACK_MAX];
	uint32_t count = kymo_callstack(kymo_self(), __builtin_frame_address(0), ours);

	CHECK(count >= 4 && ours[0] - code_at < 4096, "%u frames over code without a table", count);
	CHECK(ours[1] - (uintptr_t)call_code < 200, "its caller: %#lx", (unsigned long)ours[1]);
	look_count++;
	BEHIND;
}

static void without_tables(void)
{
	/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	/* push %rbp; mov $1, %ebp; call *%rdi; pop %rbp; ret */
	static const uint8_t frameless[] = { 0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3 };
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*entry)(leaf *);

	if (code == MAP_FAILED) {
		printf("SKIP code without tables: no memory that is written and executed\n");
		return;
	}
	code_at = (uintptr_t)code;
	memcpy(&entry, &code, sizeof(entry));
	memcpy(code, framed, sizeof(framed));
	call_code(entry, look_over_code);
	memcpy(code, frameless, sizeof(frameless));
	call_code(entry, look_at_one);
	munmap(code, 4096);
}

static void *looking(void *unused)
{
	while (!is_over) {
		compare(false);
		by_signal();
	}
	return unused;
}

static void on_quiet_signal(int number)
{
	(void)number;
	compare(false);
	BEHIND;
}

static void *making(void *unused)
{
	while (!is_over) {
		make_tables();
		sched_yield();
	}
	return unused;
}

static NEVER_INLINE void look_from_library(void)
{
	compare(false);
	BEHIND;
}

static void (*load(const char *path, void **library))(leaf *inner, int depth)
{
	void (*enter)(leaf *inner, int depth);

	*library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(*library, "%s", dlerror());
	*(void **)&enter = dlsym(*library, "unwind_enter");
	CHECK(enter, "%s", dlerror());
	return enter;
}

/* A library that comes in the place of another one: its own frames, once there is a table of it. */
static void replaced(char **paths)
{
	void *library;

	for (int round = 0; round < 8; round++) {
		void (*enter)(leaf *inner, int depth) = load(paths[round % 2], &library);

		must_be_whole = false;
		enter(look, 3);
		must_be_whole = true;
		make_tables();
		enter(look, 3);
		dlclose(library);
	}
}

/* Libraries come and go, their tables are made and used again, and others look. */
static void libraries(char **paths)
{
	pthread_t threads[3];

	set_handler(SIGUSR1, on_quiet_signal, 0);
	CHECK(!pthread_create(&threads[0], NULL, looking, NULL) &&
	      !pthread_create(&threads[1], NULL, looking, NULL) &&
	      !pthread_create(&threads[2], NULL, making, NULL), "pthread_create");
	for (int round = 0; round < SWAPS; round++) {
		void *library;
		void (*enter)(leaf *inner, int depth) = load(paths[round % 2], &library);

		for (int i = 0; i < 200; i++)
			enter(look_from_library, i % 8);
		dlclose(library);
	}
	is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	set_handler(SIGUSR1, on_signal, 0);
	make_tables();
	all_frames();
	replaced(paths);
}

/* What the tables take. */
static void print_memory(void)
{
	const struct kymo_unwind_set *set = kymo_unwind_set;
	uint64_t rows = 0, functions = 0;

	for (uint32_t i = 0; i < set->count; i++) {
		uint32_t count = 0;

		if (!set->files[i].block)
			continue;
		memcpy(&count, (const uint8_t *)set->files[i].search_table + 8, sizeof(count));
		functions += count;
		rows += set->files[i].count;
	}
	printf("%u files, %lu functions, %lu rows: %.1f bytes a function\n", set->count, (unsigned long)functions,
	       (unsigned long)rows, (double)(rows * sizeof(struct kymo_unwind_row)) / (double)(functions + !functions));
}

int main(int argc, char **argv)
{
	void *first[4], *space = malloc(STACK_BYTES);

	/* It loads a library when it is called for the first time. */
	backtrace(first, 4);
	run_thread(NULL, kymo_stack_learn);
	make_tables();
	print_memory();
	set_handler(SIGUSR1, on_signal, 0);
	set_handler(SIGUSR2, on_other_signal, 0);
	all_frames();
	huge();
	on_signal_stacks();
	run_coroutine(space, STACK_BYTES, look_at_one);
	threads();
	children();
	interrupted();
	without_tables();
	if (argc > 2)
		libraries(argv + 1);
	free(space);
	printf("call stacks are those of backtrace\n");
	return 0;
}
