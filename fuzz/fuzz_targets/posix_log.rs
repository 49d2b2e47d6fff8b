// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs of POSIX Trace streams: whatever the bytes, what comes out is a CTF trace that can be opened.
#![no_main]

use kymo_ctf::read::{Memory, Trace};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    if let Ok(log) = kymo_posix::Log::read("fuzz", &bytes) {
        let metadata = log.metadata().into_bytes();
        let memory = Memory { metadata, streams: vec![("posix_0".to_owned(), log.stream())] };
        Trace::from_files(&memory).expect("the metadata is CTF");
    }
});

/// Gives each chunk the checksum that it should have [spec/posix.md 7], which fuzzing would not find.
fn seal(bytes: &mut [u8]) {
    const HEAD: usize = 64;
    let word =
        |bytes: &[u8], at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let mut at = 0;
    while bytes.len() - at >= HEAD {
        let content = word(bytes, at + 16);
        let whole = word(bytes, at + 12);
        if let Some(end) = (at + HEAD).checked_add(content).filter(|end| *end <= bytes.len()) {
            bytes[at + 20..at + 24].fill(0);
            let sum = crc(&bytes[at..end]);
            bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
        // What is no chunk is looked through in the steps in which chunks begin.
        at = at.saturating_add(if whole >= HEAD { whole } else { 8 }).min(bytes.len());
    }
}

/// CRC-32 as of IEEE 802.3.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}
