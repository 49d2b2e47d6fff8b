/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * eh_frame.c: reads what compilers write for exceptions (.eh_frame, by its search table .eh_frame_hdr;
 * Linux Standard Base, Core 5.0, 10.6) and makes rows of it [context.md 4]. Trusts no byte; every loop
 * is bounded by bytes that were read. Knows nothing of loaded files, threads or the record path, and
 * allocates nothing. x86-64: register 6 is the frame pointer, 7 the stack pointer, 16 the return address.
 */
#include <string.h>

#include "eh_bytes.h"
#include "unwind.h"

#define REGISTER_FP 6u
#define REGISTER_SP 7u
#define REGISTER_RA 16u
/* remember_state in remember_state; compilers need two. */
#define KEPT_MAX 8u
/* Search table: version, three encodings, address of .eh_frame, count; then pairs of offsets. */
#define SEARCH_HEAD_BYTES 12u
#define SEARCH_PAIR_BYTES 8u
/* Between functions is padding of less than this; more may be code that no entry speaks of. */
#define PADDING_MAX 16u
/* Offsets of the kernel's ucontext: registers of what a signal interrupted. */
#define UCONTEXT_FP 120
#define UCONTEXT_SP 160
#define UCONTEXT_PC 168

enum {
	OP_DEREF = 0x06,
	OP_BREG_FP = 0x70 + REGISTER_FP,
	OP_BREG_SP = 0x70 + REGISTER_SP,
};

static int64_t multiply(uint64_t value, int64_t by)
{
	return (int64_t)(value * (uint64_t)by);
}

/* The instructions of one function. */
struct run {
	struct kymo_eh *eh;
	const struct kymo_eh_cie *cie;
	struct kymo_eh_state now, kept[KEPT_MAX];
	uint32_t kept_count;
	uint64_t pc, end;
	bool makes_rows;
};

static bool is_at(const struct kymo_eh_place *place, int kind, int64_t offset)
{
	return (int)place->kind == kind && place->offset == offset;
}

/* Whether an offset in bytes is one in words that a rule has room for. */
static bool is_short(int64_t bytes)
{
	return bytes >= 0 && bytes % 8 == 0 && bytes / 8 <= (int64_t)KYMO_RULE_WORDS_MAX;
}

static uint32_t rule_of_saved(const struct kymo_eh_place *fp)
{
	uint64_t words = (uint64_t)0 - (uint64_t)fp->offset;

	if (fp->kind == KYMO_EH_SAME)
		return KYMO_SAVED_NOT;
	if (fp->kind != KYMO_EH_AT_CFA || words % 8 || words / 8 < 2 || words / 8 >= KYMO_SAVED_LOST)
		return KYMO_SAVED_LOST;
	return (uint32_t)(words / 8);
}

static uint32_t rule_of(const struct kymo_eh_state *state, bool is_signal)
{
	const uint32_t stop = KYMO_RULE_MAKE(KYMO_RULE_STOP, 0, 0);

	if (state->ra.kind == KYMO_EH_UNDEFINED)
		return KYMO_RULE_MAKE(KYMO_RULE_END, 0, 0);
	if (is_signal) {
		if (state->cfa != KYMO_EH_CFA_AT_SP || state->cfa_offset != UCONTEXT_SP ||
		    !is_at(&state->ra, KYMO_EH_AT_SP, UCONTEXT_PC) ||
		    !is_at(&state->fp, KYMO_EH_AT_SP, UCONTEXT_FP))
			return stop;
		return KYMO_RULE_MAKE(KYMO_RULE_SIGNAL, 0, 0);
	}
	if (!is_at(&state->ra, KYMO_EH_AT_CFA, -8))
		return stop;
	if (state->cfa == KYMO_EH_CFA_AT_FP) {
		if (state->cfa_offset > 0 || state->cfa_offset < -8 * (int64_t)KYMO_RULE_WORDS_MAX ||
		    state->cfa_offset % 8 || !is_at(&state->fp, KYMO_EH_AT_FP, 0))
			return stop;
		return KYMO_RULE_MAKE(KYMO_RULE_REALIGNED, 0, -state->cfa_offset / 8);
	}
	if (state->cfa != KYMO_EH_CFA_REGISTER || !is_short(state->cfa_offset) || state->cfa_offset < 8)
		return stop;
	if (state->cfa_register != REGISTER_SP && state->cfa_register != REGISTER_FP)
		return stop;
	return KYMO_RULE_MAKE(state->cfa_register == REGISTER_SP ? KYMO_RULE_SP : KYMO_RULE_FP,
			      rule_of_saved(&state->fp), state->cfa_offset / 8);
}

