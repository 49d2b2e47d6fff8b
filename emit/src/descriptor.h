/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* descriptor.h: descriptors that must survive what the traced program does with its own. See descriptor.c. */
#ifndef KYMO_DESCRIPTOR_H
#define KYMO_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A descriptor that stays open, and what it refers to. */
struct kymo_fd {
	int number; /* -1: none */
	dev_t device;
	ino_t inode;
};
#define KYMO_FD_NONE ((struct kymo_fd){ .number = -1 })

/* The calling thread has a descriptor table of its own. Set by kymo_fd_own_table, under kymo_lock. */
extern bool kymo_fd_table_is_own;
bool kymo_fd_can_own_table(void);
void kymo_fd_own_table(void);

int kymo_fd_raise(int fd);
int kymo_fd_new(int fd);
struct kymo_fd kymo_fd_note(int fd);
struct kymo_fd kymo_fd_keep(int fd);
bool kymo_fd_is_ours(const struct kymo_fd *kept);
void kymo_fd_close(struct kymo_fd *kept);
void kymo_fd_read_text(const char *path, char *text, size_t bytes);

#endif
