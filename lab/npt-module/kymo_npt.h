/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* kymo_npt.h: what the module's files know of each other. */
#ifndef KYMO_NPT_H
#define KYMO_NPT_H

#include <linux/types.h>

/* Keeps the CPU for so long. Context: any. */
void kymo_npt_busy(u32 us);

/*
 * kymo_npt_frequency_begin: gives the machine processors whose frequency can be changed; again: nothing.
 * Returns a negative errno where another driver has them. Context: may sleep.
 */
int kymo_npt_frequency_begin(void);
void kymo_npt_frequency_end(void);

/* Changes the frequency of this CPU to the other of two, which takes `us`. Context: interrupts are off. */
void kymo_npt_change_frequency(u32 us);

#endif
