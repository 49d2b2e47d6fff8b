/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * check.h: compile-time checks of the layouts that cross a process boundary.
 * Nothing here exists at run time.
 */
#ifndef KYMO_ABI_CHECK_H
#define KYMO_ABI_CHECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KYMO_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define KYMO_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#define KYMO_CHECK_SIZE(type, bytes) \
	KYMO_STATIC_ASSERT(sizeof(type) == (bytes), #type " must be " #bytes " bytes")
#define KYMO_CHECK_OFFSET(type, field, bytes) \
	KYMO_STATIC_ASSERT(offsetof(type, field) == (bytes), \
			   #type "." #field " must be at byte " #bytes)

/* The version of everything under abi/. Any change of a layout or of a meaning raises it. */
#define KYMO_ABI_VERSION 3u

#endif
