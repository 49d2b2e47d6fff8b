// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parsers of metadata: TSDL, packetised TSDL, CTF 2. Whatever the bytes, they return.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::metadata(bytes);
});
