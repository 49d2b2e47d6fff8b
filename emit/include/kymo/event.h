/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * event.h: field types [event.md 1]. For each type a row of macros says which argument it takes,
 * how it is described, and how it is packed. Knows nothing of events as a whole; that is
 * tracepoint.h.
 *
 * KYMO__T_type gives a class and two parameters; KYMO__op_class(name, a, b) does the work:
 *	KYMO__ARG	the parameters of the typed function, each with a comma behind it
 *	KYMO__DESC	struct kymo_field
 *	KYMO__TEXT	the name, and the enumeration's name, for the description
 *	KYMO__FIXED	+ bytes of the part whose size is known (of a counted type: its length)
 *	KYMO__PIECES	+ number of parts whose size is not known
 *	KYMO__PACK	adds the field to words (classes without pieces only)
 *	KYMO__PUT	adds the field to a payload under construction
 * For the event's own sequence (tracepoint.h), where only the last field is a piece:
 *	KYMO__KIND	a letter: n for a number, p for a piece
 *	KYMO__MEMBER	the member of a packed structure that is laid out as the payload
 *	KYMO__WORD, KYMO__FILL		a member of kymo__fields, and setting it
 *	KYMO__MOVE, KYMO__MOVED		assembly that moves it into the record, and operands, with a comma in front
 *	KYMO__TAIL	finds out what a piece is: kymo__tail, kymo__tail_bytes, kymo__count
 *	KYMO__STAGE	as KYMO__PUT, behind KYMO__TAIL and without the piece
 */
#ifndef KYMO_EVENT_H
#define KYMO_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "foreach.h"
#include "ring.h"

/* Longest part of a string that is recorded, bytes. */
#define KYMO_STR_MAX 65000u

/*
 * Adds value, width bytes wide, at byte offset at of words, behind what stands there. Constants
 * fold away; the first part of a word is assigned, not or-ed, so that the compiler has nothing to
 * load.
 */
KYMO__INLINE void kymo__pack(uint64_t *words, unsigned at, uint64_t value, unsigned width)
{
	unsigned shift = at % 8 * 8;

	if (shift)
		words[at / 8] |= value << shift;
	else
		words[at / 8] = value;
	if (shift + width * 8 > 64)
		words[at / 8 + 1] = value >> (64 - shift);
}

/*
 * A payload under construction: fixed parts are staged in words, long parts stay where they are.
 * Each run of fixed parts begins a new word, so that the sequence reads words as they were stored.
 */
struct kymo__build {
	struct kymo_seg *segs;
	unsigned seg_count;
	uint64_t *words;
	unsigned at;	   /* end of the staged bytes */
	unsigned run;	   /* first staged byte that no segment covers yet */
	size_t last_count; /* the length that was put last */
	uint64_t bytes;
};

KYMO__INLINE void kymo__put(struct kymo__build *b, uint64_t value, unsigned width)
{
	kymo__pack(b->words, b->at, value, width);
	b->at += width;
	b->bytes += width;
}

KYMO__INLINE void kymo__put_run(struct kymo__build *b)
{
	b->segs[b->seg_count].at = (const uint8_t *)b->words + b->run;
	b->segs[b->seg_count].bytes = (b->at - b->run) | KYMO_SEG_STAGED;
	b->seg_count++;
	b->at = b->run = (b->at + 7) / 8 * 8;
}

KYMO__INLINE void kymo__put_tail(struct kymo__build *b, const void *at, size_t bytes)
{
	if (b->at != b->run)
		kymo__put_run(b);
	b->segs[b->seg_count].at = at;
	b->segs[b->seg_count].bytes = bytes;
	b->seg_count++;
	b->bytes += bytes;
}

KYMO__INLINE size_t kymo__put_count(struct kymo__build *b, size_t count)
{
	kymo__put(b, count & 0xffff, 2);
	return b->last_count = count;
}

KYMO__INLINE uint64_t kymo__f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

KYMO__INLINE uint64_t kymo__f64_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

KYMO__INLINE const char *kymo__str(const char *text)
{
	return text ? text : "(null)";
}

