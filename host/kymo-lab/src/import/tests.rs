// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each file of tests/import against the summary beside it, cut at every place, and damaged.
//!
//! `KYMO_BLESS=1` writes the summaries anew. The files of cyclictest and oslat are real ones of rt-tests 2.4; the
//! others were written after the formats of their tools.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{ImportError, import};
use crate::Record;

fn samples() -> Vec<(String, PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let paths = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end != "expect")).collect();
    files.sort();
    assert!(files.len() > 10, "no samples in {}", dir.display());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.into_iter().map(|path| (name(&path), path.clone(), std::fs::read(&path).unwrap())).collect()
}

fn summary(record: &Record) -> String {
    let mut text = String::new();
    let format = record.source.as_ref().map_or("", |source| &source.format);
    writeln!(text, "{format}: {} {} {}, {:?}", record.tool, record.version, record.test, record.ended).unwrap();
    writeln!(text, "started {:?} duration {:?} s", record.started_ns, record.duration_s).unwrap();
    for (name, value) in record.options.iter().chain(&record.environment) {
        writeln!(text, "{name} = {value}").unwrap();
    }
    for series in &record.series {
        let cpu = series.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        writeln!(
            text,
            "{} cpu {cpu}: {} samples, {} lost, {:?}",
            series.name, series.count, series.lost, series.overflow
        )
        .unwrap();
        writeln!(
            text,
            "  min {:?} max {:?} mean {:?} std {:?} bucket {:?}",
            series.min, series.max, series.mean, series.std, series.bucket_ns
        )
        .unwrap();
        let ends = series.histogram.buckets().next().zip(series.histogram.buckets().next_back());
        writeln!(
            text,
            "  histogram {} from {:?}; worst {:?}",
            series.histogram.count(),
            ends.map(|(a, b)| (a.low, b.low)),
            series.worst.first().map(|worst| (worst.value_ns, worst.sample))
        )
        .unwrap();
    }
    for caveat in &record.caveats {
        writeln!(text, "{} {:?}: {}", caveat.id, caveat.severity, caveat.text).unwrap();
    }
    text
}

#[test]
fn files_yield_what_stands_beside_them() {
    for (name, path, bytes) in samples() {
        let got = summary(&import(&name, &bytes).unwrap());
        let beside = path.with_file_name(format!("{name}.expect"));
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&beside, &got).unwrap();
        }
        assert_eq!(got, std::fs::read_to_string(&beside).unwrap_or_default(), "{name}");
    }
}

#[test]
fn every_sample_is_accounted_for_and_comes_back_from_json() {
    for (name, _, bytes) in samples() {
        let record = import(&name, &bytes).unwrap();
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(import("own", &text), Ok(record), "{name}");
    }
}

#[test]
fn a_file_that_was_cut_keeps_what_it_has_and_says_so() {
    for (name, _, bytes) in samples() {
        let whole = import(&name, &bytes).unwrap();
        let mut kept = 0;
        for end in (0..bytes.len()).step_by(bytes.len() / 150 + 1) {
            // Between two samples or live lines of cyclictest nothing shows that more should follow.
            let has_no_end = ["samples", "live", "terminal"].iter().any(|kind| name.contains(kind));
            if has_no_end && bytes[..end].ends_with(b"\n") {
                continue;
            }
            let Ok(record) = import(&name, &bytes[..end]) else { continue };
            kept += 1;
            let is_told = record
                .caveats
                .iter()
                .any(|caveat| ["interrupted", "lost-samples", "no-histogram"].contains(&&*caveat.id));
            assert!(is_told || record.series == whole.series, "{name} cut at {end}: {}", summary(&record));
            assert!(record.series.iter().all(|series| series.accounted() == series.count), "{name} cut at {end}");
        }
        assert!(kept > 0, "{name}: nothing is kept of any part of it");
    }
}

#[test]
fn what_breaks_a_format_is_told_with_its_line() {
    let check = |text: &str, expect: &str| {
        let error = import("file", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("", "file: not a result that kymo can read (it is empty); tried: cyclictest (text, JSON)");
    check("hello\nworld\n", "begins with \"hello\"");
    check("# Histogram\n000001 000002\n000002 000002 4\n", "cyclictest-text, line 3: 2 columns; the rows above have 1");
    check("# Histogram\n000001 zwei\n", "line 2: a row of the histogram has only numbers");
    check("# RTLA timerlat histogram\n   IRQ-000\n", "line 2: the line of the columns does not begin with \"Index\"");
    check("{\"cpu\": {\"0\": {}}}", "jitterdebugger, line 1: there is no sample in it");
    check(
        "{\"version\": 3,\n \"sysinfo\": {\"sysname\": \"Linux\", ",
        "jitterdebugger, line 2: there is no sample in it",
    );
    check("{\"cpu\": {\n\"0\": {]}}", "JSON, line 2");
    check("{\"schema\": \"kymo-lab-9\"}", "kymo-lab-1, line 1: not a result of kymo");
    check("<html></html>\n", "not a result");
    assert!(matches!(import("f", b"{}"), Err(ImportError::Unknown { .. })));
}

/// The size of a record in memory does not follow the numbers that a file holds.
#[test]
fn hostile_numbers_do_not_make_it_grow() {
    let columns = " 1".repeat(super::SERIES_MAX + 1);
    let error = import("f", format!("# Histogram\n000001{columns}\n").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("at most 4096 series"), "{error}");
    let max = u64::MAX;
    let texts = [
        format!("# Histogram\n{max} {max}\n# Min Latencies: {max}\n# Histogram Overflows: {max}\n"),
        format!(
            "{{\"cpu\": {{\"{max}\": {{\"histogram\": {{\"{max}\": {max}, \"1\": {max}}}, \"count\": {max}, \"max\": 1e300}}}}}}"
        ),
        format!(
            "# RTLA timerlat histogram\nIndex IRQ-000\n{max} {max}\n0 1\n1 1\nover: {max}\ncount: {max}\nmax: {max}\n"
        ),
        format!("1 loops done.\nduration (us)\tnb. loops\n{max} {max}\nOverruns (1+): {max}\n"),
        format!("#Minimum latency: {max} microseconds.\n#There are {max} samples lower than 0\n{max} {max}\n"),
    ];
    for text in texts {
        let record = import("f", text.as_bytes()).unwrap();
        assert_eq!(record.series[0].accounted(), record.series[0].count, "{text}");
    }
    let deep = format!("{}{}", "<rteval>", "<a>".repeat(1_000));
    assert!(import("f", deep.as_bytes()).unwrap_err().to_string().contains("within each other"));
    assert!(import("f", "{\"a\":".repeat(100_000).as_bytes()).is_err());
}

proptest! {
    #[test]
    fn damage_is_refused_or_adds_up(pick: prop::sample::Index, places: [(prop::sample::Index, u8); 4]) {
        let all = samples();
        let (name, _, bytes) = &all[pick.index(all.len())];
        let mut bytes = bytes.clone();
        for (place, byte) in places {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(record) = import(name, &bytes) {
            prop_assert!(record.series.iter().all(|series| series.accounted() == series.count));
            prop_assert!(!record.series.is_empty());
        }
    }
}
