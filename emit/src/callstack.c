/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * callstack.c: the return addresses of the calling thread's stack [context.md 4]: by the tables of
 * unwind.c, and where a piece of code has none, by frame pointers. Reads nothing but these tables and
 * the stack that it runs on, from its own frame upwards: tables may be wrong, and code without frame
 * pointers may leave anything in the chain.
 */
#include "internal.h"
#include "unwind.h"

/* A walk whose tables were changed meanwhile begins anew, so often. */
#define WALKS_MAX 2
/* Offsets of the kernel's ucontext: registers of what a signal interrupted. */
#define UCONTEXT_FP 120u
#define UCONTEXT_SP 160u
#define UCONTEXT_PC 168u

/* unwind.c puts them here. */
const struct kymo_unwind_set *kymo_unwind_set;
uint64_t kymo_unwind_generation;

/* A saved frame pointer, and the return address behind it. */
struct frame {
	uintptr_t next;
	uintptr_t address;
};

/* A frame, and what of the stack may be read. */
struct walk {
	struct kymo_self *self;
	const struct kymo_unwind_set *set;
	struct kymo_unwind_file file; /* that of the newest address */
	uintptr_t pc, sp, fp;
	uintptr_t end; /* of the stack that sp is on */
	bool fp_is_known;
	bool is_interrupted; /* pc is an instruction, not behind a call */
	bool left_signal_stack;
	bool is_listed; /* no file was loaded since the tables' files were listed */
	uint32_t count;
	uint64_t *to;
};

/* A return address without the signature that 64-bit Arm may keep in its upper bits. */
static inline uintptr_t unsigned_address(uintptr_t address)
{
#if KYMO_ARCH_AARCH64
	register uintptr_t x30 __asm__("x30") = address;

	__asm__("hint #7" : "+r"(x30)); /* xpaclri; processors without signatures do nothing */
	return x30;
#else
	return address;
#endif
}

/* By frame pointers alone. */
static uint32_t by_frame_pointers(const struct frame *at, uintptr_t end, uint64_t *to)
{
	uint32_t count = 1;

	while (count < KYMO_STACK_MAX) {
		uintptr_t next = at->next;

		if (next <= (uintptr_t)at || next % sizeof(uintptr_t) || end < sizeof(*at) ||
		    next > end - sizeof(*at))
			break;
		at = (const struct frame *)next;
		if (!at->address)
			break;
		to[count++] = unsigned_address(at->address);
	}
	return count;
}

#if KYMO_ARCH_X86_64
/* A word of the stack, between the frame that was reached and the stack's end. */
static bool read_word(const struct walk *walk, uintptr_t at, uintptr_t *word)
{
	if (at < walk->sp || at % sizeof(*word) || walk->end < sizeof(*word) || at > walk->end - sizeof(*word))
		return false;
	*word = *(const uintptr_t *)at;
	return true;
}

/*
 * Whether the file of a table is still what is loaded there: between dlclose and the table's end,
 * another one may be, which was loaded meanwhile. Where the loader cannot be asked, it is believed.
 */
static bool is_loaded(const struct walk *walk, uintptr_t pc)
{
	uintptr_t search_table;

	if (!walk->is_listed && !walk->file.is_first)
		return false;
	return !kymo_loader_find(pc, &search_table) || search_table == walk->file.search_table;
}

/* Whether code without a table is of a file that the loader knows: its table is not made yet. */
static bool is_awaited(uintptr_t pc)
{
	uintptr_t search_table;

	return kymo_loader_find(pc, &search_table) && search_table;
}