KYMO__INLINE size_t kymo__str_cut(size_t bytes)
{
	return bytes < KYMO_STR_MAX ? bytes : KYMO_STR_MAX;
}

KYMO__INLINE size_t kymo__str_bytes(const char *text)
{
	return kymo__str_cut(strlen(kymo__str(text)));
}

/* The low bytes of a number that may have been sign-extended. */
KYMO__INLINE uint64_t kymo__low(uint64_t value, size_t width)
{
	return width >= 8 ? value : value & ((1ull << width * 8) - 1);
}

/*
 * What a counted piece really has: nothing behind a null pointer. A count that does not fit its 16
 * bits makes the record too long, so that it is refused and counted, whatever the element is.
 */
KYMO__INLINE size_t kymo__seq_count(const void *at, size_t count)
{
	return at ? count : 0;
}

KYMO__INLINE size_t kymo__seq_bytes(size_t count, size_t element_bytes)
{
	return count > 65535 ? KYMO_RECORD_MAX : count * element_bytes;
}

/*
 * The number types of abi/types.h, which has their codes and bytes: class and name, C type, and the
 * bits of a value.
 */
#define KYMO__T_u8 num, u8, KYMO__INTEGER
#define KYMO__C_u8 uint8_t
#define KYMO__BITS_u8(v) ((uint64_t)(uint8_t)(v))
#define KYMO__T_u16 num, u16, KYMO__INTEGER
#define KYMO__C_u16 uint16_t
#define KYMO__BITS_u16(v) ((uint64_t)(uint16_t)(v))
#define KYMO__T_u32 num, u32, KYMO__INTEGER
#define KYMO__C_u32 uint32_t
#define KYMO__BITS_u32(v) ((uint64_t)(uint32_t)(v))
#define KYMO__T_u64 num, u64, KYMO__INTEGER
#define KYMO__C_u64 uint64_t
#define KYMO__BITS_u64(v) ((uint64_t)(uint64_t)(v))
#define KYMO__T_i8 num, i8, KYMO__INTEGER
#define KYMO__C_i8 int8_t
#define KYMO__BITS_i8(v) ((uint64_t)(uint8_t)(v))
#define KYMO__T_i16 num, i16, KYMO__INTEGER
#define KYMO__C_i16 int16_t
#define KYMO__BITS_i16(v) ((uint64_t)(uint16_t)(v))
#define KYMO__T_i32 num, i32, KYMO__INTEGER
#define KYMO__C_i32 int32_t
#define KYMO__BITS_i32(v) ((uint64_t)(uint32_t)(v))
#define KYMO__T_i64 num, i64, KYMO__INTEGER
#define KYMO__C_i64 int64_t
#define KYMO__BITS_i64(v) ((uint64_t)(uint64_t)(v))
#define KYMO__T_x8 num, x8, KYMO__INTEGER
#define KYMO__C_x8 uint8_t
#define KYMO__BITS_x8(v) ((uint64_t)(uint8_t)(v))
#define KYMO__T_x16 num, x16, KYMO__INTEGER
#define KYMO__C_x16 uint16_t
#define KYMO__BITS_x16(v) ((uint64_t)(uint16_t)(v))
#define KYMO__T_x32 num, x32, KYMO__INTEGER
#define KYMO__C_x32 uint32_t
#define KYMO__BITS_x32(v) ((uint64_t)(uint32_t)(v))
#define KYMO__T_x64 num, x64, KYMO__INTEGER
#define KYMO__C_x64 uint64_t
#define KYMO__BITS_x64(v) ((uint64_t)(uint64_t)(v))
#define KYMO__T_o32 num, o32, KYMO__INTEGER
#define KYMO__C_o32 uint32_t
#define KYMO__BITS_o32(v) ((uint64_t)(uint32_t)(v))
#define KYMO__T_f32 num, f32, 0
#define KYMO__C_f32 float
#define KYMO__BITS_f32(v) kymo__f32_bits(v)
#define KYMO__T_f64 num, f64, 0
#define KYMO__C_f64 double
#define KYMO__BITS_f64(v) kymo__f64_bits(v)
#define KYMO__T_bool num, bool, 0
#define KYMO__C_bool bool
#define KYMO__BITS_bool(v) ((v) ? 1u : 0u)
#define KYMO__T__Bool num, _Bool, 0
#define KYMO__C__Bool bool
#define KYMO__CODE__Bool KYMO_T_BOOL
#define KYMO__WIDTH__Bool 1
#define KYMO__BITS__Bool(v) ((v) ? 1u : 0u)

