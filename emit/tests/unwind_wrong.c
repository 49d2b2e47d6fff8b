/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * unwind_wrong.c: call stacks by tables that are wrong, and that change under a walk [context.md 4]: they may
 * give any answer, and must not make the process read what is not its stack.
 */
#include "stacks.h"

#define WRONG_TABLES 2000
#define WRONG_WALKS 20
#define LURES 2000u

KYMO_EVENT(wrong, never, (u32, value))

static volatile bool is_over;
static uint64_t walk_count, frame_count;

/* Whatever a rule says. */
static NEVER_INLINE void walk_anyhow(void)
{
	uint64_t ours[KYMO_STACK_MAX];

	for (int i = 0; i < WRONG_WALKS; i++) {
		uint32_t count = kymo_callstack(kymo_self(), __builtin_frame_address(0), ours);

		CHECK(count >= 1 && count <= KYMO_STACK_MAX, "%u frames", count);
		walk_count++;
		frame_count += count;
	}
	BEHIND;
}

static void on_wrong_signal(int number)
{
	(void)number;
	walk_anyhow();
	BEHIND;
}

static void wrong_thread(void)
{
	/* Behind it is nothing that can be read. */
	char *space = mmap(NULL, STACK_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = { .ss_sp = space, .ss_size = STACK_BYTES }, none = { .ss_flags = SS_DISABLE };
	volatile uintptr_t lures[LURES];

	CHECK(space != MAP_FAILED && !mprotect(space + STACK_BYTES, 4096, PROT_NONE), "mmap");
	/* Words that lead on: code, this stack, anything. */
	for (uint32_t i = 0; i < LURES; i++)
		lures[i] = i % 4 == 0 ? (uintptr_t)&lures[next_random() % LURES] :
			   i % 4 == 3 ? (uintptr_t)next_random() :
					(uintptr_t)walk_anyhow + next_random() % 4096;
	walk_anyhow();
	deep(walk_anyhow, 50);
	from_libc(walk_anyhow);
	raise(SIGUSR1);
	sigaltstack(&stack, NULL);
	raise(SIGUSR2);
	sigaltstack(&none, NULL);
	run_coroutine(space, STACK_BYTES, look_at_one);
	munmap(space, STACK_BYTES + 4096);
}

/* Many that find a next frame, so that walks are long; some that are nothing. */
static uint32_t wrong_rule(void)
{
	uint32_t kind = (uint32_t)next_random() % 40;

	if (!(next_random() % 16))
		return (uint32_t)next_random();
	return KYMO_RULE_MAKE(kind < 8 ? kind : KYMO_RULE_SP, next_random() % 6,
			      1 + next_random() % (kind % 8 ? 8 : 3000));
}

/* Rules as they are not: few rows, so that each serves much code. */
static void spoil(struct kymo_unwind_set *set)
{
	for (uint32_t i = 0; i < set->count; i++) {
		struct kymo_unwind_block *block = (struct kymo_unwind_block *)(uintptr_t)set->files[i].block;

		for (uint32_t row = 0; block && row < block->capacity; row++) {
			block->rows[row].at = row ? (uint32_t)next_random() % (row % 4 ? 0x1000 : 0x100000) : 0;
			block->rows[row].rule = wrong_rule();
		}
	}
}

/* Adds a file with a table of our own. */
static void add_file(struct kymo_unwind_set *set, uintptr_t begin, uintptr_t end, uintptr_t search_table)
{
	uint32_t capacity = 1 + (uint32_t)next_random() % 64;
	struct kymo_unwind_block *block = calloc(1, sizeof(*block) + capacity * sizeof(block->rows[0]));

	block->capacity = capacity;
	/* More than there is memory for. */
	set->files[set->count++] = (struct kymo_unwind_file){ .begin = begin,
							      .end = end,
							      .search_table = search_table,
							      .block = block,
							      .count = (uint32_t)next_random(),
							      .is_first = true };
}

/* The same files, and others between them, so that whatever is on the stack is code. */
static struct kymo_unwind_set *make_set(void)
{
	struct kymo_unwind_set *set = calloc(1, sizeof(*set));
	uintptr_t at = 1;

	set->loaded = kymo_unwind_set->loaded;
	for (uint32_t i = 0; i < kymo_unwind_set->count; i++) {
		const struct kymo_unwind_file *file = &kymo_unwind_set->files[i];

		add_file(set, at, file->begin, 0);
		add_file(set, file->begin, file->end, file->search_table);
		at = file->end;
	}
	add_file(set, at, UINTPTR_MAX, 0);
	return set;
}

static void wrong_tables(void)
{
	const struct kymo_unwind_set *right = kymo_unwind_set;
	struct kymo_unwind_set *wrong = make_set();
	uint32_t count = wrong->count;

	set_handler(SIGUSR1, on_wrong_signal, 0);
	set_handler(SIGUSR2, on_wrong_signal, SA_ONSTACK);
	kymo_unwind_set = wrong;
	for (int round = 0; round < WRONG_TABLES; round++) {
		spoil(wrong);
		if (round % 8 == 7)
			wrong->count = (uint32_t)next_random();
		wrong_thread();
		run_thread(NULL, wrong_thread);
		wrong->count = count;
	}
	kymo_unwind_set = right;
}

static void *spoiling(void *set)
{
	while (!is_over)
		spoil(set);
	return NULL;
}

/* Tables that change under a walk. */
static void changing_tables(void)
{
	const struct kymo_unwind_set *right = kymo_unwind_set;
	struct kymo_unwind_set *wrong = make_set();
	pthread_t thread;

	is_over = false;
	CHECK(!pthread_create(&thread, NULL, spoiling, wrong), "pthread_create");
	kymo_unwind_set = wrong;
	for (int round = 0; round < WRONG_TABLES; round++)
		deep(walk_anyhow, 30);
	is_over = true;
	pthread_join(thread, NULL);
	kymo_unwind_set = right;
}

int main(void)
{
	run_thread(NULL, kymo_stack_learn);
	make_tables();
	wrong_tables();
	changing_tables();
	CHECK(frame_count > 2 * walk_count, "%lu walks, %lu addresses", (unsigned long)walk_count, (unsigned long)frame_count);
	printf("%lu walks by wrong tables, %lu addresses: no harm\n", (unsigned long)walk_count,
	       (unsigned long)frame_count);
	return 0;
}
