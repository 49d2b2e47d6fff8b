// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packetised metadata of either format: in packets of any size it means the same as without them, and whatever the
//! heads of packets are, the parser returns.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ctf::read::probe::packets(bytes);
    kymo_ctf::read::probe::packet_heads(bytes);
});
