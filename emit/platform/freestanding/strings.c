/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * strings.c: the few functions of a C library that the units call, and those that a compiler calls
 * by itself. Weak: the program's own are taken where it has some.
 */
#include "strings.h"

#define WEAK __attribute__((weak))
/* A loop that copies must not become a call of itself. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

WEAK void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	char *at = to;
	const char *source = from;

	while (bytes--)
		*at++ = *source++;
	return to;
}

WEAK void *memset(void *to, int byte, size_t bytes)
{
	char *at = to;

	while (bytes--)
		*at++ = (char)byte;
	return to;
}

WEAK size_t strnlen(const char *text, size_t most)
{
	size_t length = 0;

	while (length < most && text[length])
		length++;
	return length;
}

WEAK size_t strlen(const char *text)
{
	return strnlen(text, (size_t)-1);
}

WEAK int strncmp(const char *a, const char *b, size_t most)
{
	for (; most && *a && *a == *b; most--) {
		a++;
		b++;
	}
	return most ? (unsigned char)*a - (unsigned char)*b : 0;
}

WEAK int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, (size_t)-1);
}

#if defined(__ARM_ARCH) && __ARM_ARCH_ISA_THUMB == 1
/* A product of 64 bits, which ARMv6-M has no instruction for: from products of 16 bits. */
unsigned long long __aeabi_lmul(unsigned long long a, unsigned long long b);
WEAK unsigned long long __aeabi_lmul(unsigned long long a, unsigned long long b)
{
	unsigned a_low = (unsigned)a, b_low = (unsigned)b;
	unsigned low = (a_low & 0xffff) * (b_low & 0xffff);
	unsigned mixed_a = (a_low >> 16) * (b_low & 0xffff) + (low >> 16);
	unsigned mixed_b = (a_low & 0xffff) * (b_low >> 16) + (mixed_a & 0xffff);
	unsigned high = (a_low >> 16) * (b_low >> 16) + (mixed_a >> 16) + (mixed_b >> 16);

	high += (unsigned)(a >> 32) * b_low + a_low * (unsigned)(b >> 32);
	return (unsigned long long)high << 32 | mixed_b << 16 | (low & 0xffff);
}
#endif