/* From at on the rule holds. Rows are put in their order; where the rule stays, there is none. */
static bool put_row(struct kymo_eh *eh, uint64_t at, uint32_t rule)
{
	uint32_t offset = (uint32_t)(at - eh->begin);
	struct kymo_unwind_row *last = eh->count ? &eh->rows[eh->count - 1] : NULL;

	if (last && last->at == offset) {
		last->rule = rule;
		return true;
	}
	if (last && last->rule == rule)
		return true;
	if (eh->count == eh->capacity) {
		eh->is_full = true;
		return false;
	}
	eh->rows[eh->count++] = (struct kymo_unwind_row){ offset, rule };
	return true;
}

/* What held from run->pc on is known: the next instruction is of to. */
static bool advance(struct run *run, uint64_t to)
{
	if (to < run->pc || to > run->end)
		return false;
	if (to > run->pc && run->makes_rows &&
	    !put_row(run->eh, run->pc, rule_of(&run->now, run->cie->is_signal)))
		return false;
	run->pc = to;
	return true;
}

/* Where a register that we follow is kept; others go to a place that nobody looks at. */
static struct kymo_eh_place *place_of(struct kymo_eh_state *state, uint64_t number,
				      struct kymo_eh_place *nobody)
{
	if (number == REGISTER_FP)
		return &state->fp;
	return number == REGISTER_RA ? &state->ra : nobody;
}

static void set_place(struct run *run, uint64_t number, int kind, int64_t offset)
{
	struct kymo_eh_place nobody, *place = place_of(&run->now, number, &nobody);

	*place = (struct kymo_eh_place){ .kind = kind, .offset = offset };
	/* A stack pointer that is not the CFA is nothing that a rule can say. */
	if (number == REGISTER_SP && !run->cie->is_signal && kind != KYMO_EH_SAME)
		run->now.ra.kind = KYMO_EH_OTHER;
}

/* Back to what the CIE said. */
static void restore(struct run *run, uint64_t number)
{
	struct kymo_eh_state before = run->cie->state;
	struct kymo_eh_place nobody = { .kind = KYMO_EH_SAME }, *place = place_of(&before, number, &nobody);

	*place_of(&run->now, number, &nobody) = *place;
}

/* An expression that is a register and an offset, perhaps what that points to. Returns the register; 0: another. */
static uint64_t simple_expression(struct cursor block, int64_t *offset, bool *is_deref)
{
	uint8_t op = (uint8_t)take(&block, 1);

	*offset = take_sleb(&block);
	*is_deref = block.at < block.end && *block.at == OP_DEREF;
	block.at += *is_deref;
	if (block.is_bad || block.at != block.end || (op != OP_BREG_FP && op != OP_BREG_SP))
		return 0;
	return op - 0x70u;
}

static void cfa_expression(struct run *run, struct cursor block)
{
	bool is_deref;
	uint64_t number = simple_expression(block, &run->now.cfa_offset, &is_deref);

	run->now.cfa = KYMO_EH_CFA_OTHER;
	if (number && is_deref)
		run->now.cfa = number == REGISTER_SP ? KYMO_EH_CFA_AT_SP : KYMO_EH_CFA_AT_FP;
}

static void place_expression(struct run *run, uint64_t number, struct cursor block)
{
	int64_t offset;
	bool is_deref;
	uint64_t base = simple_expression(block, &offset, &is_deref);

	/* The signal frame's stack pointer is found as its CFA is. */
	if (number == REGISTER_SP && run->cie->is_signal)
		return;
	if (!base || is_deref)
		set_place(run, number, KYMO_EH_OTHER, 0);
	else
		set_place(run, number, base == REGISTER_SP ? KYMO_EH_AT_SP : KYMO_EH_AT_FP, offset);
}

