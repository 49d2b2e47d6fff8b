/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * unwind_plugin.c: a library that unwind.c loads and unloads: calls back from nested frames. PLUGIN: bytes of a
 * frame, so that two libraries have different tables; PLUGIN_MORE makes it longer.
 */
#include <alloca.h>
#include <stddef.h>

typedef void leaf(void);
void unwind_enter(leaf *inner, int depth);

static __attribute__((noinline, noclone)) void nested(leaf *inner, int depth, volatile char *below)
{
	volatile char here[PLUGIN];

	here[0] = below[0];
	if (depth)
		nested(inner, depth - 1, here);
	else
		inner();
	__asm__ __volatile__("" ::: "memory");
}

#ifdef PLUGIN_MORE
#define MORE(name)                                                                                 \
	__attribute__((noinline, noclone)) void name(leaf *inner, int depth);                      \
	__attribute__((noinline, noclone)) void name(leaf *inner, int depth)                       \
	{                                                                                          \
		volatile char *here = alloca((size_t)depth * 16 + 16);                             \
                                                                                                   \
		here[0] = 1;                                                                       \
		nested(inner, depth, here);                                                        \
		__asm__ __volatile__("" ::: "memory");                                             \
	}
MORE(unwind_more_1)
MORE(unwind_more_2)
MORE(unwind_more_3)
#endif

void unwind_enter(leaf *inner, int depth)
{
#ifdef PLUGIN_MORE
	unwind_more_1(inner, depth);
	unwind_more_3(inner, depth / 2);
#else
	volatile char here[8] = { 0 };

	nested(inner, depth, here);
#endif
	__asm__ __volatile__("" ::: "memory");
}
