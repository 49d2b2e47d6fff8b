// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of traces of which every bit is given: enumerations of several classes, fields that begin within a byte,
//! packets and records that are larger than a batch.

#[path = "../../kymo-query/tests/common/mod.rs"]
mod common;
mod support;

use std::path::Path;

use arrow_array::cast::AsArray as _;
use kymo_tables::{Error, OpenOptions, Scan, Source, TableFunction};
use serde_json::{Value, json};
use support::{rows, rows_of};
use tempfile::TempDir;

/// In front of a stream and its events. Records begin with an id and a time, a byte each; a stream is one packet.
const HEAD: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
trace { major = 1; minor = 8; byte_order = le; };
env { hostname = "HOST"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 8; align = 8; map = clock.c.value; } := time;
"#;
const STREAM: &str = "stream { event.header := struct { u8 id; time timestamp; }; };\n";

fn write(dir: &Path, metadata: &str, stream: &[u8]) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("metadata"), metadata).unwrap();
    std::fs::write(dir.join("stream"), stream).unwrap();
}

fn open(metadata: &str, stream: &[u8]) -> (Source, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), metadata, stream);
    (Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap(), dir)
}

/// These columns, in any order of rows.
fn of_columns(names: &[&str]) -> Scan {
    let projection = Some(names.iter().map(|name| (*name).to_owned()).collect());
    Scan { projection, any_order: true, ..Scan::default() }
}

#[test]
fn labels_are_those_of_the_class_of_each_record() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |labels: &str| {
        let fields = format!("enum : u8 {{ {labels} }} mode;");
        format!("{HEAD}{STREAM}event {{ id = 1; name = \"motor:mode\"; fields := struct {{ {fields} }}; }};")
    };
    // Both versions of a program were recorded on one machine: their records come into one batch.
    write(&dir.path().join("v1"), &mode("idle = 0, run = 1"), &[1, 10, 0, 1, 11, 1]);
    write(&dir.path().join("v2"), &mode("off = 0, on = 1"), &[1, 12, 0, 1, 13, 1]);
    let source = Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap();
    let found = rows(&source, "motor:mode", &of_columns(&["mode", "mode.value"]));
    let mut found: Vec<_> = found.iter().map(|row| json!([row["mode"], row["mode.value"]]).to_string()).collect();
    found.sort();
    assert_eq!(found, [r#"["idle",0]"#, r#"["off",0]"#, r#"["on",1]"#, r#"["run",1]"#]);
}

/// Bits from the lowest of each byte on.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: u64, bits: usize) {
        for bit in 0..bits {
            if self.count % 8 == 0 {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }
}

#[test]
fn fields_may_begin_within_a_byte() {
    let metadata = format!(
        "{HEAD}stream {{ event.header := struct {{ integer {{ size = 5; align = 1; }} id;
            integer {{ size = 16; align = 1; map = clock.c.value; }} timestamp; }}; }};
        event {{ id = 3; name = \"bit:packed\"; fields := struct {{ integer {{ size = 32; align = 1; }} x; }}; }};"
    );
    let numbers: Vec<u64> = (1..=800).map(|at| at * 5_000_011 % 0xFFFF_FFFF).collect();
    let mut bits = Bits::default();
    for (at, number) in (1..).zip(&numbers) {
        bits.put(3, 5);
        bits.put(at, 16);
        bits.put(*number, 32);
    }
    let (source, _dir) = open(&metadata, &bits.bytes);
    let slow = rows(&source, "bit:packed", &Scan::default());
    assert_eq!(slow.iter().map(|row| row["x"].as_u64().unwrap()).collect::<Vec<_>>(), numbers);
    let fast = rows(&source, "bit:packed", &of_columns(&["x"]));
    assert_eq!(fast.iter().map(|row| row["x"].as_u64().unwrap()).collect::<Vec<_>>(), numbers);
}

