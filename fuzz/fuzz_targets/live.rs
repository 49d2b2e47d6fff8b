// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a relay daemon of LTTng answers: a viewer returns, whatever the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A head that is right leads behind the check of the version.
    let hello = [&[0; 8][..], &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1]].concat();
    let _ = kymo_live::probe::view(&[&hello[..], bytes].concat());
});
