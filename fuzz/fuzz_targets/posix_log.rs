//! Logs of POSIX Trace streams: whatever the bytes, what comes out is a CTF trace that can be opened.
#![no_main]

use kymo_ctf::read::{Memory, Trace};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(log) = kymo_posix::Log::read("fuzz", bytes) {
        let metadata = log.metadata().into_bytes();
        let memory = Memory { metadata, streams: vec![("posix_0".to_owned(), log.stream())] };
        Trace::from_files(&memory).expect("the metadata is CTF");
    }
});
