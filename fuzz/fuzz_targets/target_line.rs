// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a small target sends over a line: whatever the bytes, what comes out is a CTF trace that can be opened.
#![no_main]

use kymo_ctf::read::{Memory, Trace};
use kymo_target::Receiver;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut receiver = Receiver::new();
    let mut trace = kymo_target::Trace::new([7; 16], "fuzz");
    let mut files: Vec<Vec<u8>> = Vec::new();
    for piece in bytes.chunks(61) {
        receiver.push(piece, None);
    }
    receiver.finish();
    for batch in receiver.take() {
        files.resize(files.len().max(batch.epoch + 1), Vec::new());
        files[batch.epoch].extend(trace.packets(&batch, receiver.epochs()));
    }
    let streams = files.into_iter().enumerate().map(|(i, bytes)| (kymo_target::file_name(i), bytes)).collect();
    Trace::from_files(&Memory { metadata: trace.metadata().into_bytes(), streams }).expect("the metadata is CTF");
});
