/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter_make.c: checks a program that came from a collector [filter.md 6.4] and translates it to
 * what filter.c runs. Under kymo_lock, in the helper thread or at start; never on the record path.
 * Memory comes from the kernel in whole chunks: malloc may be what is being traced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "filter.h"
#include "kymo/event.h"

#define CHUNK_BYTES (64u << 10)

/* A program as it came; the pool is in the message. */
struct source {
	struct kymo_filter_insn insns[KYMO_FILTER_INSNS_MAX];
	uint32_t insn_count;
	const uint8_t *pool;
	uint32_t pool_bytes;
	uint32_t payload_min_bytes;
};

static struct kymo_filter *programs;
static struct kymo_filters *free_filters;

/* Memory that is never given back, at a multiple of 64. Returns null when the bound is reached. */
static void *take(size_t bytes)
{
	static uint8_t *at;
	static size_t left, total;
	void *taken;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes > CHUNK_BYTES)
		return NULL;
	if (bytes > left) {
		void *chunk;

		if (total + CHUNK_BYTES > KYMO_FILTERS_BYTES_MAX)
			return NULL;
		chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk == MAP_FAILED)
			return NULL;
		at = chunk;
		left = CHUNK_BYTES;
		total += CHUNK_BYTES;
	}
	taken = at;
	at += bytes;
	left -= bytes;
	return taken;
}

