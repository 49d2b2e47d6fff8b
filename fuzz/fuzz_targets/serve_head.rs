// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heads of requests to the viewer's server, line by line: whoever is answered came from this machine, with the
//! address, and gets a file of the page or a question without control characters.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_serve::probe::head(bytes);
});