/* The file whose code pc is in. */
static bool find_file(struct walk *walk, uintptr_t pc)
{
	uint32_t low = 0, high = __atomic_load_n(&walk->set->count, __ATOMIC_RELAXED);
	const struct kymo_unwind_file *file;

	high = high < KYMO_UNWIND_FILES_MAX ? high : KYMO_UNWIND_FILES_MAX;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (__atomic_load_n(&walk->set->files[middle].begin, __ATOMIC_RELAXED) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	file = &walk->set->files[low - 1];
	walk->file.begin = __atomic_load_n(&file->begin, __ATOMIC_RELAXED);
	walk->file.end = __atomic_load_n(&file->end, __ATOMIC_RELAXED);
	walk->file.search_table = __atomic_load_n(&file->search_table, __ATOMIC_RELAXED);
	walk->file.block = __atomic_load_n(&file->block, __ATOMIC_RELAXED);
	walk->file.count = __atomic_load_n(&file->count, __ATOMIC_RELAXED);
	walk->file.is_first = __atomic_load_n(&file->is_first, __ATOMIC_RELAXED);
	return pc >= walk->file.begin && pc < walk->file.end;
}

/* The rule for the instruction at pc. */
static uint32_t find_rule(struct walk *walk, uintptr_t pc)
{
	const struct kymo_unwind_block *block;
	uint32_t low = 0, high;
	uintptr_t offset;

	if (pc < walk->file.begin || pc >= walk->file.end) {
		if (!find_file(walk, pc)) {
			walk->file.begin = walk->file.end = 0;
			return is_awaited(pc) ? KYMO_RULE_STOP : KYMO_RULE_NONE;
		}
		if (!is_loaded(walk, pc)) {
			walk->file.begin = walk->file.end = 0;
			return KYMO_RULE_STOP;
		}
	}
	block = walk->file.block;
	if (!block)
		return KYMO_RULE_NONE;
	/* Not more than there is memory for, whatever the two say together. */
	high = walk->file.count < block->capacity ? walk->file.count : block->capacity;
	offset = pc - walk->file.begin;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (__atomic_load_n(&block->rows[middle].at, __ATOMIC_RELAXED) <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? __atomic_load_n(&block->rows[low - 1].rule, __ATOMIC_RELAXED) : KYMO_RULE_NONE;
}

/* To the caller, whose frame begins at cfa; its frame pointer is fp. */
static bool step_to(struct walk *walk, uintptr_t cfa, uintptr_t fp, bool fp_is_known)
{
	uintptr_t pc;

	if (cfa <= walk->sp || !read_word(walk, cfa - sizeof(pc), &pc) || !pc)
		return false;
	walk->pc = pc;
	walk->sp = cfa;
	walk->fp = fp;
	walk->fp_is_known = fp_is_known;
	walk->is_interrupted = false;
	return true;
}

/* To what a signal interrupted, which may be on another stack: from the signal stack to the thread's own. */
static bool step_over_signal(struct walk *walk)
{
	uintptr_t pc, sp, fp, end = walk->end;

	if (!read_word(walk, walk->sp + UCONTEXT_PC, &pc) || !read_word(walk, walk->sp + UCONTEXT_SP, &sp) ||
	    !read_word(walk, walk->sp + UCONTEXT_FP, &fp) || !pc)
		return false;
	if (sp <= walk->sp || sp >= end) {
		if (walk->left_signal_stack || !kymo_stack_is_own(walk->self, sp, &end))
			return false;
		walk->left_signal_stack = true;
	}
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->end = end;
	walk->fp_is_known = walk->is_interrupted = true;
	return true;
}

/* By the frame pointer, which is below its own frame's return address. */
static bool step_by_frame_pointer(struct walk *walk)
{
	uintptr_t next;

	if (!walk->fp_is_known || !read_word(walk, walk->fp, &next) || walk->fp > UINTPTR_MAX - sizeof(struct frame))
		return false;
	return step_to(walk, walk->fp + sizeof(struct frame), next, true);
}

/* A rule whose CFA is not found in a register. */
static bool step_realigned(struct walk *walk, uint32_t rule)
{
	uintptr_t cfa, fp;

	if (!walk->fp_is_known || walk->fp < KYMO_RULE_OFFSET(rule) ||
	    !read_word(walk, walk->fp - KYMO_RULE_OFFSET(rule), &cfa) || !read_word(walk, walk->fp, &fp))
		return false;
	return step_to(walk, cfa, fp, true);
}

/* By a rule whose CFA is a register and an offset. */
static bool step_by_rule(struct walk *walk, uint32_t rule, uintptr_t base)
{
	uintptr_t cfa = base + KYMO_RULE_OFFSET(rule), fp = walk->fp;
	bool fp_is_known = walk->fp_is_known;
	uint32_t saved = KYMO_RULE_SAVED(rule);

	if (cfa < base)
		return false;
	if (saved == KYMO_SAVED_LOST)
		fp_is_known = false;
	else if (saved != KYMO_SAVED_NOT)
		fp_is_known = read_word(walk, cfa - saved * sizeof(fp), &fp);
	return step_to(walk, cfa, fp, fp_is_known);
}

static bool step(struct walk *walk, uint32_t rule)
{
	switch (KYMO_RULE_KIND(rule)) {
	case KYMO_RULE_NONE:
		return step_by_frame_pointer(walk);
	case KYMO_RULE_SP:
		return step_by_rule(walk, rule, walk->sp);
	case KYMO_RULE_FP:
		return walk->fp_is_known && step_by_rule(walk, rule, walk->fp);
	case KYMO_RULE_REALIGNED:
		return step_realigned(walk, rule);
	case KYMO_RULE_SIGNAL:
		return step_over_signal(walk);
	default:
		return false;
	}
}

/* Whether the newest address is in code of a file: described by its table, or of a file that has none. */
static bool is_in_file(const struct walk *walk, uint32_t rule)
{
	return KYMO_RULE_KIND(rule) > KYMO_RULE_STOP || (walk->file.end && !walk->file.block);
}

/*
 * By tables. What frame pointers find counts only if they lead to code of a file: a chain that is none
 * ends elsewhere.
 */
static uint32_t by_tables(struct walk *walk)
{
	uint32_t sure = walk->count;

	while (walk->count < KYMO_STACK_MAX) {
		uint32_t rule = find_rule(walk, walk->is_interrupted ? walk->pc : walk->pc - 1);

		if (is_in_file(walk, rule))
			sure = walk->count;
		if (!step(walk, rule))
			return sure;
		/* An interrupted instruction's own, so that the address before is in it, as it is for a call. */
		walk->to[walk->count++] = walk->is_interrupted ? walk->pc + 1 : walk->pc;
		if (KYMO_RULE_KIND(rule) != KYMO_RULE_NONE)
			sure = walk->count;
	}
	return walk->count;
}

static uint32_t walk_stack(struct kymo_self *self, const struct frame *at, uintptr_t end, uint64_t *to)
{
	for (int tries = 0; tries < WALKS_MAX; tries++) {
		uint64_t generation = __atomic_load_n(&kymo_unwind_generation, __ATOMIC_ACQUIRE);
		struct walk walk = { .self = self,
				     .set = __atomic_load_n(&kymo_unwind_set, __ATOMIC_ACQUIRE),
				     .pc = at->address,
				     .sp = (uintptr_t)(at + 1),
				     .fp = at->next,
				     .fp_is_known = true,
				     .end = end,
				     .count = 1,
				     .to = to };
		uint32_t count;

		if (!walk.set)
			return by_frame_pointers(at, end, to);
		walk.is_listed = kymo_loader_is_unchanged(__atomic_load_n(&walk.set->loaded, __ATOMIC_RELAXED));
		count = by_tables(&walk);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&kymo_unwind_generation, __ATOMIC_RELAXED) == generation)
			return count;
	}
	return 1;
}
#else
static uint32_t walk_stack(struct kymo_self *self, const struct frame *at, uintptr_t end, uint64_t *to)
{
	(void)self;
	return by_frame_pointers(at, end, to);
}
#endif

/*
 * kymo_callstack: at most KYMO_STACK_MAX addresses to to, the innermost first: where the function of
 * frame was called from. What cannot be followed ends it early.
 * Context: any; system calls where kymo_stack_end makes them.
 * Returns: how many, 1 at least.
 */
uint32_t kymo_callstack(struct kymo_self *self, const void *frame, uint64_t *to)
{
	const struct frame *at = frame;
	uintptr_t end;

	to[0] = unsigned_address(at->address);
	if (!kymo_stack_end(self, (uintptr_t)at, &end))
		return 1;
	return walk_stack(self, at, end, to);
}