static void set_cfa(struct run *run, uint64_t number, int64_t offset)
{
	run->now.cfa = KYMO_EH_CFA_REGISTER;
	run->now.cfa_register = number;
	run->now.cfa_offset = offset;
}

/* Instructions that say where the CFA is. Returns false for another one. */
static bool cfa_instruction(struct run *run, struct cursor *from, uint8_t op)
{
	int64_t align = run->cie->data_align;
	uint64_t number;

	switch (op) {
	case 0x0c: /* def_cfa */
		number = take_uleb(from);
		set_cfa(run, number, (int64_t)take_uleb(from));
		return true;
	case 0x12: /* def_cfa_sf */
		number = take_uleb(from);
		set_cfa(run, number, multiply((uint64_t)take_sleb(from), align));
		return true;
	case 0x0d: /* def_cfa_register */
		number = take_uleb(from);
		if (run->now.cfa == KYMO_EH_CFA_REGISTER)
			run->now.cfa_register = number;
		else
			run->now.cfa = KYMO_EH_CFA_OTHER;
		return true;
	case 0x0e: /* def_cfa_offset */
		run->now.cfa_offset = (int64_t)take_uleb(from);
		break;
	case 0x13: /* def_cfa_offset_sf */
		run->now.cfa_offset = multiply((uint64_t)take_sleb(from), align);
		break;
	case 0x0f: /* def_cfa_expression */
		cfa_expression(run, take_block(from));
		return true;
	default:
		return false;
	}
	if (run->now.cfa != KYMO_EH_CFA_REGISTER)
		run->now.cfa = KYMO_EH_CFA_OTHER;
	return true;
}

/* Instructions that say where a register is. Returns false for another one. */
static bool place_instruction(struct run *run, struct cursor *from, uint8_t op)
{
	int64_t align = run->cie->data_align;
	uint64_t number;

	if (op < 0x05 || (op > 0x09 && op != 0x10 && op != 0x11 && op != 0x2f && (op < 0x14 || op > 0x16)))
		return false;
	number = take_uleb(from);
	switch (op) {
	case 0x05: /* offset_extended */
		set_place(run, number, KYMO_EH_AT_CFA, multiply(take_uleb(from), align));
		break;
	case 0x11: /* offset_extended_sf */
		set_place(run, number, KYMO_EH_AT_CFA, multiply((uint64_t)take_sleb(from), align));
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		set_place(run, number, KYMO_EH_AT_CFA, multiply(0 - take_uleb(from), align));
		break;
	case 0x06:
		restore(run, number);
		break;
	case 0x07:
		set_place(run, number, KYMO_EH_UNDEFINED, 0);
		break;
	case 0x08:
		set_place(run, number, KYMO_EH_SAME, 0);
		break;
	case 0x10: /* expression */
		place_expression(run, number, take_block(from));
		break;
	case 0x16: /* val_expression */
		take_block(from);
		set_place(run, number, KYMO_EH_OTHER, 0);
		break;
	default: /* register, val_offset, val_offset_sf */
		take_uleb(from);
		set_place(run, number, KYMO_EH_OTHER, 0);
	}
	return true;
}

/* Instructions of one byte: no operation, states that are kept, places in the code. */
static bool other_instruction(struct run *run, struct cursor *from, uint8_t op)
{
	uint64_t align = run->cie->code_align;

	switch (op) {
	case 0x00:
		return true;
	case 0x01: /* set_loc */
		return advance(run, take_address(from, run->cie->encoding));
	case 0x02:
		return advance(run, run->pc + take(from, 1) * align);
	case 0x03:
		return advance(run, run->pc + take(from, 2) * align);
	case 0x04:
		return advance(run, run->pc + take(from, 4) * align);
	case 0x0a:
		if (run->kept_count == KEPT_MAX)
			return false;
		run->kept[run->kept_count++] = run->now;
		return true;
	case 0x0b:
		if (!run->kept_count)
			return false;
		run->now = run->kept[--run->kept_count];
		return true;
	case 0x2e: /* GNU_args_size */
		take_uleb(from);
		return true;
	default:
		return false;
	}
}

