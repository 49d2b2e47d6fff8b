// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of CTF 1.8's metadata, behind its first line. Whatever the bytes, it returns.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::tsdl(bytes);
});
