/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ffi.c: the inline functions as linkable ones, for languages that cannot use the macros. The
 * caller makes the description [event.md 3] and the struct kymo_event itself, registers them with
 * kymo__register, and packs the payload.
 */
#include "internal.h"
#include "kymo/ffi.h"

KYMO_EXPORT bool kymo_ffi_enabled(const struct kymo_event *event)
{
	return kymo__wanted(event) != NULL;
}

KYMO_EXPORT void kymo_ffi_write(struct kymo_event *event, const void *payload, size_t bytes)
{
	const struct kymo_slot *slot = kymo__wanted(event);
	const struct kymo_seg seg = { payload, bytes };
	/* One that is too long is counted, and not looked at. */
	uint64_t payload_bytes = bytes < KYMO_RECORD_MAX ? bytes : KYMO_RECORD_MAX;

	if (slot)
		kymo__write_segs(event, KYMO_ONE_RECORD + KYMO__BEFORE_PAYLOAD + payload_bytes, &seg, &seg + 1,
				 slot);
}
