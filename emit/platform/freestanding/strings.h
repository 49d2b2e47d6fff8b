/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* strings.h: what the units take from <string.h>, where there is none (strings.c brings it along). */
#ifndef KYMO_POSIX_STRINGS_H
#define KYMO_POSIX_STRINGS_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t most);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t most);

#endif
