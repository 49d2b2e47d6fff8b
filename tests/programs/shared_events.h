/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* shared_events.h: events that several source files declare by including this. */
#ifndef SHARED_EVENTS_H
#define SHARED_EVENTS_H

#include "common.h"

KYMO_ENUM(shared, part, u8, (first, 1), (second, 2))
KYMO_EVENT(shared, work, (enum(shared, part), part), (u64, n))
KYMO_EVENT(shared, note, (str, text))

#endif
