/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tasks.c: two tasks that are switched at any instruction, by the lowest exception: enough of a
 * scheduler to show tracing under one.
 */
#include "board.h"

#define STACK_WORDS 512u
#define FRAME_WORDS 16u /* r4 to r11, then what an exception keeps */
#define SYSTEM_STATE (*(volatile uint32_t *)0xe000ed04u)
#define SWITCH_PENDING (1u << 28)

static uint32_t stacks[2][STACK_WORDS] __attribute__((aligned(8)));
static uint32_t *stopped_at[2];
static volatile uint32_t current, is_running;

uint32_t task_number(void)
{
	return is_running ? current + 1 : 0;
}

void task_switch_soon(void)
{
	if (is_running)
		SYSTEM_STATE = SWITCH_PENDING;
}

void task_yield(void)
{
	task_switch_soon();
	__asm__ __volatile__("dsb\n\tisb" : : : "memory");
}

/* The stack of the one that goes on. */
__attribute__((used)) static uint32_t *choose(uint32_t *stopped)
{
	stopped_at[current] = stopped;
	current ^= 1;
	return stopped_at[current];
}

void pendsv(void);
__attribute__((naked)) void pendsv(void)
{
	__asm__ __volatile__("mrs r0, psp\n\t"
			     "stmdb r0!, {r4-r11}\n\t"
			     "push {r3, lr}\n\t"
			     "bl choose\n\t"
			     "pop {r3, lr}\n\t"
			     "ldmia r0!, {r4-r11}\n\t"
			     "msr psp, r0\n\t"
			     "bx lr");
}

static void ended(void)
{
	for (;;)
		task_yield();
}

/* As if the task had been interrupted in front of its first instruction. */
static uint32_t *prepare(uint32_t *stack, void (*task)(void))
{
	uint32_t *frame = stack + STACK_WORDS - FRAME_WORDS;

	for (uint32_t i = 0; i < FRAME_WORDS; i++)
		frame[i] = 0;
	frame[13] = (uint32_t)(uintptr_t)ended;
	frame[14] = (uint32_t)(uintptr_t)task & ~1u;
	frame[15] = 1u << 24;
	return frame;
}

/* On the first task's own stack: only now may anybody be switched. */
__attribute__((used, noreturn)) static void start(void (*first)(void))
{
	is_running = 1;
	first();
	for (;;)
		ended();
}

void tasks_run(void (*first)(void), void (*second)(void))
{
	stopped_at[1] = prepare(stacks[1], second);
	__asm__ __volatile__("mov r0, %1\n\t"
			     "msr psp, %0\n\t"
			     "movs r1, #2\n\t"
			     "msr control, r1\n\t"
			     "isb\n\t"
			     "bl start"
			     :
			     : "r"(stacks[0] + STACK_WORDS), "r"(first)
			     : "r0", "r1", "memory");
}
