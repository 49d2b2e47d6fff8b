/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* addresses_lib.c: a library without tracepoints, which calls whoever loads it. */
#include <stdint.h>

void library_call(void (*back)(uint32_t), uint32_t n);

__attribute__((noinline)) static void library_inner(void (*back)(uint32_t), uint32_t n)
{
	back(n);
	__asm__ volatile("" ::: "memory");
}

void library_call(void (*back)(uint32_t), uint32_t n)
{
	library_inner(back, n);
	__asm__ volatile("" ::: "memory");
}
