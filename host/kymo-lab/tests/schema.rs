// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records, and what is imported from other tools, are as `spec/lab-result.schema.json` says, and the schema says
//! something of each member.

use std::path::Path;

use kymo_lab::causes::{Budget, BudgetPart, Causes, Cluster, Level, MissingKind, Period, Watching};
use kymo_lab::{Ended, Floor, Overflow, Record, ResultSource, Series, Severity, Thread, Worst, caveat, import};
use kymo_testing::schema::check;
use serde_json::{Map, Value};

/// A record with everything that one can have.
fn full() -> Record {
    let mut record = Record::new("kymo", "wakeup");
    let mut series = Series::new("wakeup");
    series.histogram.add(5_000, 9);
    (series.count, series.cpu, series.bucket_ns) = (10, Some(1), Some(1000));
    (series.min, series.max, series.mean, series.std) = (Some(5_000), Some(5_000), Some(5e3), Some(0.0));
    series.overflow = Some(Overflow { count: 1, beyond_ns: 400_000, computed: true });
    let thread = Thread { tid: 7, policy: "SCHED_FIFO".into(), priority: 80, affinity: "1".into(), locked: true };
    series.thread = Some(thread);
    let part = BudgetPart {
        cause: "lock_owner".into(),
        name: "low".into(),
        tid: Some(5),
        priority: Some("rt 80".into()),
        behind: Some("middle".into()),
        limit: None,
        group: None,
        by: None,
        ns: 5_000,
        pieces: 1,
        seen: true,
    };
    let budget =
        Budget { at_ns: Some(-1), signature: "x".into(), parts: vec![part], faults: 0, doubt: vec!["lost".into()] };
    let worst = Worst { value_ns: 5_000, cycles: Some(1), sample: Some(0), tid: Some(7), budget: Some(budget) };
    series.worst.push(worst);
    record.series.push(series);
    record.caveats.push(caveat("not-fifo", "x"));
    record.counts.insert("out_of_order".into(), 1);
    (record.floor, record.ended) = (Some(Floor { clock_read_ns: 9.5, loop_ns: 11.0 }), Ended::Time);
    record.source = Some(ResultSource { file: "f".into(), format: "npt".into() });
    let period = Some(Period { period_ns: 5, p: 0.004, spikes: 6 });
    let signature = "lock_owner low".to_owned();
    record.causes = Some(Causes {
        level: Level::Tracepoints,
        cannot_see: vec!["x".into()],
        missing_events: vec![MissingKind { kind: "page_faults".into(), text: "x".into() }],
        asked: 20,
        explained: 1,
        unexplained: vec!["x".into()],
        clusters: vec![Cluster { signature, count: 1, worst_ns: 5_000, cpus: vec![1], share: 1.0, period }],
        period,
        watching: Watching {
            outcome: "no_difference".into(),
            text: "x".into(),
            slots: [5, 5],
            p999_ns: Some([1.0, 2.0]),
            snapshots: 1,
            snapshot_ns_max: 2,
        },
    });
    assert_eq!(record.caveats[0].severity, Severity::Fatal);
    record
}

#[test]
fn records_and_all_imports_are_as_the_schema_says() {
    assert_eq!(check(&serde_json::to_value(full()).unwrap()), [""; 0]);
    assert_eq!(check(&serde_json::to_value(Record::new("kymo", "npt")).unwrap()), [""; 0]);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let mut checked = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "expect") {
            continue;
        }
        let record = import(&path.to_string_lossy(), &std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(check(&serde_json::to_value(record).unwrap()), [""; 0], "{}", path.display());
        checked += 1;
    }
    assert!(checked > 10, "{checked} files");
}

/// Every member of a full record, renamed, removed, or of another type, is a fault: none is left to chance.
#[test]
fn a_changed_member_is_a_fault() {
    let whole = serde_json::to_value(full()).unwrap();
    let mut changed = 0;
    each_member(&whole, "", &mut |pointer, name| {
        let is_free =
            ["/options", "/environment", "/meanwhile", "/counts"].iter().any(|free| pointer.starts_with(free));
        if is_free {
            return;
        }
        let member = |document: &mut Value| -> Map<String, Value> {
            document.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().clone()
        };
        let with = |members: Map<String, Value>| {
            let mut document = whole.clone();
            *document.pointer_mut(pointer).unwrap() = Value::Object(members);
            check(&document)
        };
        let mut renamed = member(&mut whole.clone());
        let value = renamed.remove(name).unwrap();
        let is_optional = ["causes", "tid", "budget"].contains(&name);
        assert!(is_optional || !with(renamed.clone()).is_empty(), "{pointer}/{name} removed");
        renamed.insert(format!("{name}_"), value);
        assert!(!with(renamed).is_empty(), "{pointer}/{name} renamed");
        let mut other = member(&mut whole.clone());
        let strange = if other[name].is_object() { Value::from(3) } else { serde_json::json!({ "x": 1 }) };
        other.insert(name.to_owned(), strange);
        assert!(!with(other).is_empty(), "{pointer}/{name} of another type");
        changed += 1;
    });
    assert!(changed > 70, "{changed} members");
}

fn each_member(value: &Value, pointer: &str, change: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            change(pointer, name);
            each_member(member, &format!("{pointer}/{name}"), change);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| each_member(item, &format!("{pointer}/{at}"), change));
        }
        _ => {}
    }
}
