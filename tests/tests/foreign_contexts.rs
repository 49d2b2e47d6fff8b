// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts of other tracers have the spelling of kymo's own, in filters, columns and rows.

use kymo_tests::Lab;
use kymo_tests::small_trace::{PID, Packet, Said, write};

fn lab_with_trace(name: &str) -> (Lab, String) {
    let lab = Lab::new(name);
    let records = vec![(110, 7, Said::Tick(1)), (120, 8, Said::Tick(2)), (130, 7, Said::Enter("step"))];
    let dir = lab.path("t");
    write(&dir, &[vec![Packet { begin: 100, end: 200, number: 0, discarded: 0, records }]]);
    let dir = dir.to_str().unwrap().to_owned();
    (lab, dir)
}

#[test]
fn filters_columns_and_rows_take_them() {
    let (lab, t) = lab_with_trace("contexts_of_others");
    let count = |filter: &str| {
        let outcome = lab.kymo(&["read", "--count", "--json", "--filter", filter, &t]).expect(0);
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        document["records"].as_u64().unwrap()
    };
    for (filter, expect) in [
        ("$vtid == 7", 2),
        ("$tid == 7", 2),
        ("$thread == 8", 1),
        ("$vpid == 77 && $pid == 77", 3),
        ("$procname == \"small\" && $proc == \"small\" && $comm == \"small\"", 3),
        ("$cpu_id == 0 && $cpu == 0", 3),
        ("$ppid == 3", 3),
        ("$ppid == 4", 0),
        // Of single events.
        ("$depth == 20", 1),
        ("has($depth)", 2),
        ("small:tick: $depth > 0 && n == 1", 1),
    ] {
        assert_eq!(count(filter), expect, "{filter}");
    }
    let lines = |fields: &str| lab.kymo(&["read", "--fields", fields, &t]).expect(0).stdout;
    assert_eq!(lines("$vtid,$vpid"), lines("tid,pid"));
    assert_eq!(lines("$tid,$pid,$procname,$cpu_id,$event"), lines("tid,pid,proc,cpu,event"));
    let shown = lines("$tid,$ppid,$depth");
    assert!(shown.contains("$ppid=3, $depth=10") && !shown.contains("n="), "{shown}");
    let shown = lab.kymo(&["read", &t]).expect(0).stdout;
    assert!(shown.contains("n=1, $ppid=3, $depth=10"), "{shown}");
    let json = lab.kymo(&["read", "--json", &t]).expect(0).stdout;
    assert!(json.contains("\"contexts\":{\"ppid\":3,\"depth\":20}"), "{json}");
    assert!(json.contains(&format!("\"proc\":\"small\",\"pid\":{PID},\"tid\":8")), "{json}");
}

#[test]
fn rows_are_made_by_them() {
    let (lab, t) = lab_with_trace("rows_of_contexts");
    let rows = |by: &str| lab.kymo(&["stats", "--by", by, &t]).expect(0).stdout;
    assert!(rows("$vtid").contains("small[7]"), "{}", rows("$vtid"));
    assert_eq!(rows("$vtid"), rows("thread"));
    assert!(rows("$ppid").contains("$ppid=3"), "{}", rows("$ppid"));
    assert!(rows("$depth,event").contains("$depth=20 / small:tick"), "{}", rows("$depth,event"));
    assert!(rows("$proc").contains("$proc=small"), "{}", rows("$proc"));
}

#[test]
fn one_that_no_record_has_is_refused() {
    let (lab, t) = lab_with_trace("no_such_context");
    let error = lab.kymo(&["read", "--filter", "$ppidd == 3", &t]).expect(2).stderr;
    assert!(error.contains("there is no context `$ppidd`") && error.contains("did you mean `$ppid`?"), "{error}");
    let error = lab.kymo(&["read", "--fields", "$ppidd", &t]).expect(2).stderr;
    assert!(error.contains("contexts are: $time, $cpu, $proc, $pid, $tid, $event, $depth, $ppid"), "{error}");
    let error = lab.kymo(&["stats", "--by", "$ppidd", &t]).expect(2).stderr;
    assert!(error.contains("did you mean $ppid?"), "{error}");
}