/* Other names of number types: those of stdint.h and C, and s32 for i32 as in kernel probes. */
#define KYMO__T_s8 num, i8, KYMO__INTEGER
#define KYMO__T_s16 num, i16, KYMO__INTEGER
#define KYMO__T_s32 num, i32, KYMO__INTEGER
#define KYMO__T_s64 num, i64, KYMO__INTEGER
#define KYMO__T_int8_t num, i8, KYMO__INTEGER
#define KYMO__T_int16_t num, i16, KYMO__INTEGER
#define KYMO__T_int32_t num, i32, KYMO__INTEGER
#define KYMO__T_int64_t num, i64, KYMO__INTEGER
#define KYMO__T_uint8_t num, u8, KYMO__INTEGER
#define KYMO__T_uint16_t num, u16, KYMO__INTEGER
#define KYMO__T_uint32_t num, u32, KYMO__INTEGER
#define KYMO__T_uint64_t num, u64, KYMO__INTEGER
#define KYMO__T_float num, f32, 0
#define KYMO__T_double num, f64, 0

#define KYMO__T_enum(...) KYMO__PARAMS(KYMO__ENUM_OF, __VA_ARGS__)
#define KYMO__T_str str, 0, 0
#define KYMO__T_bytes bytes, 0, 0
#define KYMO__T_array(...) KYMO__PARAMS(KYMO__ARRAY_OF, __VA_ARGS__)
#define KYMO__T_seq(...) KYMO__PARAMS(KYMO__SEQ_OF, __VA_ARGS__)

/*
 * Types with parameters. A wrong number of them, or an element that is no number, leaves a macro
 * that does not exist: one word instead of class and parameters, which KYMO__CHECK reports. The
 * name of an element is replaced by that of its row above.
 */
#define KYMO__PARAMS(of, ...) KYMO__PARAMS_1(of, KYMO__COUNT(__VA_ARGS__), __VA_ARGS__)
#define KYMO__PARAMS_1(of, count, ...) KYMO__PARAMS_2(of, count, __VA_ARGS__)
#define KYMO__PARAMS_2(of, count, ...) of##_##count(__VA_ARGS__)
#define KYMO__ENUM_OF_2(p, e) enum, p, e
#define KYMO__ARRAY_OF_2(T, N) KYMO__ELEMENT(array, N, KYMO__T_##T)
#define KYMO__SEQ_OF_1(T) KYMO__ELEMENT(seq, 0, KYMO__T_##T)
#define KYMO__ELEMENT(class_, N, ...) KYMO__ELEMENT_1(class_, N, __VA_ARGS__, 0, 0)
#define KYMO__ELEMENT_1(class_, N, element, T, ...) KYMO__ELEMENT_2(class_, N, element, T)
#define KYMO__ELEMENT_2(class_, N, element, T) KYMO__ELEMENT_##element(class_, T, N)
#define KYMO__ELEMENT_num(class_, T, N) class_, T, N

/* Operands of the event's own sequence: where a value is in kymo__fields, and its place in the record. */
#define KYMO__FROM(n) , [from_##n] "i"(offsetof(struct kymo__words, n))
#define KYMO__PLACE(n) , [at_##n] "i"(KYMO__BEFORE_PAYLOAD + offsetof(struct kymo__layout, n))

