// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of the latency tracers, one for each tracer and age of its head, and what must be told of them:
//! `reports/NAME.txt` beside `NAME.expect` (`KYMO_BLESS=1` writes those anew). Those of 6.1 and 6.12 were made by these
//! kernels in a virtual machine, and cut; the others were written from the format's documentation.
//! Then bytes from anyone: no report makes the parser panic or loop.

use crate::support;

use std::path::PathBuf;

use kymo_ftrace::report::{NoReport, Report};
use support::{Random, setting};

fn texts() -> Vec<(PathBuf, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let mut paths: Vec<_> =
        std::fs::read_dir(&dir).expect("reports").map(|entry| entry.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    assert!(paths.len() >= 10, "{} reports in {}", paths.len(), dir.display());
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a report"))).collect()
}

fn told(bytes: &[u8]) -> String {
    assert!(Report::is_likely(bytes));
    let report = Report::parse(bytes).expect("a report");
    report.text(&report.findings(), 12, &|place| place.to_owned())
}

#[test]
fn reports_are_told() {
    let mut wrong = Vec::new();
    for (path, bytes) in texts() {
        let (found, expect) = (told(&bytes), path.with_extension("expect"));
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&expect, &found).expect("writes");
        }
        let expected = std::fs::read_to_string(&expect).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{}\n--- expected\n{expected}--- found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_report_is_refused() {
    let check = |text: &str, expect: NoReport| assert_eq!(Report::parse(text.as_bytes()), Err(expect), "{text}");
    check("", NoReport::Unknown);
    check("hello\nworld\n", NoReport::Unknown);
    check("# tracer: function\n bash-1 [000] .... 1.000001: f <-g\n", NoReport::OtherTracer("function".into()));
    check(
        "# tracer: wakeup_dl\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n",
        NoReport::Empty("wakeup_dl".into()),
    );
    assert!(!Report::is_likely(b"\x7fELF") && !Report::is_likely(&[0xff; 100]));
}

#[test]
fn mutated_reports() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let texts = texts();
    let mut random = Random(seed);
    let (mut good, mut bad) = (0u64, 0u64);
    let rounds = setting("KYMO_ROUNDS", 2_000);
    for round in 0..rounds {
        let mut bytes = texts[round as usize % texts.len()].1.clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut bytes);
        }
        match Report::parse(&bytes) {
            Ok(report) => {
                let found = report.findings();
                let (from, up_to) = found.window;
                assert!(from < up_to && up_to <= report.lines.len());
                assert!(found.gaps.iter().all(|gap| gap.before < gap.behind && gap.behind < up_to && gap.ns > 0));
                assert!(report.text(&found, 12, &|place| place.to_owned()).lines().count() < 100);
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    // Both must be reached, or nothing was tested.
    assert!(good > rounds / 4 && bad > 0, "{good} reports, {bad} refused");
}
