/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ffi.c: kymo_ffi_enabled and kymo_ffi_write, as a language without C macros would use them: the
 * description is built as bytes, the event is registered by hand, the payload is packed by the
 * caller.
 *
 *	cc ffi.c -lkymo -o ffi
 *	kymo record -o trace -- ./ffi && kymo read trace
 */
#include <kymo/ffi.h>
#include <string.h>

#define TEXT "script\0line\0ffi.c\0number\0\0source\0"

/* event.md 3: head, one entry per field, an entry of zeros, text. */
static struct {
	struct kymo_desc head;
	struct kymo_field fields[3];
	char text[sizeof(TEXT)];
} description __attribute__((aligned(8))) = {
	{ KYMO_DESC_MAGIC, 24 + 3 * 8 + sizeof(TEXT), KYMO_DESC_EVENT, 2, 0, sizeof(TEXT), 0, { 0 } },
	{ { KYMO_T_U32, 0, 0, 0, 0 }, { KYMO_T_STR, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } },
	TEXT,
};
static struct kymo_event event = { .desc = &description.head };
static struct kymo_module module = {
	.abi = KYMO_ABI_VERSION,
	.events = &event,
	.events_end = &event + 1,
	.descs = (const uint8_t *)&description,
	.descs_end = (const uint8_t *)(&description + 1),
};

static void line(uint32_t number, const char *source)
{
	uint16_t bytes = (uint16_t)strlen(source);
	uint8_t payload[256];

	if (!kymo_ffi_enabled(&event) || bytes > sizeof(payload) - 6)
		return;
	memcpy(payload, &number, 4);
	memcpy(payload + 4, &bytes, 2);
	memcpy(payload + 6, source, bytes);
	kymo_ffi_write(&event, payload, 6u + bytes);
}

int main(void)
{
	kymo__register(&module);
	line(1, "print('hello')");
	line(2, "exit()");
	kymo__unregister(&module);
	return 0;
}