#[test]
fn batches_are_small_though_packets_are_large() {
    let event = "event { id = 1; name = \"motor:step\"; fields := struct { u32 axis; }; };";
    let stream: Vec<u8> =
        (0..40_000u32).flat_map(|at| [[1, at as u8].as_slice(), &at.to_le_bytes()].concat()).collect();
    let (source, _dir) = open(&format!("{HEAD}{STREAM}{event}"), &stream);
    let (mut most, mut sum) = (0, 0u64);
    for batch in source.scan("motor:step", &of_columns(&["axis"])).unwrap() {
        let batch = batch.unwrap();
        most = most.max(batch.num_rows());
        let axes = batch.column(0).as_primitive::<arrow_array::types::UInt32Type>();
        sum += axes.values().iter().map(|axis| u64::from(*axis)).sum::<u64>();
    }
    assert_eq!((most, sum), (8192, 40_000 * 39_999 / 2));
}

#[test]
fn batches_are_small_though_records_are_large() {
    let event = "event { id = 1; name = \"motor:note\"; fields := struct { string text; }; };";
    let note = |at: u32| [[1, at as u8].as_slice(), "x".repeat(50_000).as_bytes(), &[0]].concat();
    let stream: Vec<u8> = (0..1000).flat_map(note).collect();
    let (source, _dir) = open(&format!("{HEAD}{STREAM}{event}"), &stream);
    for (table, column) in [("records", "fields"), ("motor:note", "text")] {
        let (mut most, mut rows) = (0, 0);
        for batch in source.scan(table, &of_columns(&[column])).unwrap() {
            let batch = batch.unwrap();
            rows += batch.num_rows();
            most = most.max(batch.column(0).as_string::<i32>().value_data().len());
        }
        assert_eq!(rows, 1000, "{table}");
        assert!((10 << 20..17 << 20).contains(&most), "{table}: {most} bytes in a batch");
    }
}

#[test]
fn a_filter_may_name_what_only_another_machine_has() {
    let dir = tempfile::tempdir().unwrap();
    let step = |fields: &str| {
        format!("{HEAD}{STREAM}event {{ id = 1; name = \"motor:step\"; fields := struct {{ {fields} }}; }};")
    };
    write(&dir.path().join("a"), &step("u8 axis; u8 speed;"), &[1, 10, 2, 0, 1, 11, 3, 9, 1, 12, 3, 0]);
    write(&dir.path().join("b"), &step("u8 speed;").replace("HOST", "other"), &[1, 20, 9, 1, 21, 0]);
    let source = Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap();
    let scan = |filter: &str| Scan { filter: Some(filter.to_owned()), ..Scan::default() };
    let times = |table: &str, filter: &str| {
        let mut times: Vec<i64> =
            rows(&source, table, &scan(filter)).iter().map(|row| row["time"].as_i64().unwrap()).collect();
        times.sort_unstable();
        times
    };
    for table in ["motor:step", "records"] {
        assert_eq!(times(table, "axis == 2 || speed > 3"), [10, 11, 20], "{table}");
        assert_eq!(times(table, "axis == 3"), [11, 12], "{table}");
        assert_eq!(times(table, "!has(axis)"), [20, 21], "{table}");
    }
    assert!(source.scan("motor:step", &scan("axsi == 2")).is_err_and(|error| error.to_string().contains("axsi")));
}

/// In front of the events of a stream whose packets tell of times and losses.
const PACKETS: &str = "stream { packet.context := struct {
        u32 packet_size; u32 content_size; u32 events_discarded; time timestamp_begin; time timestamp_end; };
    event.header := struct { u8 id; time timestamp; }; };\n";

/// An event, a time, and a field of four bytes.
fn record(id: u8, time: u8, field: u8) -> [u8; 6] {
    [id, time, field, 0, 0, 0]
}

