/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* runtime_dir.h: where programs and collectors find each other. See runtime_dir.c. */
#ifndef KYMO_RUNTIME_DIR_H
#define KYMO_RUNTIME_DIR_H

#include <stdbool.h>
#include <stdint.h>

struct kymo_dir_id {
	uint64_t device, inode;
};
struct kymo_dir_id kymo_runtime_dir_id(void);

/* Connects to every live session and hands each connection over. */
void kymo_each_session(void (*found)(int fd));
bool kymo_any_session(void);
bool kymo_was_missed(const char *session);
bool kymo_session_has_ended(const char *session, struct kymo_dir_id met_in);
/* Binds this program's own socket. Returns it, listening and not blocking, or -1. */
int kymo_bind_own(uint32_t nonce);
void kymo_unbind_own(void);
void kymo_own_begin(void);
bool kymo_knock(void);
bool kymo_peer_is_us(int fd);

/* slots.c */
struct kymo_dir_id kymo_slot_met_in(uint32_t slot);

#endif
