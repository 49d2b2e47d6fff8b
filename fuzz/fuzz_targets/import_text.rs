// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of ftrace and of perf script.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kymo_export::import::probe(bytes));
