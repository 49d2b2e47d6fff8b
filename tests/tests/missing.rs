// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are missing: every verb tells of them, also where no record was counted as lost.

use kymo_tests::Lab;
use kymo_tests::small_trace::{Packet, Said, write};
use serde_json::Value;

/// Calls of a function in three packets, of which the second is not there.
fn lab_with_trace(name: &str) -> (Lab, String) {
    let lab = Lab::new(name);
    let call =
        |at: u64| vec![(at, 7, Said::Enter("step")), (at + 5, 7, Said::Tick(1)), (at + 9, 7, Said::Leave("step"))];
    let packet = |number, begin| Packet { begin, end: begin + 50, number, discarded: 0, records: call(begin) };
    let dir = lab.path("t");
    write(&dir, &[vec![packet(0, 100), packet(2, 300)]]);
    let dir = dir.to_str().unwrap().to_owned();
    (lab, dir)
}

const TOLD: &str = "1 packet is missing, in 1 place; how many records were in them is not known";

#[test]
fn verbs_that_read_tell_it() {
    let (lab, t) = lab_with_trace("missing_read");
    assert!(lab.kymo(&["read", &t]).expect(0).stderr.contains(TOLD));
    let shown = lab.kymo(&["functions", &t]).expect(0).stdout;
    assert!(shown.contains(TOLD) && !shown.contains("0 records were lost"), "{shown}");
    for verb in ["functions", "stats"] {
        let document: Value = serde_json::from_str(&lab.kymo(&[verb, "--json", &t]).expect(0).stdout).unwrap();
        let lost = &document["lost"];
        assert_eq!((&lost["records"], &lost["packets"], &lost["places"]), (&0.into(), &1.into(), &1.into()), "{verb}");
    }
    assert!(lab.kymo(&["stats", &t]).expect(0).stdout.contains(TOLD));
    assert!(lab.kymo(&["index", &t]).expect(0).stdout.contains(TOLD));
}

#[test]
fn every_export_tells_it() {
    let (lab, t) = lab_with_trace("missing_export");
    for format in ["csv", "parquet", "chrome", "perfetto", "speedscope", "collapsed"] {
        let out = lab.path(&format!("out.{format}"));
        let out = out.to_str().unwrap();
        let outcome = lab.kymo(&["export", "--format", format, "-o", out, &t]).expect(0);
        assert!(outcome.stderr.contains(&format!("in the trace {TOLD}")), "{format}: {}", outcome.stderr);
        let again = format!("{out}.again");
        let document = lab.kymo(&["export", "--json", "--format", format, "-o", &again, &t]).expect(0).stdout;
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["lost"]["packets"], 1, "{format}: {document}");
    }
    let chrome = std::fs::read_to_string(lab.path("out.chrome")).unwrap();
    assert!(chrome.contains("\"records\":0,\"packets\":1"), "{chrome}");
    let left = lab.kymo(&["export", "--format", "csv", "-o", lab.path("x.csv").to_str().unwrap(), &t]).expect(0).stderr;
    assert!(left.contains("packets that are missing there: 1"), "{left}");
}
