// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and records of traces whose metadata is good: one of CTF 1.8, with every form of head and field, and one of
//! CTF 2, with lengths along locations of every kind, numbers of many bits and all bit orders; and one of compact
//! records, which have no thread of their own. Whatever the bytes, the
//! reader comes to an end, and counting (on one thread, and in parts on two) finds the same records and the same
//! damage.
#![no_main]

const METADATA: &[u8] = include_bytes!("../../host/kymo-ctf/tests/hostile.tsdl");
const METADATA_CTF2: &[u8] = include_bytes!("../../host/kymo-ctf/tests/hostile.ctf2");
const METADATA_COMPACT: &[u8] = include_bytes!("../../host/kymo-ctf/tests/compact.tsdl");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::stream(METADATA, bytes);
    kymo_ctf::read::probe::stream(METADATA_CTF2, bytes);
    kymo_ctf::read::probe::stream(METADATA_COMPACT, bytes);
});
