/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* check.h: the victims' one way to fail: say where, exit 1. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