static bool execute(struct run *run, struct cursor *from)
{
	while (from->at < from->end && !from->is_bad) {
		uint8_t op = (uint8_t)take(from, 1);
		uint64_t low = op & 0x3f;
		bool is_known = true;

		switch (op >> 6) {
		case 1:
			is_known = advance(run, run->pc + low * run->cie->code_align);
			break;
		case 2:
			set_place(run, low, KYMO_EH_AT_CFA, multiply(take_uleb(from), run->cie->data_align));
			break;
		case 3:
			restore(run, low);
			break;
		default:
			is_known = cfa_instruction(run, from, op) || place_instruction(run, from, op) ||
				   other_instruction(run, from, op);
		}
		if (!is_known)
			return false;
	}
	return !from->is_bad;
}

/* An entry's bytes behind its length, which are copied to eh->bytes. */
static bool read_entry(struct kymo_eh *eh, uintptr_t at, struct cursor *entry)
{
	uint32_t bytes;

	if (at > UINTPTR_MAX - 4 - KYMO_EH_ENTRY_MAX || !eh->read(eh->of, at, &bytes, sizeof(bytes)) ||
	    bytes < 4 || bytes > KYMO_EH_ENTRY_MAX || !eh->read(eh->of, at + 4, eh->bytes, bytes))
		return false;
	*entry = (struct cursor){ .at = eh->bytes, .begin = eh->bytes, .end = eh->bytes + bytes, .address = at + 4 };
	return true;
}

/* What the letters of a CIE's augmentation announce. */
static bool read_augmentation(struct kymo_eh_cie *cie, const char *letters, struct cursor *data)
{
	for (; *letters; letters++)
		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)take(data, 1);
			break;
		case 'P':
			take_format(data, (uint8_t)take(data, 1));
			break;
		case 'L':
			take(data, 1);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		default:
			return false;
		}
	return !data->is_bad;
}

static bool read_cie(struct kymo_eh *eh, struct kymo_eh_cie *cie)
{
	struct run run = { .eh = eh, .cie = cie };
	struct cursor from, data;
	const char *letters;
	uint8_t version;

	if (!read_entry(eh, cie->at, &from) || take(&from, 4))
		return false;
	version = (uint8_t)take(&from, 1);
	letters = (const char *)from.at;
	while (take(&from, 1))
		;
	cie->code_align = take_uleb(&from);
	cie->data_align = take_sleb(&from);
	if ((version == 1 ? take(&from, 1) : take_uleb(&from)) != REGISTER_RA || from.is_bad ||
	    (version != 1 && version != 3) || cie->code_align > 64)
		return false;
	cie->has_length = *letters == 'z';
	if (cie->has_length) {
		data = take_block(&from);
		if (!read_augmentation(cie, letters + 1, &data))
			return false;
	} else if (*letters) {
		return false;
	}
	run.now.cfa = KYMO_EH_CFA_OTHER;
	if (!execute(&run, &from))
		return false;
	cie->state = run.now;
	return true;
}

/* The CIE at an address; those that were met last are kept. */
static const struct kymo_eh_cie *find_cie(struct kymo_eh *eh, uintptr_t at)
{
	struct kymo_eh_cie *cie;

	for (uint32_t i = 0; i < KYMO_EH_CIES; i++)
		if (eh->cies[i].at == at)
			return &eh->cies[i];
	cie = &eh->cies[eh->next_cie++ % KYMO_EH_CIES];
	memset(cie, 0, sizeof(*cie));
	cie->at = at;
	cie->is_usable = read_cie(eh, cie);
	return cie;
}

/* Of an entry: its CIE, and the code that it is about; *from is left at its instructions. */
static const struct kymo_eh_cie *read_head(struct kymo_eh *eh, uintptr_t at, struct cursor *from,
					   uint64_t *begin, uint64_t *end)
{
	const struct kymo_eh_cie *cie;
	uint32_t read_before;
	uint64_t back, bytes;

	if (!read_entry(eh, at, from))
		return NULL;
	back = take(from, 4);
	if (!back || back > at + 4)
		return NULL;
	read_before = eh->next_cie;
	cie = find_cie(eh, at + 4 - back);
	if (!cie->is_usable)
		return NULL;
	/* It was read into the same bytes. */
	if (eh->next_cie != read_before) {
		if (!read_entry(eh, at, from))
			return NULL;
		take(from, 4);
	}
	*begin = take_address(from, cie->encoding);
	bytes = take_format(from, cie->encoding);
	if (cie->has_length)
		take_block(from);
	if (from->is_bad || *begin < eh->begin || *begin >= eh->end || !bytes || bytes > eh->end - *begin)
		return NULL;
	*end = *begin + bytes;
	return cie;
}

