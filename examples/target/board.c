/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * board.c: a Cortex-M3 as QEMU's mps2-an385 has it: start, vectors, tick, serial line (CMSDK UART
 * 0), and what libkymo-posix wants of a board [kymo/target.h].
 */
#include <kymo/target.h>

#include "board.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define UART_DATA REGISTER(0x40004000)
#define UART_STATE REGISTER(0x40004004)
#define UART_CONTROL REGISTER(0x40004008)
#define UART_INTERRUPT REGISTER(0x4000400c)
#define UART_DIVIDER REGISTER(0x40004010)
#define UART_STATE_SENDING 1u
#define UART_CONTROL_SEND_RECEIVE 3u
#define UART_CONTROL_RECEIVE_INTERRUPT 8u
#define UART_INTERRUPT_RECEIVE 2u
#define BAUD 115200u

#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_VALUE REGISTER(0xe000e018)
#define SYSTICK_ON 7u /* counts the processor's clock, and interrupts */
#define NVIC_ENABLE REGISTER(0xe000e100)
#define SYSTEM_STATE REGISTER(0xe000ed04)
#define SYSTEM_STATE_TICK_PENDING (1u << 26)
#define SYSTEM_PRIORITY_3 REGISTER(0xe000ed20)

#define TICK_COUNTS (CLOCK_HZ / TICK_HZ)
#define STARTS_MAGIC 0x73747274u

const uint32_t kymo_target_hz = CLOCK_HZ;

extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[], stack_end[];
static volatile uint32_t ticks;

/* How often it has started since it has power: RAM that is not cleared, where the magic says so. */
static struct {
	uint32_t magic, count;
} starts __attribute__((section(".noinit")));

int main(void);
void pendsv(void); /* tasks.c */

/*
 * Cycles since the start. The tick may be due and not counted yet: then VALUE has begun anew, unless
 * it is 0, which is the end of the time before.
 */
uint64_t kymo_target_clock(void)
{
	uint32_t before, value, is_due;

	do {
		before = ticks;
		value = SYSTICK_VALUE;
		is_due = SYSTEM_STATE & SYSTEM_STATE_TICK_PENDING;
		if (is_due)
			value = SYSTICK_VALUE;
	} while (before != ticks);
	return (uint64_t)(before + (is_due && value ? 1 : 0)) * TICK_COUNTS +
	       (TICK_COUNTS - 1 - value);
}

uint32_t kymo_target_boot(void)
{
	return starts.count;
}

/* An interrupt's number, else the task's. */
uint32_t kymo_target_thread(void)
{
	uint32_t number;

	__asm__ __volatile__("mrs %0, ipsr" : "=r"(number));
	return number ? 0x100 + number : task_number();
}

void kymo_target_pause(void)
{
	board_sleep();
}

size_t kymo_target_write(const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	size_t done = 0;

	while (done < count && !(UART_STATE & UART_STATE_SENDING))
		UART_DATA = at[done++];
	return done;
}

uint32_t board_ticks(void)
{
	return ticks;
}

void board_sleep(void)
{
	__asm__ __volatile__("wfi");
}

/* Semihosting: "application exit". Without a debugger or a simulator this is a fault; then wait. */
void board_end(void)
{
	register uint32_t what __asm__("r0") = 0x18, why __asm__("r1") = 0x20026;

	__asm__ __volatile__("bkpt 0xab" : : "r"(what), "r"(why) : "memory");
	for (;;)
		board_sleep();
}

static void tick(void)
{
	ticks++;
	on_tick();
}

static void uart_received(void)
{
	UART_INTERRUPT = UART_INTERRUPT_RECEIVE;
	kymo_target_asked((uint8_t)UART_DATA);
}

static void stop(void)
{
	for (;;)
		;
}

void board_begin(void)
{
	UART_DIVIDER = CLOCK_HZ / BAUD;
	UART_CONTROL = UART_CONTROL_SEND_RECEIVE | UART_CONTROL_RECEIVE_INTERRUPT;
	NVIC_ENABLE = 1; /* UART 0 received */
	SYSTEM_PRIORITY_3 = 0x40ff0000; /* switching tasks comes last, behind the tick */
	SYSTICK_RELOAD = TICK_COUNTS - 1;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = SYSTICK_ON;
	/* It begins at 0, as if a tick were over. */
	while (!SYSTICK_VALUE)
		;
}

void reset(void);
void reset(void)
{
	uint32_t *from = data_from;

	for (uint32_t *to = data_begin; to < data_end; to++)
		*to = *from++;
	for (uint32_t *to = bss_begin; to < bss_end; to++)
		*to = 0;
	if (starts.magic != STARTS_MAGIC)
		starts.count = 0;
	starts.magic = STARTS_MAGIC;
	starts.count++;
	main();
	stop();
}

/* Stack, reset, faults, system calls, tick, then the board's own. */
typedef void (*vector)(void);
__attribute__((section(".vectors"), used)) static const vector vectors[16 + 32] = {
	[0] = (vector)stack_end, [1] = reset, [2] = stop, [3] = stop, [4] = stop, [5] = stop,
	[6] = stop, [11] = stop, [12] = stop, [14] = pendsv, [15] = tick, [16] = uart_received,
};
