/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lock.c: the lock of all that talks to collectors, and what is under it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "control.h"

struct kymo_control kymo_control = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.startup_wait_ms = KYMO_STARTUP_WAIT_MS,
};

uint32_t kymo_own_nonce;

/*
 * Who holds it ends sessions, and must not wait for their room should it trace, in malloc say. Nor may it
 * be cancelled: nothing of libkymo's is a place where threads are, as far as the program knows.
 */
void kymo_lock(void)
{
	struct kymo_self *self = kymo_self();
	int cancel_state;

	self->busy++;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&kymo_control.lock);
	self->cancel_state = cancel_state;
}

void kymo_unlock(void)
{
	struct kymo_self *self = kymo_self();
	int cancel_state = self->cancel_state;

	pthread_mutex_unlock(&kymo_control.lock);
	self->busy--;
	pthread_setcancelstate(cancel_state, NULL);
}

int64_t kymo_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
