// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of the latency tracers. Whatever the bytes, what is found lies within the report.
#![no_main]

use kymo_ftrace::report::Report;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = Report::parse(bytes) else { return };
    let found = report.findings();
    let (from, up_to) = found.window;
    assert!(from < up_to && up_to <= report.lines.len());
    assert!(found.gaps.iter().all(|gap| gap.before < gap.behind && gap.behind < up_to));
    report.text(&found, 12, &|place| place.to_owned());
});
