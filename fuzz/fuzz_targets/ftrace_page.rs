// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk over a page of the kernel's ring buffer, compared with a second one: a page of the usual layout, and of
//! any.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kymo_ftrace::page::probe::page(bytes);
    kymo_ftrace::page::probe::page_of_any_format(bytes);
});
