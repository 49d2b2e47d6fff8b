/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* settings.h: what the environment asks of libkymo. See settings.c. */
#ifndef KYMO_SRC_SETTINGS_H
#define KYMO_SRC_SETTINGS_H

#include <stdbool.h>
#include <sys/un.h>

/* A path that fills it is too long for a socket: who makes one of it finds no room. */
typedef char kymo_setting_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

struct kymo_settings {
	bool is_read;
	bool is_disabled;       /* KYMO_DISABLE */
	bool without_thread;    /* KYMO_NO_THREAD */
	bool may_block;         /* KYMO_ALLOW_BLOCKING=1 */
	bool is_under_valgrind; /* by LD_PRELOAD */
	int startup_wait_ms;    /* KYMO_START_WAIT; -1: it does not say */
	char clock[16], ring[16];
	kymo_setting_path runtime_dir, xdg_runtime_dir; /* empty: not set */
};

extern struct kymo_settings kymo_settings;
void kymo_settings_read(void);

#endif
