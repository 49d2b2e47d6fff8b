// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of CTF 2's metadata, behind a good preamble. Whatever the bytes, it returns.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::ctf2(bytes);
});
