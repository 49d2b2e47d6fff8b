// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and records of a trace whose metadata is good: it has every form of head and field. Whatever the bytes, the
//! reader comes to an end, and counting (on one thread, and in parts on two) finds the same records and the same
//! damage.
#![no_main]

const METADATA: &[u8] = include_bytes!("../../host/kymo-ctf/tests/hostile.tsdl");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::stream(METADATA, bytes);
});