/* Bytes of a scalar by its code; 0 of what is none. Each type of abi/types.h has a C type of that size in event.h. */
#define BYTES_OF(name, upper, code, bytes) [code] = bytes,
#define IS_IN_EVENT_H(name, upper, code, bytes)                                                      \
	KYMO_STATIC_ASSERT(sizeof(KYMO__C_##name) == (bytes), "event.h has another size of " #name);
static const uint8_t scalar_bytes[UINT8_MAX + 1] = { KYMO_SCALARS(BYTES_OF) };
KYMO_SCALARS(IS_IN_EVENT_H)

/* What the payloads of an event have in common, by its description. */
static void measure(struct kymo_filters *filters, const struct kymo_desc *desc)
{
	const struct kymo_field *fields = (const struct kymo_field *)(const void *)(desc + 1);
	uint64_t least = 0, staged = 0;
	bool in_run = true;

	for (uint32_t i = 0; i < desc->count; i++) {
		bool is_array = fields[i].type == KYMO_T_ARRAY;
		uint32_t bytes = scalar_bytes[fields[i].type];
		bool is_scalar = bytes != 0;

		if (!is_scalar)
			bytes = 2; /* the length */
		least += is_array ? (uint64_t)fields[i].count * scalar_bytes[fields[i].element] : bytes;
		if (in_run && !is_array)
			staged += bytes;
		in_run &= is_scalar;
	}
	filters->min_bytes = least < UINT32_MAX ? (uint32_t)least : UINT32_MAX;
	filters->staged_bytes = staged < KYMO_STAGED_BYTES_MAX ? (uint32_t)staged : KYMO_STAGED_BYTES_MAX;
}

/* kymo_filters_new: no filter in any slot. Returns null when the memory is used up. */
struct kymo_filters *kymo_filters_new(const struct kymo_desc *desc)
{
	struct kymo_filters *filters = free_filters;

	if (filters)
		free_filters = filters->next;
	else
		filters = take(sizeof(*filters));
	if (!filters)
		return NULL;
	memset(filters, 0, sizeof(*filters));
	measure(filters, desc);
	return filters;
}

/* kymo_filters_free: of an event whose code goes, so that nobody can be inside of it. */
void kymo_filters_free(struct kymo_filters *filters)
{
	filters->next = free_filters;
	free_filters = filters;
}

static bool in_pool(const struct source *source, const struct kymo_filter_insn *insn, uint64_t bytes)
{
	return insn->aux + bytes <= source->pool_bytes;
}

/* Only the walk in front of it leads to an instruction that reads behind a walk. */
static bool is_behind(const struct source *source, uint32_t at)
{
	if (!at || source->insns[at - 1].op != KYMO_FILTER_WALK)
		return false;
	for (uint32_t i = 0; i + 1 < at; i++)
		if (source->insns[i].jump_true == at || source->insns[i].jump_false == at)
			return false;
	return true;
}

static bool check_walk(const struct source *source, uint32_t at)
{
	const struct kymo_filter_insn *insn = &source->insns[at];

	if (insn->jump_true != at + 1 || insn->jump_false != at + 1 || at + 1 >= source->insn_count ||
	    !(source->insns[at + 1].type & KYMO_FILTER_BEHIND))
		return false;
	if (insn->type || insn->imm || !insn->offset || insn->offset > KYMO_FILTER_WALK_MAX ||
	    !in_pool(source, insn, insn->offset * sizeof(struct kymo_filter_entry)))
		return false;
	for (uint32_t i = 0; i < insn->offset; i++) {
		struct kymo_filter_entry entry;

		memcpy(&entry, source->pool + insn->aux + i * sizeof(entry), sizeof(entry));
		if (entry.element_bytes != 1 && entry.element_bytes != 2 && entry.element_bytes != 4 &&
		    entry.element_bytes != 8)
			return false;
	}
	return true;
}

static bool check_number(const struct source *source, const struct kymo_filter_insn *insn)
{
	uint8_t type = insn->type & ~KYMO_FILTER_FLAGS;

	if (type < KYMO_FILTER_U8 || type > KYMO_FILTER_LEN)
		return false;
	if (!(insn->type & KYMO_FILTER_MASKED))
		return !insn->aux;
	return type <= KYMO_FILTER_I64 && in_pool(source, insn, sizeof(uint64_t));
}

static bool check_text(const struct source *source, const struct kymo_filter_insn *insn)
{
	return (insn->type & ~KYMO_FILTER_BEHIND) == KYMO_FILTER_STR && insn->imm <= UINT16_MAX &&
	       in_pool(source, insn, insn->imm);
}

static bool check_jump(const struct source *source, uint32_t at, uint8_t target)
{
	return target >= KYMO_FILTER_REJECT || (target > at && target < source->insn_count);
}

/* The rules of filter.md 6.4 for one instruction. */
static bool check_one(const struct source *source, uint32_t at)
{
	const struct kymo_filter_insn *insn = &source->insns[at];
	uint32_t bytes = kymo_filter_width(insn->type);

	if (!check_jump(source, at, insn->jump_true) || !check_jump(source, at, insn->jump_false))
		return false;
	switch (insn->op) {
	case KYMO_FILTER_ALWAYS:
		return !insn->type && !insn->offset && !insn->aux && !insn->imm &&
		       insn->jump_true == insn->jump_false;
	case KYMO_FILTER_WALK:
		return check_walk(source, at);
	case KYMO_FILTER_EQ:
	case KYMO_FILTER_LT:
	case KYMO_FILTER_LE:
	case KYMO_FILTER_GT:
	case KYMO_FILTER_GE:
		if (!check_number(source, insn))
			return false;
		break;
	case KYMO_FILTER_STR_EQ:
	case KYMO_FILTER_STR_PREFIX:
	case KYMO_FILTER_STR_SUFFIX:
		if (!check_text(source, insn))
			return false;
		bytes = sizeof(uint16_t);
		break;
	default:
		return false;
	}
	if (insn->type & KYMO_FILTER_BEHIND)
		return is_behind(source, at);
	return insn->offset + bytes <= source->payload_min_bytes;
}

static bool check(const struct source *source)
{
	for (uint32_t at = 0; at < source->insn_count; at++)
		if (!check_one(source, at))
			return false;
	return true;
}

/*
 * Of floats whose signs are all the same, the bits have an order too: that of integers, or its
 * reverse.
 */
static void translate_float(struct kymo_filter_step *step, uint64_t *least, uint64_t *most)
{
	uint64_t from = kymo_float_unkey(*least) >> step->above, to = kymo_float_unkey(*most) >> step->above;

	if (*least >> 63 != *most >> 63) {
		step->form = KYMO_FORM_FLOAT;
		return;
	}
	*least = from < to ? from : to;
	*most = from < to ? to : from;
}

static void translate_masked(const struct source *source, const struct kymo_filter_insn *insn,
			     struct kymo_filter_step *step, uint64_t *least, uint64_t *most, bool *some)
{
	uint8_t type = insn->type & ~KYMO_FILTER_FLAGS;
	uint64_t largest = UINT64_MAX >> step->above;

	memcpy(&step->mask, source->pool + insn->aux, sizeof(step->mask));
	step->form = KYMO_FORM_MASKED;
	if (type >= KYMO_FILTER_I8 && step->mask & ~largest)
		step->form = KYMO_FORM_SIGNED_MASKED;
	else
		step->mask &= largest;
	*least = 0;
	*most = UINT64_MAX;
	*some = kymo_filter_select(insn->op, insn->imm, insn->imm, least, most);
}

static void translate_number(const struct source *source, const struct kymo_filter_insn *insn,
			     struct kymo_filter_step *step)
{
	uint8_t type = insn->type & ~KYMO_FILTER_FLAGS;
	uint64_t least, most;
	bool some;

	step->mask = UINT64_MAX >> step->above;
	if (insn->type & KYMO_FILTER_MASKED) {
		translate_masked(source, insn, step, &least, &most, &some);
	} else {
		some = kymo_filter_range(insn, &least, &most);
		if (some && (type == KYMO_FILTER_F32 || type == KYMO_FILTER_F64))
			translate_float(step, &least, &most);
	}
	if (!some) {
		/* Nothing is selected: the test always holds, and its outcome is the other one. */
		step->form = KYMO_FORM_PLAIN;
		step->mask = 0;
		step->yes = step->no;
		return;
	}
	step->low = least;
	step->span = most - least;
}

/* Staged values are read by their words. */
static void place(struct kymo_filter_step *step, uint16_t offset, uint32_t staged_bytes)
{
	if ((uint32_t)offset + step->width > staged_bytes) {
		step->path = KYMO_PATH_FETCH;
		step->offset = offset;
		return;
	}
	step->path = KYMO_PATH_STAGED;
	step->word = (uint8_t)(offset / 8);
	step->shift = (uint8_t)(offset % 8 * 8);
}

/* Past instructions that decide nothing. */
static uint8_t follow(const struct source *source, uint8_t target)
{
	while (target < KYMO_FILTER_REJECT && source->insns[target].op == KYMO_FILTER_ALWAYS)
		target = source->insns[target].jump_true;
	return target;
}

static void translate(const struct source *source, uint32_t at, uint32_t staged_bytes,
		      struct kymo_filter_step *step)
{
	const struct kymo_filter_insn *insn = &source->insns[at];
	bool is_behind_walk = insn->type & KYMO_FILTER_BEHIND;

	step->yes = follow(source, insn->jump_true);
	step->no = follow(source, insn->jump_false);
	switch (insn->op) {
	case KYMO_FILTER_ALWAYS: /* mask 0 and span 0: it holds */
		return;
	case KYMO_FILTER_WALK:
		step->path = KYMO_PATH_WALK;
		step->offset = insn->offset;
		step->low = insn->aux;
		return;
	case KYMO_FILTER_STR_EQ:
	case KYMO_FILTER_STR_PREFIX:
	case KYMO_FILTER_STR_SUFFIX:
		step->path = is_behind_walk ? KYMO_PATH_TEXT_BEHIND : KYMO_PATH_TEXT;
		step->form = insn->op;
		step->offset = insn->offset;
		step->low = insn->aux;
		step->span = insn->imm;
		return;
	}
	step->width = (uint8_t)kymo_filter_width(insn->type);
	step->above = (uint8_t)(64 - 8 * step->width);
	if (is_behind_walk) {
		step->path = KYMO_PATH_BEHIND;
		step->offset = insn->offset;
	} else {
		place(step, insn->offset, staged_bytes);
	}
	translate_number(source, insn, step);
}

/* Steps in front that are plain, and reject or lead to the next: all must hold. */
static uint16_t chain_of(const struct kymo_filter_step *steps, uint32_t count)
{
	for (uint16_t at = 0; at < count; at++) {
		const struct kymo_filter_step *step = &steps[at];

		if (step->path != KYMO_PATH_STAGED || step->form != KYMO_FORM_PLAIN ||
		    step->no != KYMO_FILTER_REJECT)
			return at;
		if (step->yes != at + 1)
			return at + 1;
	}
	return (uint16_t)count;
}

static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

/* The program that equals draft, whose steps and pool have content_bytes: an old one, or a new copy. */
static const struct kymo_filter *keep(struct kymo_filter *draft, size_t content_bytes)
{
	struct kymo_filter *kept;

	draft->bytes = (uint32_t)(sizeof(*draft) + content_bytes);
	draft->hash = hash_of((const uint8_t *)draft->steps, content_bytes);
	for (kept = programs; kept; kept = kept->next)
		if (kept->hash == draft->hash && kept->bytes == draft->bytes &&
		    kept->pool_offset_steps == draft->pool_offset_steps &&
		    !memcmp(kept->steps, draft->steps, content_bytes))
			return kept;
	kept = take(draft->bytes);
	if (!kept)
		return NULL;
	memcpy(kept, draft, draft->bytes);
	kept->next = programs;
	programs = kept;
	return kept;
}

/*
 * kymo_filter_make: the program that insns (struct kymo_filter_insn, at any address) and pool
 * describe, for payloads as filters says.
 * Returns: 0; EINVAL: it breaks a rule of filter.md 6.4; EMSGSIZE: it counts on longer payloads
 * than the event has; ENOMEM: the memory for filters is used up.
 */
int kymo_filter_make(const struct kymo_filters *filters, const uint8_t *insns, uint32_t insn_count,
		     const uint8_t *pool, uint32_t pool_bytes, uint32_t payload_min_bytes,
		     const struct kymo_filter **made)
{
	static struct source source; /* under kymo_lock */
	static union {
		struct kymo_filter filter;
		uint8_t bytes[sizeof(struct kymo_filter) +
			      KYMO_FILTER_INSNS_MAX * sizeof(struct kymo_filter_step) + KYMO_FILTER_POOL_MAX];
	} draft;
	struct kymo_filter *filter = &draft.filter;

	if (!insn_count || insn_count > KYMO_FILTER_INSNS_MAX || pool_bytes > KYMO_FILTER_POOL_MAX)
		return EINVAL;
	if (payload_min_bytes > filters->min_bytes)
		return EMSGSIZE;
	memcpy(source.insns, insns, insn_count * sizeof(source.insns[0]));
	source.insn_count = insn_count;
	source.pool = pool;
	source.pool_bytes = pool_bytes;
	source.payload_min_bytes = payload_min_bytes;
	if (!check(&source))
		return EINVAL;
	memset(&draft, 0, sizeof(draft));
	for (uint32_t at = 0; at < insn_count; at++)
		translate(&source, at, filters->staged_bytes, &filter->steps[at]);
	filter->chain = chain_of(filter->steps, insn_count);
	filter->pool_offset_steps = (uint16_t)insn_count;
	memcpy(&filter->steps[insn_count], pool, pool_bytes);
	*made = keep(filter, insn_count * sizeof(filter->steps[0]) + pool_bytes);
	return *made ? 0 : ENOMEM;
}
