// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of records, losses, threads and processes: what they have is what reading the trace has, and what is pushed
//! down chooses the same rows.

#[path = "../../kymo-query/tests/common/mod.rs"]
mod common;
mod support;

use kymo_tables::{Ahead, Error, OpenOptions, Partition, Scan, Source};
use kymo_testing::Random;
use serde_json::{Value, json};

use common::{Made, small};
use support::{assert_same, open, open_indexed, random, rows, tid};

#[test]
fn a_table_of_an_event_has_its_records() {
    let (source, _dir) = open(&small());
    let found = rows(&source, "motor:step", &Scan::default());
    let expect = json!([
        { "time": 1430, "cpu": 0, "position": 1.5, "axis": 2, "note": "<b>\u{1b}\"x\"" },
        { "time": 1490, "cpu": 0, "position": -4.0, "axis": 2, "note": "<b>\u{1b}\"x\"" },
        { "time": 1700, "cpu": 0, "position": 2.5, "axis": 2, "note": "<b>\u{1b}\"x\"" },
    ]);
    let found: Vec<Value> = found.into_iter().map(|row| without(row, &["host", "pid", "tid", "proc"])).collect();
    assert_eq!(json!(found), expect);
}

fn without(mut row: Value, names: &[&str]) -> Value {
    names.iter().for_each(|name| drop(row.as_object_mut().unwrap().remove(*name)));
    row
}

#[test]
fn columns_say_what_they_hold() {
    let (source, _dir) = open(&small());
    for table in source.tables() {
        assert_eq!(source.schema(&table.name).unwrap(), table.schema);
        assert!(!table.about.is_empty());
        for field in table.schema.fields() {
            assert!(field.metadata().get("about").is_some_and(|about| !about.is_empty()), "{}: {field:?}", table.name);
        }
    }
}

