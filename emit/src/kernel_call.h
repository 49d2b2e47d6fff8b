/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kernel_call.h: a system call that calls.c does not see. */
#ifndef KYMO_KERNEL_CALL_H
#define KYMO_KERNEL_CALL_H

#include "internal.h"

#if KYMO_ARCH_SEQUENCE

/* Straight to the kernel: libc's syscall is replaced by calls.c. Returns as the kernel does. */
static inline long kymo_kernel_call(long number, const long *args)
{
#if KYMO_ARCH_AARCH64
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = args[0];
	register long x1 __asm__("x1") = args[1];
	register long x2 __asm__("x2") = args[2];
	register long x3 __asm__("x3") = args[3];
	register long x4 __asm__("x4") = args[4];
	register long x5 __asm__("x5") = args[5];

	__asm__ __volatile__("svc #0"
			     : "+r"(x0)
			     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			     : "memory", "cc");
	return x0;
#else
	register long r10 __asm__("r10") = args[3];
	register long r8 __asm__("r8") = args[4];
	register long r9 __asm__("r9") = args[5];
	long result = number;

	__asm__ __volatile__("syscall"
			     : "+a"(result)
			     : "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return result;
#endif
}

#endif
#endif
