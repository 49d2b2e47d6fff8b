/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * foreach.h: applies a macro to each of up to 32 arguments. The last argument is a sentinel, so
 * that the list is never empty and no compiler extension is needed. Pure preprocessor.
 */
#ifndef KYMO_FOREACH_H
#define KYMO_FOREACH_H

/* KYMO__EACH(m, op, x1, ..., sentinel): m(op, x1) m(op, x2) ... */
#define KYMO__EACH(m, op, ...) KYMO__CAT(KYMO__EACH_, KYMO__COUNT(__VA_ARGS__))(m, op, __VA_ARGS__)

#define KYMO__CAT(a, b) KYMO__CAT_1(a, b)
#define KYMO__CAT_1(a, b) a##b

#define KYMO__COUNT(...) \
	KYMO__COUNT_1(__VA_ARGS__, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, \
	19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define KYMO__COUNT_1( \
	_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, \
	_19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, _33, n, ...) n

/* KYMO__IS_SHORT(x1, ..., sentinel): SHORT for up to 10 and the sentinel, LONG for more. */
#define KYMO__IS_SHORT(...) \
	KYMO__COUNT_1(__VA_ARGS__, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, \
	LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, SHORT, SHORT, SHORT, \
	SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, 0)

/* KYMO__FITS(x1, ..., sentinel): FEW for what KYMO__EACH can do, MANY for up to twice as much. */
#define KYMO__FITS(...) \
	KYMO__FITS_1(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, MANY, MANY, MANY, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, \
	FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, FEW, \
	FEW, FEW, FEW, FEW, 0)
#define KYMO__FITS_1( \
	_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, \
	_19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, _33, _34, _35, _36, \
	_37, _38, _39, _40, _41, _42, _43, _44, _45, _46, _47, _48, _49, _50, _51, _52, _53, _54, \
	_55, _56, _57, _58, _59, _60, _61, _62, _63, _64, _65, n, ...) n

#define KYMO__EACH_1(m, op, last)
#define KYMO__EACH_2(m, op, x, ...) m(op, x) KYMO__EACH_1(m, op, __VA_ARGS__)
#define KYMO__EACH_3(m, op, x, ...) m(op, x) KYMO__EACH_2(m, op, __VA_ARGS__)
#define KYMO__EACH_4(m, op, x, ...) m(op, x) KYMO__EACH_3(m, op, __VA_ARGS__)
#define KYMO__EACH_5(m, op, x, ...) m(op, x) KYMO__EACH_4(m, op, __VA_ARGS__)
#define KYMO__EACH_6(m, op, x, ...) m(op, x) KYMO__EACH_5(m, op, __VA_ARGS__)
#define KYMO__EACH_7(m, op, x, ...) m(op, x) KYMO__EACH_6(m, op, __VA_ARGS__)
#define KYMO__EACH_8(m, op, x, ...) m(op, x) KYMO__EACH_7(m, op, __VA_ARGS__)
#define KYMO__EACH_9(m, op, x, ...) m(op, x) KYMO__EACH_8(m, op, __VA_ARGS__)
#define KYMO__EACH_10(m, op, x, ...) m(op, x) KYMO__EACH_9(m, op, __VA_ARGS__)
#define KYMO__EACH_11(m, op, x, ...) m(op, x) KYMO__EACH_10(m, op, __VA_ARGS__)
#define KYMO__EACH_12(m, op, x, ...) m(op, x) KYMO__EACH_11(m, op, __VA_ARGS__)
#define KYMO__EACH_13(m, op, x, ...) m(op, x) KYMO__EACH_12(m, op, __VA_ARGS__)
#define KYMO__EACH_14(m, op, x, ...) m(op, x) KYMO__EACH_13(m, op, __VA_ARGS__)
#define KYMO__EACH_15(m, op, x, ...) m(op, x) KYMO__EACH_14(m, op, __VA_ARGS__)
#define KYMO__EACH_16(m, op, x, ...) m(op, x) KYMO__EACH_15(m, op, __VA_ARGS__)
#define KYMO__EACH_17(m, op, x, ...) m(op, x) KYMO__EACH_16(m, op, __VA_ARGS__)
#define KYMO__EACH_18(m, op, x, ...) m(op, x) KYMO__EACH_17(m, op, __VA_ARGS__)
#define KYMO__EACH_19(m, op, x, ...) m(op, x) KYMO__EACH_18(m, op, __VA_ARGS__)
#define KYMO__EACH_20(m, op, x, ...) m(op, x) KYMO__EACH_19(m, op, __VA_ARGS__)
#define KYMO__EACH_21(m, op, x, ...) m(op, x) KYMO__EACH_20(m, op, __VA_ARGS__)
#define KYMO__EACH_22(m, op, x, ...) m(op, x) KYMO__EACH_21(m, op, __VA_ARGS__)
#define KYMO__EACH_23(m, op, x, ...) m(op, x) KYMO__EACH_22(m, op, __VA_ARGS__)
#define KYMO__EACH_24(m, op, x, ...) m(op, x) KYMO__EACH_23(m, op, __VA_ARGS__)
#define KYMO__EACH_25(m, op, x, ...) m(op, x) KYMO__EACH_24(m, op, __VA_ARGS__)
#define KYMO__EACH_26(m, op, x, ...) m(op, x) KYMO__EACH_25(m, op, __VA_ARGS__)
#define KYMO__EACH_27(m, op, x, ...) m(op, x) KYMO__EACH_26(m, op, __VA_ARGS__)
#define KYMO__EACH_28(m, op, x, ...) m(op, x) KYMO__EACH_27(m, op, __VA_ARGS__)
#define KYMO__EACH_29(m, op, x, ...) m(op, x) KYMO__EACH_28(m, op, __VA_ARGS__)
#define KYMO__EACH_30(m, op, x, ...) m(op, x) KYMO__EACH_29(m, op, __VA_ARGS__)
#define KYMO__EACH_31(m, op, x, ...) m(op, x) KYMO__EACH_30(m, op, __VA_ARGS__)
#define KYMO__EACH_32(m, op, x, ...) m(op, x) KYMO__EACH_31(m, op, __VA_ARGS__)
#define KYMO__EACH_33(m, op, x, ...) m(op, x) KYMO__EACH_32(m, op, __VA_ARGS__)

#endif
