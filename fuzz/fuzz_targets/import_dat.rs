// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of trace-cmd: head, sections, packed data, pages of both byte orders.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = b"\x17\x08\x44tracing".to_vec();
    file.extend_from_slice(bytes);
    kymo_export::import::probe(&file);
});
