/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* errors.h: the error numbers that <trace.h> gives: the C library's own, or where there is none, these. */
#ifndef KYMO_POSIX_ERRORS_H
#define KYMO_POSIX_ERRORS_H

#if __has_include(<errno.h>)
#include <errno.h>
#endif
#ifndef EINVAL
#define EINTR 4
#define EIO 5
#define EBADF 9
#define EAGAIN 11
#define ENOMEM 12
#define EINVAL 22
#define ENAMETOOLONG 36
#define ETIMEDOUT 110
#endif
#ifndef ESRCH
#define ESRCH 3
#endif

#endif
