/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sequence.h: the restartable sequence of this processor, where there is one [ring.md 5.1]. */
#ifndef KYMO_ARCH_SEQUENCE_H
#define KYMO_ARCH_SEQUENCE_H

#include "../runtime.h"

#if KYMO_ARCH_X86_64
#include "x86_64/sequence.h"
#elif KYMO_ARCH_AARCH64
#include "aarch64/sequence.h"
#endif

#endif
