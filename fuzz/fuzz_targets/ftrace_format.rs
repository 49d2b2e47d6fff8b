// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parsers of the kernel's format texts. Whatever the bytes, they return what they promise.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ftrace::format::probe::format(bytes);
});
