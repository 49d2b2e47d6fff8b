/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* runtime_dir.h: where programs and collectors find each other. See runtime_dir.c. */
#ifndef KYMO_RUNTIME_DIR_H
#define KYMO_RUNTIME_DIR_H

#include <stdbool.h>
#include <stdint.h>

/* Connects to every live session and hands each connection over. */
void kymo_each_session(void (*found)(int fd));
/* Binds this program's own socket. Returns it, listening and not blocking, or -1. */
int kymo_bind_own(uint32_t nonce);
void kymo_set_blocking(int fd);

#endif
