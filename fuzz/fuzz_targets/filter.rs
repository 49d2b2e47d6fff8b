// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter language: text to filter, canonical form, check, program, decision. Whatever the text, it returns, and
//! the canonical form means the same. Bytes that are no text are taken for a program with its pool and payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            kymo_filter::probe::text(text);
        }
        Err(_) => kymo_filter::probe::program(bytes),
    }
});
