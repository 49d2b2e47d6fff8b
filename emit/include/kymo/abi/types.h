/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * types.h: the types of one number, each with its code in a description and its bytes in a record.
 * Its mirror is the table in host/kymo-abi/src/desc/scalar.rs, its C side event.h. Codes are never
 * given again. docs/extending.md says what a new type needs.
 */
#ifndef KYMO_ABI_TYPES_H
#define KYMO_ABI_TYPES_H

/* row(name in a declaration, name in KYMO_T_name, code up to 31, bytes) */
#define KYMO_SCALARS(row)                                                                          \
	row(u8, U8, 1, 1)                                                                          \
	row(u16, U16, 2, 2)                                                                        \
	row(u32, U32, 3, 4)                                                                        \
	row(u64, U64, 4, 8)                                                                        \
	row(i8, I8, 5, 1)                                                                          \
	row(i16, I16, 6, 2)                                                                        \
	row(i32, I32, 7, 4)                                                                        \
	row(i64, I64, 8, 8)                                                                        \
	row(x8, X8, 9, 1)                                                                          \
	row(x16, X16, 10, 2)                                                                       \
	row(x32, X32, 11, 4)                                                                       \
	row(x64, X64, 12, 8)                                                                       \
	row(f32, F32, 13, 4)                                                                       \
	row(f64, F64, 14, 8)                                                                       \
	row(bool, BOOL, 15, 1)                                                                     \
	row(o32, O32, 16, 4)

/* KYMO_T_U8 and so on; KYMO__CODE_u8 is the same, KYMO__WIDTH_u8 the bytes, for macros that have the name of a type. */
#define KYMO__SCALAR_CODE(name, upper, code, bytes) KYMO_T_##upper = code, KYMO__CODE_##name = code,
#define KYMO__SCALAR_WIDTH(name, upper, code, bytes) KYMO__WIDTH_##name = bytes,

enum kymo_type {
	KYMO_SCALARS(KYMO__SCALAR_CODE)
	KYMO_T_STR = 32,   /* u16 bytes, then that many bytes of UTF-8, no terminator */
	KYMO_T_BYTES = 33, /* u16 bytes, then that many bytes */
	KYMO_T_ARRAY = 34, /* count elements */
	KYMO_T_SEQ = 35,   /* u16 elements, then that many elements */
};

enum kymo__width { KYMO_SCALARS(KYMO__SCALAR_WIDTH) };

#endif