/* Class num: one number of type T. */
#define KYMO__ARG_num(n, T, _) KYMO__C_##T n,
#define KYMO__DESC_num(n, T, _) { KYMO__CODE_##T, 0, 0, 0, 0 },
#define KYMO__TEXT_num(n, T, _) "\0" #n "\0"
#define KYMO__FIXED_num(n, T, _) +KYMO__WIDTH_##T
#define KYMO__PIECES_num(n, T, _)
#define KYMO__PACK_num(n, T, _)                                                                    \
	kymo__pack(kymo__words, kymo__at, KYMO__BITS_##T(n), KYMO__WIDTH_##T);                     \
	kymo__at += KYMO__WIDTH_##T;
#define KYMO__PUT_num(n, T, _) kymo__put(&kymo__b, KYMO__BITS_##T(n), KYMO__WIDTH_##T);
#define KYMO__KIND_num(n, T, _) "n"
#define KYMO__MEMBER_num(n, T, _) KYMO__C_##T n;
#define KYMO__MOVE_num(n, T, _) KYMO__SEQ_FIELD(n)
#define KYMO__WORD_num(n, T, _) uint64_t n;
#define KYMO__FILL_num(n, T, _) kymo__fields.n = KYMO__BITS_##T(n);
#define KYMO__MOVED_num(n, T, _) KYMO__FROM(n) KYMO__PLACE(n)
#define KYMO__TAIL_num(n, T, _)
#define KYMO__STAGE_num(n, T, _) KYMO__PUT_num(n, T, _)

/* Class enum: an integer labelled by KYMO_ENUM(p, e, ...). */
#define KYMO__ARG_enum(n, p, e) kymo__enum_##p##_##e n,
#define KYMO__DESC_enum(n, p, e) { kymo__enumcode_##p##_##e, 0, 1, 0, 0 },
#define KYMO__TEXT_enum(n, p, e) "\0" #n "\0" #p ":" #e
#define KYMO__FIXED_enum(n, p, e) +sizeof(kymo__enum_##p##_##e)
#define KYMO__PIECES_enum(n, p, e)
#define KYMO__PACK_enum(n, p, e)                                                                   \
	kymo__pack(kymo__words, kymo__at, kymo__low((uint64_t)(n), sizeof(n)), sizeof(n));         \
	kymo__at += (unsigned)sizeof(n);
#define KYMO__PUT_enum(n, p, e)                                                                    \
	kymo__put(&kymo__b, kymo__low((uint64_t)(n), sizeof(n)), sizeof(n));
#define KYMO__KIND_enum(n, p, e) "n"
#define KYMO__MEMBER_enum(n, p, e) kymo__enum_##p##_##e n;
#define KYMO__MOVE_enum(n, p, e) KYMO__SEQ_FIELD(n)
#define KYMO__WORD_enum(n, p, e) uint64_t n;
#define KYMO__FILL_enum(n, p, e) kymo__fields.n = (uint64_t)(n);
#define KYMO__MOVED_enum(n, p, e) KYMO__FROM(n) KYMO__PLACE(n)
#define KYMO__TAIL_enum(n, p, e)
#define KYMO__STAGE_enum(n, p, e) KYMO__PUT_enum(n, p, e)

/* Class str: a terminated string, written with its length. */
#define KYMO__ARG_str(n, a, b) const char *n,
#define KYMO__DESC_str(n, a, b) { KYMO_T_STR, 0, 0, 0, 0 },
#define KYMO__TEXT_str(n, a, b) "\0" #n "\0"
#define KYMO__FIXED_str(n, a, b) +2
#define KYMO__PIECES_str(n, a, b) +1
#define KYMO__PACK_str(n, a, b)
#define KYMO__PUT_str(n, a, b)                                                                     \
	kymo__put_count(&kymo__b, kymo__str_bytes(n));                                             \
	kymo__put_tail(&kymo__b, kymo__str(n), kymo__b.last_count);
#define KYMO__KIND_str(n, a, b) "p"
#define KYMO__MEMBER_str(n, a, b) uint16_t n;
#define KYMO__WORD_str(n, a, b)
#define KYMO__FILL_str(n, a, b)
#define KYMO__MOVE_str(n, a, b) KYMO__SEQ_COUNT(n)
#define KYMO__MOVED_str(n, a, b) KYMO__PLACE(n)
#define KYMO__TAIL_str(n, a, b)                                                            \
	kymo__tail = kymo__str(n);                                                         \
	kymo__tail_bytes = kymo__count = strlen(kymo__str(n));
#define KYMO__STAGE_str(n, a, b)                                                                   \
	kymo__tail_bytes = kymo__put_count(&kymo__b, kymo__str_cut(kymo__tail_bytes));

/* Class bytes: a pointer and a length. */
#define KYMO__ARG_bytes(n, a, b) const void *n, size_t n##_bytes,
#define KYMO__DESC_bytes(n, a, b) { KYMO_T_BYTES, 0, 0, 0, 0 },
#define KYMO__TEXT_bytes(n, a, b) "\0" #n "\0"
#define KYMO__FIXED_bytes(n, a, b) +2
#define KYMO__PIECES_bytes(n, a, b) +1
#define KYMO__PACK_bytes(n, a, b)
#define KYMO__PUT_bytes(n, a, b)                                                                   \
	kymo__put_count(&kymo__b, kymo__seq_count(n, n##_bytes));                                    \
	kymo__put_tail(&kymo__b, n, kymo__seq_bytes(kymo__b.last_count, 1));
#define KYMO__KIND_bytes(n, a, b) "p"
#define KYMO__MEMBER_bytes(n, a, b) uint16_t n;
#define KYMO__WORD_bytes(n, a, b)
#define KYMO__FILL_bytes(n, a, b)
#define KYMO__MOVE_bytes(n, a, b) KYMO__SEQ_COUNT(n)
#define KYMO__MOVED_bytes(n, a, b) KYMO__PLACE(n)
#define KYMO__TAIL_bytes(n, a, b)                                                          \
	kymo__tail = n;                                                                    \
	kymo__count = kymo__seq_count(n, n##_bytes);                                       \
	kymo__tail_bytes = kymo__seq_bytes(kymo__count, 1);
#define KYMO__STAGE_bytes(n, a, b) kymo__put_count(&kymo__b, kymo__count);

/* Class array: N numbers of type T. */
#define KYMO__ARG_array(n, T, N) const KYMO__C_##T *n,
#define KYMO__DESC_array(n, T, N) { KYMO_T_ARRAY, KYMO__CODE_##T, 0, 0, N },
#define KYMO__TEXT_array(n, T, N) "\0" #n "\0"
#define KYMO__FIXED_array(n, T, N)
#define KYMO__PIECES_array(n, T, N) +1
#define KYMO__PACK_array(n, T, N)
#define KYMO__PUT_array(n, T, N)                                                                   \
	kymo__put_tail(&kymo__b, n ? (const void *)n : kymo__module.rt->zeros,                            \
		       (size_t)(N)*KYMO__WIDTH_##T);
#define KYMO__KIND_array(n, T, N) "p"
#define KYMO__MEMBER_array(n, T, N)
#define KYMO__WORD_array(n, T, N)
#define KYMO__FILL_array(n, T, N)
#define KYMO__MOVE_array(n, T, N)
#define KYMO__MOVED_array(n, T, N)
#define KYMO__TAIL_array(n, T, N)                                                          \
	kymo__tail = n ? (const void *)n : kymo__module.rt->zeros;                         \
	kymo__tail_bytes = (size_t)(N)*KYMO__WIDTH_##T;
#define KYMO__STAGE_array(n, T, N)

/* Class seq: a pointer to numbers of type T, and their count. */
#define KYMO__ARG_seq(n, T, _) const KYMO__C_##T *n, size_t n##_count,
#define KYMO__DESC_seq(n, T, _) { KYMO_T_SEQ, KYMO__CODE_##T, 0, 0, 0 },
#define KYMO__TEXT_seq(n, T, _) "\0" #n "\0"
#define KYMO__FIXED_seq(n, T, _) +2
#define KYMO__PIECES_seq(n, T, _) +1
#define KYMO__PACK_seq(n, T, _)
#define KYMO__PUT_seq(n, T, _)                                                                     \
	kymo__put_count(&kymo__b, kymo__seq_count(n, n##_count));                                    \
	kymo__put_tail(&kymo__b, n,                                                                \
		       kymo__seq_bytes(kymo__b.last_count, KYMO__WIDTH_##T));
#define KYMO__KIND_seq(n, T, _) "p"
#define KYMO__MEMBER_seq(n, T, _) uint16_t n;
#define KYMO__WORD_seq(n, T, _) uint64_t n;
#define KYMO__FILL_seq(n, T, _) kymo__fields.n = kymo__count;
#define KYMO__MOVE_seq(n, T, _) KYMO__SEQ_FIELD(n)
#define KYMO__MOVED_seq(n, T, _) KYMO__FROM(n) KYMO__PLACE(n)
#define KYMO__TAIL_seq(n, T, _)                                                            \
	kymo__tail = n;                                                                    \
	kymo__count = kymo__seq_count(n, n##_count);                                       \
	kymo__tail_bytes = kymo__seq_bytes(kymo__count, KYMO__WIDTH_##T);
#define KYMO__STAGE_seq(n, T, _) kymo__put_count(&kymo__b, kymo__count);

/* KYMO__FIELD(op, (type, name)): KYMO__op_class(name, a, b). */
#define KYMO__FIELD(op, field) KYMO__FIELD_1(op, KYMO__UNPAREN field)
#define KYMO__FIELD_1(op, ...) KYMO__FIELD_2(op, __VA_ARGS__)
#define KYMO__FIELD_2(op, type, name) KYMO__FIELD_3(op, name, KYMO__T_##type)
#define KYMO__FIELD_3(op, name, ...) KYMO__FIELD_4(op, name, __VA_ARGS__)
#define KYMO__FIELD_4(op, name, class_, a, b) KYMO__##op##_##class_(name, a, b)
#define KYMO__UNPAREN(...) __VA_ARGS__

/*
 * KYMO__CHECK(op, (type, name)): nothing for a field that is right; else KYMO__WRONG_op(its text).
 * KYMO__ARE_RIGHT(fields): RIGHT or WRONG.
 */
#define KYMO__CHECK(op, field) KYMO__CHECK_1(op, KYMO__UNPAREN field)
#define KYMO__CHECK_1(op, ...) KYMO__CHECK_2(op, KYMO__COUNT(__VA_ARGS__), __VA_ARGS__)
#define KYMO__CHECK_2(op, count, ...) KYMO__CHECK_3(op, count, __VA_ARGS__)
#define KYMO__CHECK_3(op, count, ...) KYMO__CHECK_PARTS_##count(op, __VA_ARGS__)
#define KYMO__CHECK_PARTS_1(op, ...) KYMO__WRONG_##op(#__VA_ARGS__)
#define KYMO__CHECK_PARTS_2(op, type, name) KYMO__CHECK_4(op, #type " " #name, KYMO__T_##type)
#define KYMO__CHECK_PARTS_3(op, ...) KYMO__WRONG_##op(#__VA_ARGS__)
#define KYMO__CHECK_PARTS_4(op, ...) KYMO__WRONG_##op(#__VA_ARGS__)
#define KYMO__CHECK_4(op, text, ...) KYMO__CHECK_5(op, text, KYMO__COUNT(__VA_ARGS__))
#define KYMO__CHECK_5(op, text, count) KYMO__CHECK_6(op, text, count)
#define KYMO__CHECK_6(op, text, count) KYMO__CHECK_TYPE_##count(op, text)
#define KYMO__CHECK_TYPE_1(op, text) KYMO__WRONG_##op(text)
#define KYMO__CHECK_TYPE_2(op, text) KYMO__WRONG_##op(text)
#define KYMO__CHECK_TYPE_3(op, text)
#define KYMO__CHECK_TYPE_4(op, text) KYMO__WRONG_##op(text)
#define KYMO__WRONG_FLAG(text) , WRONG
#define KYMO__WRONG_TEXT(text) " (" text ")"
#define KYMO__ARE_RIGHT(...) KYMO__SECOND(0 KYMO__EACH(KYMO__CHECK, FLAG, __VA_ARGS__), RIGHT, 0)
#define KYMO__SECOND(...) KYMO__SECOND_1(__VA_ARGS__)
#define KYMO__SECOND_1(a, b, ...) b

#endif
