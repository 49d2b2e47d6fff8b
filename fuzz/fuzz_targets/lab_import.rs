//! The importers of other tools' results. Whatever the bytes, a record adds up.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = kymo_lab::import("fuzz", bytes) {
        assert!(record.series.iter().all(|series| series.accounted() == series.count));
    }
});
