// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader: two bytes of metadata length, metadata, one stream. Whatever the bytes, it comes to an end.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::trace(bytes);
});