/// Packets of a program; records were lost in the second one, or between it and the one before.
fn with_a_loss(packets: [&[[u8; 6]]; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (records, lost) in packets.iter().zip([0u32, 3, 3]) {
        let bits = (14 + 6 * records.len()) as u32 * 8;
        [bits, bits, lost].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend([records[0][1], records[records.len() - 1][1]]);
        records.iter().for_each(|record| bytes.extend(record));
    }
    bytes
}

#[test]
fn losses_of_programs_make_spans_doubtful() {
    let metadata = format!(
        "{HEAD}{PACKETS}
        event {{ id = 1; name = \"axis:begin\"; fields := struct {{ u32 n; }}; }};
        event {{ id = 2; name = \"axis:end\"; fields := struct {{ u32 n; }}; }};"
    );
    let first = [record(1, 10, 7), record(2, 11, 7), record(1, 12, 8)];
    let second = [record(2, 30, 8), record(1, 33, 9)];
    let third = [record(2, 40, 9), record(1, 41, 10), record(2, 42, 10)];
    let (source, _dir) = open(&metadata, &with_a_loss([&first, &second, &third]));
    let span = TableFunction::Span { begin: "axis:begin".into(), end: "axis:end".into(), by: Some("n".into()) };
    let found = rows_of(source.scan_function(&span, &Scan::default()).unwrap());
    let short: Vec<Value> = found.iter().map(|row| json!([row["time"], row["end_time"], row["doubt"]])).collect();
    assert_eq!(json!(short), json!([[10, 11, null], [12, 30, "lost"], [33, 40, null], [41, 42, null]]));
}

#[test]
fn functions_that_are_too_deep_do_not_end_others() {
    let event = |id, name: &str| {
        let name = format!("lttng_ust_cyg_profile:func_{name}");
        format!("event {{ id = {id}; name = \"{name}\"; fields := struct {{ u32 addr; }}; }};\n")
    };
    let metadata = format!("{HEAD}{STREAM}{}{}", event(1, "entry"), event(2, "exit"));
    let depth = 5000u64;
    let record = |at: u64| [[if at < depth { 1 } else { 2 }, at as u8].as_slice(), &7u32.to_le_bytes()].concat();
    let (source, _dir) = open(&metadata, &(0..2 * depth).flat_map(record).collect::<Vec<u8>>());
    let found = rows(&source, "slices", &Scan::default());
    assert_eq!(found.len(), 4096);
    for row in found {
        let (own, time) = (row["depth"].as_u64().unwrap(), row["time"].as_u64().unwrap());
        assert_eq!((time, row["duration_ns"].as_u64()), (own, Some(2 * (depth - own) - 1)), "{row}");
    }
}

#[test]
fn calls_that_a_loss_touches_are_doubtful() {
    let metadata = format!(
        "{HEAD}{PACKETS}
        event {{ id = 1; name = \"lttng_ust_cyg_profile:func_entry\"; fields := struct {{ u32 addr; }}; }};
        event {{ id = 2; name = \"lttng_ust_cyg_profile:func_exit\"; fields := struct {{ u32 addr; }}; }};"
    );
    let first = [record(1, 10, 7), record(1, 11, 8), record(2, 12, 8)];
    let second = [record(1, 30, 9), record(2, 31, 9)];
    let third = [record(1, 40, 9), record(2, 41, 9), record(2, 42, 7)];
    let (source, _dir) = open(&metadata, &with_a_loss([&first, &second, &third]));
    let found = rows(&source, "slices", &Scan::default());
    let short: Vec<Value> = found.iter().map(|row| json!([row["time"], row["end_time"], row["doubt"]])).collect();
    // The one in the second packet begins while some may have been lost.
    assert_eq!(json!(short), json!([[11, 12, null], [30, 31, "lost"], [40, 41, null], [10, 42, "lost"]]));
}

/// Of full times, so that one may be earlier than the one before.
fn stream_of_times(times: &[u64]) -> (String, Vec<u8>) {
    let metadata = format!(
        "{HEAD}stream {{ event.header := struct {{ u8 id;
            integer {{ size = 64; align = 8; map = clock.c.value; }} timestamp; }}; }};
        event {{ id = 1; name = \"motor:step\"; fields := struct {{ u8 axis; }}; }};
        event {{ id = 2; name = \"lttng_ust_tracef:event\"; fields := struct {{ string msg; }}; }};"
    );
    (metadata, times.iter().flat_map(|time| [[1].as_slice(), &time.to_le_bytes(), &[2]].concat()).collect())
}

#[test]
fn an_index_that_knows_of_odd_times_loses_no_row() {
    let (metadata, stream) = stream_of_times(&[10, 30, 20, 40]);
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &metadata, &stream);
    let source = support::index(dir.path());
    let sorted = |scan: &Scan| {
        let mut times: Vec<i64> =
            rows(&source, "motor:step", scan).iter().map(|row| row["time"].as_i64().unwrap()).collect();
        times.sort_unstable();
        times
    };
    for names in [&["time"][..], &["time", "tid"]] {
        let all = of_columns(names);
        assert_eq!(sorted(&all), [10, 20, 30, 40]);
        assert_eq!(sorted(&Scan { to: Some(25), ..all.clone() }), [10, 20], "{names:?}");
        assert_eq!(sorted(&Scan { from: Some(15), to: Some(25), ..all.clone() }), [20], "{names:?}");
        assert_eq!(sorted(&Scan { from: Some(25), ..all.clone() }), [30, 40], "{names:?}");
        assert_eq!(sorted(&Scan { to: Some(25), any_order: false, ..all }), [10, 20], "{names:?}");
    }
    assert!(!source.is_indexed());
    assert_eq!(source.partitions("records", 4).unwrap().len(), 1);
}

#[test]
fn two_processes_with_a_thread_of_one_number_are_two_threads() {
    let metadata = format!(
        "{HEAD}stream {{ event.header := struct {{ u8 id; time timestamp; }};
            event.context := struct {{ u32 vpid; u32 vtid; }}; }};
        event {{ id = 1; name = \"motor:step\"; fields := struct {{ u8 axis; }}; }};"
    );
    // Two containers; the process of the one in between is not known yet.
    let record = |at: u8| [1, at, 100 + at % 2, 0, 0, 0, 5, 0, 0, 0, 1];
    let (source, _dir) = open(&metadata, &(0..6).flat_map(record).collect::<Vec<u8>>());
    let found = rows(&source, "threads", &Scan::default());
    let short: Vec<Value> =
        found.iter().map(|row| json!([row["tid"], row["pid"], row["time"], row["records"]])).collect();
    assert_eq!(json!(short), json!([[5, 100, 0, 3], [5, 101, 1, 3]]));
    let found = rows(&source, "processes", &Scan::default());
    let short: Vec<Value> = found.iter().map(|row| json!([row["pid"], row["threads"], row["records"]])).collect();
    assert_eq!(json!(short), json!([[100, 1, 3], [101, 1, 3]]));
}

/// A packet of one process: a record of another event, then steps of these threads.
fn packet_of_process(pid: u32, name: &[u8; 4], time: u8, threads: &[u32]) -> Vec<u8> {
    let bits = (17 + 7 + 10 * threads.len() as u32) * 8;
    let mut bytes: Vec<u8> = [bits, bits, pid].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.push((pid % 2) as u8);
    bytes.extend(name);
    bytes.extend([2, time, 7, 0, 0, 0, 1]);
    for (tid, at) in threads.iter().zip(1u8..) {
        bytes.extend([1, time + at]);
        bytes.extend(tid.to_le_bytes());
        bytes.extend(u32::from(at).to_le_bytes());
    }
    bytes
}

#[test]
fn writers_are_those_of_the_packet_and_of_the_record() {
    let metadata = format!(
        "{HEAD}typealias integer {{ size = 8; align = 8; encoding = UTF8; }} := letter;
        stream {{ packet.context := struct {{
                u32 packet_size; u32 content_size; u32 vpid; u8 cpu_id; letter procname[4]; }};
            event.header := struct {{ u8 id; time timestamp; }}; event.context := struct {{ u32 vtid; }}; }};
        event {{ id = 1; name = \"motor:step\"; fields := struct {{ u32 axis; }}; }};
        event {{ id = 2; name = \"motor:other\"; fields := struct {{ u8 x; }}; }};"
    );
    let packets = [
        packet_of_process(100, b"arm\0", 10, &[100, 101, u32::MAX]),
        packet_of_process(200, b"legs", 20, &[200, 201]),
        packet_of_process(100, b"arm\0", 30, &[101]),
    ];
    let (source, _dir) = open(&metadata, &packets.concat());
    let names = ["time", "cpu", "pid", "tid", "proc", "axis"];
    let any_order = of_columns(&names);
    let fast = rows(&source, "motor:step", &any_order);
    let short: Vec<Value> = fast.iter().map(|row| json!(names.map(|name| row[name].clone()))).collect();
    let expect = json!([
        [11, 0, 100, 100, "arm", 1],
        [12, 0, 100, 101, "arm", 2],
        [13, 0, 100, null, "arm", 3],
        [21, 0, 200, 200, "legs", 1],
        [22, 0, 200, 201, "legs", 2],
        [31, 0, 100, 101, "arm", 1],
    ]);
    assert_eq!(json!(short), expect);
    // In the order of time, and with a filter, which looks at each record.
    let ordered = Scan { any_order: false, ..any_order.clone() };
    assert_eq!(rows(&source, "motor:step", &ordered), fast);
    assert_eq!(rows(&source, "motor:step", &Scan { filter: Some("axis >= 0".into()), ..any_order }), fast);
}

#[test]
fn a_bad_trace_among_good_ones_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let event = "event { id = 1; name = \"motor:step\"; fields := struct { u8 axis; }; };";
    write(&dir.path().join("good"), &format!("{HEAD}{STREAM}{event}"), &[1, 10, 2]);
    let bad = dir.path().join("bad");
    write(&bad, "/* CTF 1.8 */ stream {", &[]);
    let options = OpenOptions::default();
    assert!(matches!(Source::open(std::slice::from_ref(&bad), &options), Err(Error::Open(_))));
    let source = Source::open(&[dir.path().to_owned()], &options).unwrap();
    assert_eq!(rows(&source, "motor:step", &Scan::default()).len(), 1);
    let found = rows(&source, "losses", &Scan::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["kind"], &found[0]["trace"]), (&json!("unreadable"), &json!(bad.to_str().unwrap())));
    assert!(found[0]["what"].as_str().is_some_and(|what| what.contains("metadata")), "{found:?}");
    // In one part, and not where rows of a time are asked for.
    let all: usize = source
        .partitions("losses", 3)
        .unwrap()
        .into_iter()
        .map(|partition| rows(&source, "losses", &Scan { partition: Some(partition), ..Scan::default() }).len())
        .sum();
    assert_eq!(all, 1);
    assert!(rows(&source, "losses", &Scan { from: Some(0), ..Scan::default() }).is_empty());
    // What is named and is not there is a mistake.
    let paths = [dir.path().to_owned(), dir.path().join("none")];
    assert!(Source::open(&paths, &options).is_err());
}

#[test]
fn what_a_table_does_not_have_chooses_no_rows_of_it() {
    let event = "event { id = 1; name = \"motor:step\"; fields := struct { u8 axis; }; };";
    let (source, _dir) = open(&format!("{HEAD}{STREAM}{event}"), &[1, 10, 2]);
    for (table, scan, column) in [
        ("losses", Scan { tids: Some(vec![7]), ..Scan::default() }, "tid"),
        ("hosts", Scan { cpus: Some(vec![0]), ..Scan::default() }, "cpu"),
        ("processes", Scan { tids: Some(vec![7]), ..Scan::default() }, "tid"),
        ("marks", Scan { end_to: Some(7), ..Scan::default() }, "end_time"),
        ("records", Scan { end_from: Some(7), ..Scan::default() }, "end_time"),
    ] {
        let error = source.scan(table, &scan).err().map(|error| error.to_string());
        assert_eq!(error, Some(format!("table {table:?}: it has no column {column}")));
    }
}

#[test]
fn times_that_no_column_can_hold_are_null_in_all_tables() {
    let (metadata, mut stream) = stream_of_times(&[10, 1 << 63]);
    stream.extend([[2].as_slice(), &(1u64 << 63).to_le_bytes(), b"late\0"].concat());
    let (source, _dir) = open(&metadata, &stream);
    for (table, expect) in [("records", json!([10, null, null])), ("marks", json!([null]))] {
        let found: Vec<Value> =
            rows(&source, table, &Scan::default()).into_iter().map(|row| row["time"].clone()).collect();
        assert_eq!(json!(found), expect, "{table}");
        // Null is not in any stretch of time.
        let scan = Scan { from: Some(5), ..Scan::default() };
        assert!(rows(&source, table, &scan).iter().all(|row| !row["time"].is_null()), "{table}");
    }
    let hosts = rows(&source, "hosts", &Scan::default());
    assert_eq!((&hosts[0]["time"], &hosts[0]["end_time"]), (&json!(10), &Value::Null));
}

#[test]
fn a_result_that_is_named_is_of_no_machine() {
    let event = "event { id = 1; name = \"motor:step\"; fields := struct { u8 axis; }; };";
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("trace"), &format!("{HEAD}{STREAM}{event}"), &[1, 10, 2]);
    let result = json!({ "schema": "kymo-lab-1", "test": "wakeup", "series": [{ "name": "wakeup", "cpu": 1 }] });
    let (beside, named) = (dir.path().join("trace/a.json"), dir.path().join("b.json"));
    [&beside, &named].iter().for_each(|path| std::fs::write(path, result.to_string()).unwrap());
    let paths = [dir.path().join("trace"), named.clone()];
    let source = Source::open(&paths, &OpenOptions::default()).unwrap();
    let found = rows(&source, "lab_results", &Scan::default());
    let host =
        |path: &Path| found.iter().find(|row| row["file"] == json!(path.to_str().unwrap())).unwrap()["host"].clone();
    assert!(host(&beside).is_string(), "{found:?}");
    assert_eq!(host(&named), Value::Null);
}

/// With an environment and a clock of its own.
fn of_machine(env: &str, clock: &str) -> String {
    let head = HEAD.replace("hostname = \"HOST\";", env).replace("freq = 1000000000;", clock);
    format!("{head}{STREAM}event {{ id = 1; name = \"motor:step\"; fields := struct {{ u8 axis; }}; }};")
}

#[test]
fn hosts_and_traces_tell_of_kernel_and_distribution() {
    let dir = tempfile::tempdir().unwrap();
    let new = [
        "hostname = \"a\"; kernel_release = \"6.12.57-rt\"; kernel_version = \"#1 SMP PREEMPT_RT\";",
        "architecture = \"aarch64\"; distribution = \"Debian GNU/Linux 13 (trixie)\";",
        "recorded_by = \"kymo 0.1.0\"; tracer_major = 3;",
    ]
    .concat();
    let plain = "freq = 1000000000;";
    write(&dir.path().join("a1"), &of_machine(&new, plain), &[1, 10, 2]);
    // Another trace of that machine, which is read together with it, and says less.
    write(&dir.path().join("a2"), &of_machine("hostname = \"a\";", plain), &[1, 20, 2, 1, 21, 3]);
    write(&dir.path().join("b"), &of_machine("hostname = \"b\"; kernel_release = \"6.1\";", plain), &[1, 10, 2]);
    let source = Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap();
    let names = ["host", "kernel_release", "kernel_version", "architecture", "distribution"];
    let found = rows(&source, "hosts", &Scan::default());
    let mut short: Vec<Value> = found.iter().map(|row| json!(names.map(|name| &row[name]))).collect();
    short.sort_by_key(|row| row[0].to_string());
    let of_a = json!(["a", "6.12.57-rt", "#1 SMP PREEMPT_RT", "aarch64", "Debian GNU/Linux 13 (trixie)"]);
    let of_b = json!(["b", "6.1", null, null, null]);
    assert_eq!(short, [of_a.clone(), of_b.clone()]);

    let mut found = rows(&source, "traces", &Scan::default());
    found.sort_by_key(|row| row["trace"].to_string());
    let short: Vec<Value> = found.iter().map(|row| json!(names.map(|name| &row[name]))).collect();
    assert_eq!(short, [of_a, json!(["a", null, null, null, null]), of_b]);
    let sizes: Vec<Value> =
        found.iter().map(|row| json!([row["streams"], row["bytes"], row["is_indexed"], row["recorded_by"]])).collect();
    let expect = [json!([1, 3, false, "kymo 0.1.0"]), json!([1, 6, false, null]), json!([1, 3, false, null])];
    assert_eq!(sizes, expect);
    let environment: Value = serde_json::from_str(found[0]["environment"].as_str().unwrap()).unwrap();
    assert_eq!((&environment["tracer_major"], &environment["hostname"]), (&json!(3), &json!("a")));
    // They join with the records by the directory.
    let records = rows(&source, "records", &of_columns(&["trace"]));
    let of = |trace: &Value| records.iter().filter(|row| row["trace"] == *trace).count();
    assert_eq!(found.iter().map(|row| of(&row["trace"])).collect::<Vec<_>>(), [1, 2, 1]);
    // Each row once, whoever asks for how many parts.
    assert_eq!(source.partitions("traces", 8).unwrap().len(), source.partitions("hosts", 8).unwrap().len());
    let error = source.scan("traces", &Scan { from: Some(5), ..Scan::default() }).err().unwrap().to_string();
    assert_eq!(error, "table \"traces\": it has no column time");
}

#[test]
fn a_trace_with_an_index_says_so() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &of_machine("hostname = \"a\";", "freq = 1000000000;"), &[1, 10, 2]);
    let found = rows(&support::index(dir.path()), "traces", &Scan::default());
    assert_eq!((&found[0]["is_indexed"], &found[0]["streams"]), (&json!(true), &json!(1)));
}

#[test]
fn times_have_a_zone_only_if_all_clocks_count_from_1970() {
    let dir = tempfile::tempdir().unwrap();
    let since_1970 = "freq = 1000000000; absolute = TRUE; offset_s = 1700000000;";
    write(&dir.path().join("a"), &of_machine("hostname = \"a\";", since_1970), &[1, 10, 2]);
    write(&dir.path().join("b"), &of_machine("hostname = \"b\";", "freq = 1000000000;"), &[1, 20, 3]);
    let zone = |path: &Path| {
        let source = Source::open(&[path.to_owned()], &OpenOptions::default()).unwrap();
        let of = |table: &str| source.schema(table).unwrap().field_with_name("time").unwrap().data_type().to_string();
        let types: Vec<String> = ["records", "motor:step", "marks", "hosts", "wakeups"].map(of).to_vec();
        assert!(types.windows(2).all(|pair| pair[0] == pair[1]), "{types:?}");
        (source.is_absolute(), types[0].contains("UTC"))
    };
    assert_eq!(zone(&dir.path().join("a")), (true, true));
    assert_eq!(zone(&dir.path().join("b")), (false, false));
    assert_eq!(zone(dir.path()), (false, false));
    // The rows of both are there, each with the time of its own clock.
    let source = Source::open(&[dir.path().to_owned()], &OpenOptions::default()).unwrap();
    let found = rows(&source, "motor:step", &Scan::default());
    let mut found: Vec<Value> = found.iter().map(|row| json!([row["time"], row["axis"], row["host"]])).collect();
    found.sort_by_key(|row| row[0].as_i64());
    assert_eq!(found, [json!([20, 3, "b"]), json!([1_700_000_000_000_000_010i64, 2, "a"])]);
    let scan = Scan { from: Some(1_000), ..Scan::default() };
    assert_eq!(rows(&source, "motor:step", &scan).len(), 1);
}

#[test]
fn marks_have_the_texts_of_people_and_programs() {
    let event = |id: u8, name: &str, field: &str| {
        format!("event {{ id = {id}; name = \"{name}\"; fields := struct {{ string {field}; }}; }};\n")
    };
    let events = [
        event(1, "kymo_mark", "text"),
        event(2, "lttng_ust_tracef:event", "msg"),
        event(3, "ftrace:print", "buf"),
        event(4, "bputs", "str"),
        event(5, "lttng_ust_tracelog:TRACE_INFO", "msg"),
        event(6, "motor:note", "text"),
    ];
    let mark = |id: u8, at: u8, text: &str| [[id, at].as_slice(), text.as_bytes(), &[0]].concat();
    let stream = [
        mark(1, 10, "begin of the test"),
        mark(2, 11, "a line\n"),
        mark(6, 12, "a field of an event is no mark"),
        mark(3, 13, "trace_printk: 7\n"),
        mark(4, 14, ""),
        mark(5, 15, "log"),
    ];
    let (source, _dir) = open(&format!("{HEAD}{STREAM}{}", events.concat()), &stream.concat());
    let short = |scan: &Scan| {
        let found = rows(&source, "marks", scan);
        found.iter().map(|row| json!([row["time"], row["event"], row["text"], row["host"]])).collect::<Vec<_>>()
    };
    let expect = [
        json!([10, "kymo_mark", "begin of the test", "HOST"]),
        json!([11, "lttng_ust_tracef:event", "a line", "HOST"]),
        json!([13, "ftrace:print", "trace_printk: 7", "HOST"]),
        json!([14, "bputs", null, "HOST"]),
        json!([15, "lttng_ust_tracelog:TRACE_INFO", "log", "HOST"]),
    ];
    assert_eq!(short(&Scan::default()), expect);
    assert_eq!(short(&Scan { from: Some(11), to: Some(14), ..Scan::default() }), expect[1..3]);
}
