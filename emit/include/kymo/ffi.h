/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ffi.h: tracing from languages that cannot use the macros of tracepoint.h. One module per caller:
 *
 *	struct kymo_module module = { .abi = KYMO_ABI_VERSION, .events = events, .events_end = events + n,
 *				      .descs = descs, .descs_end = descs + bytes };
 *	kymo__register(&module);
 *
 * with one struct kymo_event (aligned to 64 bytes, zero but for desc) per event, and descriptions
 * laid out as event.md 3 says. All must stay where they are until kymo__unregister.
 */
#ifndef KYMO_FFI_H
#define KYMO_FFI_H

#include <stdbool.h>
#include <stdint.h>

#if UINTPTR_MAX < UINT64_MAX
#error "kymo: tracepoints need a processor with 64-bit pointers; this program is compiled for 32 bits"
#else

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kymo_ffi_enabled: whether a session wants the event now. Context: any. */
bool kymo_ffi_enabled(const struct kymo_event *event);

/*
 * kymo_ffi_write: records one event whose fields are packed in payload, bytes long [event.md 2];
 * the thread id is added. A record longer than KYMO_RECORD_MAX is refused and counted.
 * Context: any, signal handlers included. Does not block.
 */
void kymo_ffi_write(struct kymo_event *event, const void *payload, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
#endif
