/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* board.h: the few parts of the board that the example uses. */
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_HZ 25000000u
#define TICK_HZ 1000u

/* board_begin: the tick runs and the line is open. */
void board_begin(void);
/* Milliseconds since then. Context: any. */
uint32_t board_ticks(void);
/* board_sleep: until an interrupt. */
void board_sleep(void);
/* board_end: stops the simulator, where there is one. */
void board_end(void);

/* The program's part of interrupts. */
void on_tick(void);

/* tasks.c: two tasks on a core, each with a stack; switched by a timer as well as by themselves. */
void tasks_run(void (*first)(void), void (*second)(void));
/* The number of the task that runs, from 1; 0 before there are any. */
uint32_t task_number(void);
void task_yield(void);
/* Called by the tick: the other task goes on. */
void task_switch_soon(void);

#endif
