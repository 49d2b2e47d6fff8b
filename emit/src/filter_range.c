/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * filter_range.c: which values a comparison of a filter selects, as one range of an order of
 * uint64_t in which every integer and float has its place. Pure; used by filter_make.c.
 */
#include "filter.h"

/* kymo_filter_width: bytes of a number of a program. */
uint32_t kymo_filter_width(uint8_t type)
{
	switch (type & ~KYMO_FILTER_FLAGS) {
	case KYMO_FILTER_U16:
	case KYMO_FILTER_I16:
	case KYMO_FILTER_LEN:
		return 2;
	case KYMO_FILTER_U32:
	case KYMO_FILTER_I32:
	case KYMO_FILTER_F32:
		return 4;
	case KYMO_FILTER_U64:
	case KYMO_FILTER_I64:
	case KYMO_FILTER_F64:
		return 8;
	default:
		return 1;
	}
}

/*
 * kymo_filter_select: the values, from least to most in an order of uint64_t, that an operation
 * selects. below and above are the constant itself, and differ for a float 0 only. Returns false
 * where there are none.
 */
bool kymo_filter_select(uint8_t op, uint64_t below, uint64_t above, uint64_t *least, uint64_t *most)
{
	switch (op) {
	case KYMO_FILTER_LT:
		if (below <= *least)
			return false;
		above = below - 1;
		below = *least;
		break;
	case KYMO_FILTER_LE:
		below = *least;
		break;
	case KYMO_FILTER_GT:
		if (above >= *most)
			return false;
		below = above + 1;
		above = *most;
		break;
	case KYMO_FILTER_GE:
		above = *most;
		break;
	}
	*least = below > *least ? below : *least;
	*most = above < *most ? above : *most;
	return *least <= *most;
}

static bool is_nan(uint64_t bits)
{
	return (bits & ~(1ull << 63)) > 0x7ffull << 52;
}

/* The bits of a float as those of a double, exactly. */
static uint64_t widen(uint32_t bits)
{
	uint64_t sign = (uint64_t)(bits >> 31) << 63, fraction = bits & 0x7fffff;
	uint64_t exponent = bits >> 23 & 0xff;

	if (exponent == 0xff) {
		exponent = 0x7ff;
	} else if (exponent) {
		exponent += 1023 - 127;
	} else if (fraction) {
		unsigned shift = (unsigned)__builtin_clzll(fraction) - 40;

		fraction = fraction << shift & 0x7fffff;
		exponent = 1023 - 127 + 1 - shift;
	}
	return sign | exponent << 52 | fraction << 29;
}

/* The float whose key is this, in its upper half, as the key of a double. */
static uint64_t widened_key(uint64_t upper)
{
	return kymo_float_key(widen((uint32_t)(kymo_float_unkey(upper << 32) >> 32)));
}

/* The least upper half of a float's key that is not below (above: the least that is above) key. */
static uint64_t first_float(uint64_t key, bool above)
{
	uint64_t from = kymo_float_key(0xff800000ull << 32) >> 32;
	uint64_t to = (kymo_float_key(0x7f800000ull << 32) >> 32) + 1;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;
		uint64_t here = widened_key(middle);

		if (above ? here > key : here >= key)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* A range of keys of doubles as one of floats, at the upper end of a word. */
static bool narrow(uint64_t *least, uint64_t *most)
{
	uint64_t from = first_float(*least, false), end = first_float(*most, true);

	if (from >= end)
		return false;
	*least = kymo_float_key(kymo_float_unkey(from << 32) >> 32 << 32);
	*most = kymo_float_key(kymo_float_unkey((end - 1) << 32) >> 32 << 32);
	return true;
}

static bool float_range(const struct kymo_filter_insn *insn, uint8_t type, uint64_t *least,
			uint64_t *most)
{
	uint64_t below = insn->imm, above = insn->imm;

	if (is_nan(insn->imm))
		return false;
	if (!(insn->imm << 1)) {
		below = 1ull << 63;
		above = 0;
	}
	*least = kymo_float_key(0xfffull << 52);
	*most = kymo_float_key(0x7ffull << 52);
	return kymo_filter_select(insn->op, kymo_float_key(below), kymo_float_key(above), least, most) &&
	       (type == KYMO_FILTER_F64 || narrow(least, most));
}

/* A bool is 0 or 1; in memory, every other byte is 1 too. */
static bool bool_range(const struct kymo_filter_insn *insn, uint64_t *least, uint64_t *most)
{
	*least = 0;
	*most = 1;
	if (!kymo_filter_select(insn->op, insn->imm, insn->imm, least, most))
		return false;
	*most = *most ? UINT8_MAX : 0;
	return true;
}

static bool integer_range(const struct kymo_filter_insn *insn, uint8_t type, uint64_t *least,
			  uint64_t *most)
{
	bool is_signed = type >= KYMO_FILTER_I8 && type <= KYMO_FILTER_I64;
	uint64_t bias = is_signed ? 1ull << 63 : 0;
	uint64_t largest = UINT64_MAX >> (64 - 8 * kymo_filter_width(type));
	uint64_t constant = insn->imm ^ bias;

	*least = is_signed ? bias - (largest >> 1) - 1 : 0;
	*most = is_signed ? bias + (largest >> 1) : largest;
	if (!kymo_filter_select(insn->op, constant, constant, least, most))
		return false;
	*least ^= bias;
	*most ^= bias;
	return true;
}

/*
 * kymo_filter_range: the values that an unmasked comparison with a number selects, from least to
 * most: floats by their keys (kymo_float_key), signed integers as they are in memory. Returns false
 * where there are none.
 */
bool kymo_filter_range(const struct kymo_filter_insn *insn, uint64_t *least, uint64_t *most)
{
	uint8_t type = insn->type & ~KYMO_FILTER_FLAGS;

	if (type == KYMO_FILTER_F32 || type == KYMO_FILTER_F64)
		return float_range(insn, type, least, most);
	if (type == KYMO_FILTER_BOOL)
		return bool_range(insn, least, most);
	return integer_range(insn, type, least, most);
}