/* The rows of one function. Returns false, and nothing has changed, where they have no room. */
static bool put_function(struct kymo_eh *eh, uint64_t expected, uintptr_t at)
{
	uint32_t count = eh->count;
	uint32_t last_rule = count ? eh->rows[count - 1].rule : 0;
	struct run run = { .eh = eh, .makes_rows = true };
	struct cursor from;
	bool is_known;

	run.cie = read_head(eh, at, &from, &run.pc, &run.end);
	/* The search table is sorted; of functions that were merged the first one counts. */
	if (!run.cie || run.pc != expected || run.pc < eh->done)
		return true;
	eh->is_full = false;
	if (run.pc - eh->done >= PADDING_MAX && !put_row(eh, eh->done, KYMO_RULE_MAKE(KYMO_RULE_NONE, 0, 0)))
		goto full;
	run.now = run.cie->state;
	expected = run.pc;
	is_known = execute(&run, &from) && advance(&run, run.end);
	if (eh->is_full)
		goto full;
	if (!is_known) {
		/* All of it is one row that stops. */
		while (eh->count > count && eh->rows[eh->count - 1].at > expected - eh->begin)
			eh->count--;
		if (!put_row(eh, expected, KYMO_RULE_MAKE(KYMO_RULE_STOP, 0, 0)))
			goto full;
	}
	eh->done = run.end;
	return true;
full:
	eh->count = count;
	if (count)
		eh->rows[count - 1].rule = last_rule;
	return false;
}

/*
 * kymo_eh_begin: rows from search_table, for code from begin to end. Sets eh up, whose read, of, begin,
 * end and search_table, rows and capacity the caller has set. Returns false for a form that no linker
 * of today writes.
 */
bool kymo_eh_begin(struct kymo_eh *eh, size_t search_table_bytes)
{
	uint8_t head[SEARCH_HEAD_BYTES];
	uint32_t count;

	memset(eh->cies, 0, sizeof(eh->cies));
	eh->entry = eh->entry_count = eh->count = eh->next_cie = 0;
	eh->done = eh->begin;
	eh->is_full = false;
	if (eh->end <= eh->begin || eh->end - eh->begin > UINT32_MAX || search_table_bytes < sizeof(head) ||
	    !eh->read(eh->of, eh->search_table, head, sizeof(head)))
		return false;
	memcpy(&count, head + 8, sizeof(count));
	/* Version; count as 4 bytes; pairs of 4 bytes, relative to the table. */
	if (head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b)
		return false;
	if (count > (search_table_bytes - sizeof(head)) / SEARCH_PAIR_BYTES)
		return false;
	eh->entry_count = count;
	return true;
}

/*
 * kymo_eh_continue: the rows of so many functions more. Returns KYMO_EH_FULL where there is no room for
 * the next one: then with larger rows again.
 */
enum kymo_eh_progress kymo_eh_continue(struct kymo_eh *eh, uint32_t entries)
{
	for (; entries && eh->entry < eh->entry_count; entries--) {
		int32_t pair[2];
		uintptr_t at = eh->search_table + SEARCH_HEAD_BYTES + (uintptr_t)eh->entry * SEARCH_PAIR_BYTES;

		if (!eh->read(eh->of, at, pair, sizeof(pair))) {
			eh->entry = eh->entry_count;
			break;
		}
		if (!put_function(eh, eh->search_table + (uintptr_t)(intptr_t)pair[0],
				  eh->search_table + (uintptr_t)(intptr_t)pair[1]))
			return KYMO_EH_FULL;
		eh->entry++;
	}
	if (eh->entry < eh->entry_count)
		return KYMO_EH_MORE;
	/* Code behind the last function is none of theirs. */
	if (eh->count && eh->done < eh->end && !put_row(eh, eh->done, KYMO_RULE_MAKE(KYMO_RULE_NONE, 0, 0)))
		return KYMO_EH_FULL;
	return KYMO_EH_DONE;
}
