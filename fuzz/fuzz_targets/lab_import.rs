// SPDX-License-Identifier: MIT OR Apache-2.0
//! The importers of other tools' results. Whatever the bytes, a record adds up.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(Ok(records)) = kymo_lab::Record::several_from_json(bytes) {
        assert!(records.iter().flat_map(|record| &record.series).all(|series| series.accounted() == series.count));
    }
    if let Ok(record) = kymo_lab::import("fuzz", bytes) {
        assert!(record.series.iter().all(|series| series.accounted() == series.count));
    }
});