/// The rule of spec/tables.md 2, for all columns that do not come from an event.
#[test]
fn names_of_columns_tell_types_and_units() {
    use arrow_schema::DataType;
    let (source, _dir) = open(&small());
    let mut checked = 0;
    for table in source.tables().into_iter().filter(|table| !table.is_event) {
        let has = |name: &str| table.schema.field_with_name(name).is_ok();
        assert!(!has("end_time") || has("time"), "{}", table.name);
        for field in table.schema.fields() {
            let (name, at) = (field.name().as_str(), format!("{}.{}: {}", table.name, field.name(), field.data_type()));
            let is_number =
                matches!(name, "cpu" | "pid" | "tid") || ["_cpu", "_pid", "_tid"].iter().any(|end| name.ends_with(end));
            let is_truth = name.starts_with("is_") || name.starts_with("has_");
            match field.data_type() {
                DataType::Timestamp(..) => assert!(matches!(name, "time" | "end_time"), "{at}"),
                DataType::Boolean => assert!(is_truth, "{at}"),
                DataType::UInt32 => assert!(is_number, "{at}"),
                // Means and deviations of the laboratory; its length of a measurement is not a duration of the trace.
                DataType::Float64 => assert!(name.ends_with("_ns") || at.starts_with("lab_results.duration_s"), "{at}"),
                DataType::UInt64 | DataType::Int64 => {
                    assert!(!name.contains("duration") || name.ends_with("_ns"), "{at}")
                }
                _ => assert!(!name.ends_with("_ns") && !is_truth && !is_number && !name.ends_with("time"), "{at}"),
            }
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{at}");
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn records_are_those_of_all_events() {
    let (source, _dir) = open(&small());
    let all = rows(&source, "records", &Scan::default());
    assert_eq!(all.len(), 19);
    let of_events: usize = source
        .tables()
        .iter()
        .filter(|table| table.is_event)
        .map(|table| rows(&source, &table.name, &Scan::default()).len())
        .sum();
    assert_eq!(of_events, all.len());
    let step = all.iter().find(|row| row["event"] == "motor:step").unwrap();
    let fields: Value = serde_json::from_str(step["fields"].as_str().unwrap()).unwrap();
    assert_eq!(fields, json!({ "position": 1.5, "axis": 2, "note": "<b>\u{1b}\"x\"" }));
    // One event, chosen by a glob, and by the filter language.
    for scan in [
        Scan { events: Some(vec!["motor:*".into()]), ..Scan::default() },
        Scan { filter: Some("$event == \"motor:step\"".into()), ..Scan::default() },
    ] {
        assert_eq!(rows(&source, "records", &scan).len(), 3);
    }
}

#[test]
fn names_that_are_none_are_refused() {
    let (source, _dir) = open(&small());
    let error = |table: &str, scan: &Scan| source.scan(table, scan).err().unwrap().to_string();
    assert_eq!(error("motor:stp", &Scan::default()), "there is no table \"motor:stp\"; did you mean \"motor:step\"?");
    let scan = Scan { projection: Some(vec!["axes".into()]), ..Scan::default() };
    assert_eq!(error("motor:step", &scan), "table \"motor:step\" has no column \"axes\"; did you mean \"axis\"?");
    let scan = Scan { filter: Some("axes == 3".into()), ..Scan::default() };
    assert!(error("motor:step", &scan).contains("axes"));
    let scan = Scan { partition: Some(Partition { trace: 9, from: None, to: None }), ..Scan::default() };
    assert!(matches!(source.scan("records", &scan), Err(Error::Partition(9))));
    assert!(matches!(Source::open(&[], &OpenOptions::default()), Err(Error::NoTrace)));
}

#[test]
fn a_scan_ends_when_it_is_told_to() {
    let (source, _dir) = open(&random(1, 40_000));
    let scan = Scan { limit: Some(7), ..Scan::default() };
    assert_eq!(rows(&source, "records", &scan).len(), 7);
    assert!(rows(&source, "records", &Scan { limit: Some(0), ..Scan::default() }).is_empty());
    let scan = Scan::default();
    let mut batches = source.scan("records", &scan).unwrap();
    batches.next().unwrap().unwrap();
    scan.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(batches.find(|batch| batch.is_err()), Some(Err(Error::Cancelled))));
}

/// What a scan chooses is what a look at all rows chooses.
#[test]
fn pushed_down_conditions_choose_the_same_rows() {
    let mut numbers = Random::new("tables", 7);
    for round in 0..12 {
        let (source, _dir) = open(&random(round, 3000));
        let all = rows(&source, "records", &Scan::default());
        let steps = rows(&source, "motor:step", &Scan::default());
        for _ in 0..8 {
            let at = |numbers: &mut Random| Some(1000 + numbers.below(40_000) as i64).filter(|at| at % 3 > 0);
            let mut scan = Scan { from: at(&mut numbers), to: at(&mut numbers), ..Scan::default() };
            scan.cpus = (numbers.below(3u32) == 0).then(|| vec![numbers.below(3)]);
            scan.tids = (numbers.below(3u32) == 0).then(|| vec![tid(numbers.below(3), numbers.below(4)).into()]);
            let keeps = |row: &&Value| {
                let of = |name: &str| row[name].as_i64();
                let within = |at: i64| scan.from.is_none_or(|from| at >= from) && scan.to.is_none_or(|to| at < to);
                within(of("time").unwrap())
                    && scan.cpus.as_ref().is_none_or(|cpus| of("cpu").is_some_and(|cpu| cpus.contains(&(cpu as u32))))
                    && scan.tids.as_ref().is_none_or(|tids| of("tid").is_some_and(|tid| tids.contains(&tid)))
            };
            for (table, all) in [("records", &all), ("motor:step", &steps)] {
                let expect: Vec<Value> = all.iter().filter(keeps).cloned().collect();
                assert_same(&rows(&source, table, &scan), &expect, &format!("{table} {scan:?}"));
                // Few columns take another way; the order may be another one.
                let names: &[&str] =
                    if table == "records" { &["time", "cpu", "event"] } else { &["time", "axis", "position"] };
                let projection = Some(names.iter().map(|name| (*name).to_owned()).collect());
                let few = Scan { projection, any_order: true, ..scan.clone() };
                let pair = |row: &Value| names.iter().map(|name| row[*name].to_string()).collect::<Vec<_>>();
                let mut found: Vec<_> = rows(&source, table, &few).iter().map(pair).collect();
                let mut expect: Vec<_> = expect.iter().map(pair).collect();
                found.sort_unstable();
                expect.sort_unstable();
                assert_same(&found, &expect, &format!("{table} {few:?}"));
            }
        }
    }
}

#[test]
fn partitions_are_the_table() {
    for round in 0..4 {
        let (source, _dir) = open_indexed(&random(round, 2000));
        for table in ["records", "motor:step", "losses", "threads"] {
            let whole = rows(&source, table, &Scan::default());
            for wanted in [1, 2, 5] {
                let mut parts = Vec::new();
                for partition in source.partitions(table, wanted).unwrap() {
                    let text = serde_json::to_string(&partition).unwrap();
                    let partition = Some(serde_json::from_str(&text).unwrap());
                    parts.extend(rows(&source, table, &Scan { partition, ..Scan::default() }));
                }
                assert_same(&parts, &whole, &format!("{table} in {wanted}"));
            }
        }
        assert_eq!(source.partitions("records", 5).unwrap().len(), 5);
        // Without an index each of them would read all that is before it.
        let (source, _dir) = open(&random(round, 2000));
        assert_eq!(source.partitions("records", 5).unwrap().len(), 1);
    }
}

/// Rows that several threads read in parts are those that one thread reads, in its order.
#[test]
fn several_threads_read_what_one_reads() {
    for round in 0..4 {
        let (source, _dir) = open_indexed(&random(10 + round, 3000));
        let (first, last) = source.bounds().unwrap();
        let third = (last - first) / 3;
        let (from, to) = (Some(first + third), Some(first + 2 * third));
        let choices = [
            Scan::default(),
            Scan { from, to, ..Scan::default() },
            Scan { cpus: Some(vec![1]), any_order: true, ..Scan::default() },
            Scan { tids: Some(vec![110]), to, ..Scan::default() },
            Scan { limit: Some(7), ..Scan::default() },
        ];
        for table in source.tables() {
            let has = |name: &str| table.schema.field_with_name(name).is_ok();
            for scan in
                choices.iter().filter(|_| ["time", "cpu", "tid"].into_iter().all(has) && table.name != "latencies")
            {
                for (threads, records) in [(2, 50), (3, 1000)] {
                    let ahead = Ahead::threads(threads).in_parts_of(records);
                    let found = rows(&source, &table.name, &Scan { ahead, ..scan.clone() });
                    let what = format!("{} by {threads} threads in parts of {records}: {scan:?}", table.name);
                    assert_same(&found, &rows(&source, &table.name, scan), &what);
                }
            }
        }
        // Who takes no more ends all threads.
        let scan = Scan { ahead: Ahead::threads(4).in_parts_of(10), ..Scan::default() };
        drop(source.scan("records", &scan).unwrap().next());
        // What is wrong with a question is said before the first row.
        let wrong = Scan { projection: Some(vec!["nonsense".into()]), ..scan };
        assert!(matches!(source.scan("records", &wrong), Err(Error::UnknownColumn { .. })));
    }
}

#[test]
fn losses_and_damage_are_rows() {
    let mut made = small();
    made.lose(1, 5);
    made.switch(1, 2500, (0, 0), (30, "b", common::NICE));
    let (source, dir) = open(&made);
    let found = rows(&source, "losses", &Scan::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["records"], &found[0]["kind"], &found[0]["cpu"]), (&json!(5), &json!("lost"), &json!(1)));
    // A file that is cut: the records in front of the cut, and a row of damage.
    let file = dir.path().join("kernel_0");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    let source = Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap();
    let found = rows(&source, "losses", &Scan::default());
    assert!(found.iter().any(|row| row["kind"] == "damage" && row["stream"] == "kernel_0"), "{found:?}");
    assert_eq!(rows(&source, "records", &Scan::default()).len(), 19);
}

#[test]
fn threads_and_processes_are_those_of_the_records() {
    let (source, _dir) = open(&small());
    let found = rows(&source, "threads", &Scan::default());
    let short: Vec<Value> =
        found.iter().map(|row| json!([row["tid"], row["name"], row["time"], row["records"]])).collect();
    let learnt = short.iter().find(|row| row[0] == 20);
    assert_eq!(learnt.map(|row| &row[1]), Some(&json!("rt")), "{short:?}");
    let records: u64 = found.iter().filter_map(|row| row["records"].as_u64()).sum();
    let with_thread = rows(&source, "records", &Scan::default()).iter().filter(|row| !row["tid"].is_null()).count();
    assert_eq!(records, with_thread as u64);
    assert!(rows(&source, "processes", &Scan::default()).len() <= found.len());
}

#[test]
fn a_trace_without_records_has_tables_without_rows() {
    let mut made = Made::default();
    made.cpus_without_records();
    let (source, _dir) = open(&made);
    for table in source.tables() {
        let expect = usize::from(matches!(table.name.as_str(), "hosts" | "traces"));
        assert_eq!(rows(&source, &table.name, &Scan::default()).len(), expect, "{}", table.name);
    }
}
