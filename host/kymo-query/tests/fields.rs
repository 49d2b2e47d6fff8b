// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values over time in the index: answers that are made of it are those of all records, to the bit, but for means of
//! floating-point numbers.

use std::path::Path;

use crate::common::ask;
use crate::indexed::{damaged, index, made, open, window};
use crate::random_trace::{Plan, Random, damage};
use kymo_query::Opened;
use serde_json::{Value, json};

/// Streams of a kernel, and of programs in two classes of which the events have the same name.
const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; signed = true; } := i16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = le; } := f64;
typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; byte_order = le; } := f32;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 stream_id; }; };
clock { name = c; freq = 1300000000; offset = 12345; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
"#;
const STREAM: &str = "packet.context := struct {
        u32 vpid; u32 packet_size; u32 content_size; u32 cpu_id; u32 events_discarded; time timestamp_begin; time timestamp_end;
    };
    event.header := struct { u8 id; time timestamp; };";
const EVENTS: &str = r#"
event { stream_id = 0; id = 1; name = "sched_switch"; fields := struct {
    i32 prev_tid; i32 prev_prio; i64 prev_state; string next_comm; i32 next_tid; i32 next_prio; }; };
event { stream_id = 0; id = 2; name = "mixed"; fields := struct { i32 n; }; };
event { stream_id = 1; id = 1; name = "step"; fields := struct { f64 position; f32 speed; i16 axis; u64 big; }; };
event { stream_id = 1; id = 2; name = "said"; fields := struct { string text; i64 n; u8 last; }; };
event { stream_id = 1; id = 3; name = "mixed"; fields := struct { i32 n; }; };
event { stream_id = 2; id = 1; name = "step"; fields := struct { u8 other; i64 position; i16 axis; }; };
event { stream_id = 2; id = 2; name = "quiet"; fields := struct { u8 n; }; };
"#;

/// All fields of programs' events, and which of them the index can have.
const FIELDS: [(&str, bool); 9] = [
    ("step.position", true),
    ("step.speed", true),
    ("step.axis", true),
    ("step.big", true),
    ("step.other", true),
    ("said.n", true),
    ("said.last", true),
    ("mixed.n", false),
    ("sched_switch.next_tid", false),
];

/// What of a trace is random.
#[derive(Clone, Copy, Debug)]
struct Shape {
    streams: u32,
    records: u64,
    /// Of so many packets of programs, and of the kernel, one tells of a loss; 0: none does.
    lossy: [u64; 2],
    /// Cycles between two records at most.
    step: u64,
    with_kernel: bool,
    /// Packets of programs name their process: without, their losses may be of a kernel.
    with_process: bool,
}

fn packet(stream: u32, process: Option<u32>, [cpu, discarded]: [u32; 2], records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let content: Vec<u8> = records.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let bits = ((36 + 4 * process.iter().len() + content.len()) * 8) as u32;
    let mut bytes = Vec::new();
    bytes.extend(stream.to_le_bytes());
    process.iter().for_each(|process| bytes.extend(process.to_le_bytes()));
    [bits, bits, cpu, discarded].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend(records[0].0.to_le_bytes());
    bytes.extend(records[records.len() - 1].0.to_le_bytes());
    bytes.extend(content);
    bytes
}

fn fields_of(stream: u32, random: &mut Random) -> (u8, Vec<u8>) {
    let odd = [f64::NAN, f64::INFINITY, -0.0, 0.0, 1e18, -1.5];
    let float = |random: &mut Random| match random.below(12) {
        0 => odd[random.below(6) as usize],
        _ => random.below(10_000i64) as f64 / 7.0 - 500.0,
    };
    let small = (random.below(500) as i16 - 250).to_le_bytes();
    let big = (u64::MAX - random.below(1 << 40)).to_le_bytes();
    match (stream, random.below(8)) {
        (0, 0) => (2, 5i32.to_le_bytes().to_vec()),
        (0, _) => {
            let [a, b] = [1 + random.below(5i32), 1 + random.below(5i32)].map(i32::to_le_bytes);
            (1, [&a[..], &[20, 0, 0, 0], &[0; 8], b"x\0", &b, &[20, 0, 0, 0]].concat())
        }
        (1, 0..5) => {
            let (position, speed) = (float(random).to_le_bytes(), (float(random) as f32).to_le_bytes());
            (1, [&position[..], &speed, &small, &big].concat())
        }
        (1, 5 | 6) => {
            let text = &b"some words\0"[random.below(11) as usize..];
            (2, [text, &random.word().to_le_bytes(), &[random.below(9) as u8]].concat())
        }
        (1, _) => (3, 7i32.to_le_bytes().to_vec()),
        (_, _) => (1, [&[9][..], &(random.below(90_000i64) - 100).to_le_bytes(), &small].concat()),
    }
}

fn write(dir: &Path, shape: &Shape, random: &mut Random) {
    let named = |id| if id > 0 && shape.with_process { STREAM.to_owned() } else { STREAM.replace("u32 vpid; ", "") };
    let streams: String = (0..3).map(|id| format!("stream {{ id = {id}; {} }};", named(id))).collect();
    std::fs::write(dir.join("metadata"), format!("{METADATA}{streams}{EVENTS}")).unwrap();
    let kernel = u32::from(shape.with_kernel);
    for number in 0..kernel + shape.streams {
        let stream = if number < kernel { 0 } else { 1 + random.below(4u32) / 3 };
        let (mut time, mut discarded, mut bytes) = (1_000_000, 0, Vec::new());
        for _ in 0..shape.records / 20 {
            let mut records = Vec::new();
            for _ in 0..20 {
                time += random.below(shape.step);
                let (id, fields) = fields_of(stream, random);
                records.push((time, [&[id][..], &time.to_le_bytes(), &fields].concat()));
            }
            let lossy = shape.lossy[usize::from(stream == 0)];
            discarded += u32::from(lossy > 0 && random.below(lossy.max(1)) == 0);
            let process = Some(100 + number).filter(|_| stream > 0 && shape.with_process);
            bytes.extend(packet(stream, process, [number, discarded], &records));
        }
        std::fs::write(dir.join(format!("stream_{number}")), bytes).unwrap();
    }
}

fn is_of_index(answer: &Value) -> bool {
    answer["info"]["source"] == "index"
}

/// Numbers that differ in their last bits at most; texts are those of infinite ones.
fn is_near(a: &Value, b: &Value, size: f64) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * size.max(b.abs()),
        _ => a == b,
    }
}

/// Answers are the same. Whether that with an index was made of it.
#[track_caller]
fn same_answer(with: &Opened, without: &Opened, query: &str) -> bool {
    let [found, expect] = [with, without].map(|of| ask(of, "values", query));
    assert!(!is_of_index(&expect));
    let [bins, expected] = [&found, &expect].map(|answer| &answer["tables"]["bins"]);
    for (column, values) in expected.as_object().unwrap() {
        let [values, own] = [values, &bins[column]].map(|list| list.as_array().unwrap());
        assert_eq!(own.len(), values.len(), "{column} of {query}");
        for (row, (own, value)) in own.iter().zip(values).enumerate() {
            let end = |name: &str| expected[name][row].as_f64().map_or(f64::INFINITY, f64::abs);
            // Of values beyond any bound the sum may be of any order.
            let is_float = query.contains("position") || query.contains("speed");
            let is_same =
                own == value || column == "mean" && is_float && is_near(own, value, end("min").max(end("max")));
            assert!(is_same, "{column} of row {row}: {own}, and not {value}; {query}");
        }
    }
    assert_eq!(found["tables"]["losses"], expect["tables"]["losses"], "{query}");
    for part in ["lost", "notes", "from", "to"] {
        assert_eq!(found[part], expect[part], "{part} of {query}");
    }
    for part in ["not_numbers", "bins", "frame", "field"] {
        assert_eq!(found["info"][part], expect["info"][part], "{part} of {query}");
    }
    is_of_index(&found)
}

/// Windows of all lengths. How many were made of records, and of the index.
fn same(with: &Opened, without: &Opened, random: &mut Random, rounds: u32) -> [u32; 2] {
    let mut sources = [0; 2];
    for round in 0..rounds {
        let (from, to) = window(random, round, with.bounds.unwrap());
        let bins = 1 + random.below(200u32).pow(random.below(2u32));
        for (field, _) in FIELDS {
            let query = format!("field={field}&from={from}&to={to}&bins={bins}&grid=1");
            sources[usize::from(same_answer(with, without, &query))] += 1;
        }
    }
    sources
}

const SHAPE: Shape =
    Shape { streams: 4, records: 600, lossy: [0, 0], step: 5000, with_kernel: true, with_process: true };

#[test]
fn values_of_the_index_are_those_of_all_records() {
    let mut random = Random::new("fields", 5);
    let shapes = [
        SHAPE,
        // Many records and losses at one time.
        Shape { step: 3, streams: 9, lossy: [2, 2], ..SHAPE },
        Shape { lossy: [3, 5], ..SHAPE },
        Shape { lossy: [3, 5], with_process: false, ..SHAPE },
        // Columns that are twice as long more than once.
        Shape { records: 12_000, streams: 2, with_kernel: false, lossy: [40, 0], ..SHAPE },
        Shape { streams: 30, records: 100, step: 400, lossy: [0, 2], ..SHAPE },
        Shape { streams: 1, records: 20, with_kernel: false, ..SHAPE },
    ];
    for shape in shapes {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &shape, &mut random);
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        let [_, of_index] = same(&with, &without, &mut random, 15);
        assert!(of_index > 80, "{of_index} of 135 answers about {shape:?} were made of the index");
        for (field, is_in_index) in FIELDS {
            let index = with.indexes.traces[0].as_ref().unwrap();
            let (event, name) = field.split_once('.').unwrap();
            let is_there = index.field_times(event, name).is_some();
            let query = format!("field={field}&bins=1");
            let has_values = !ask(&without, "values", &query)["tables"]["bins"]["bin"].as_array().unwrap().is_empty();
            // A stream of a kernel that begins with another record is scanned, too.
            if event != "mixed" {
                assert_eq!(is_there, is_in_index && has_values, "{field} of {shape:?}");
            }
        }
    }
}

/// The columns alone: nothing else may be right by chance.
#[test]
fn the_whole_trace_is_made_of_columns() {
    let mut random = Random::new("whole_fields", 1);
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &Shape { records: 6000, lossy: [9, 9], ..SHAPE }, &mut random);
    index(dir.path());
    let [mut with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
    with.indexes.states = None;
    for field in ["step.position", "step.speed", "step.axis", "step.big", "said.n", "said.last"] {
        for bins in [1, 7, 100] {
            assert!(same_answer(&with, &without, &format!("field={field}&bins={bins}&grid=1")), "{field}");
        }
    }
    // What the columns do not have; of one the records are read, of streams that have it.
    assert!(!same_answer(&with, &without, "field=step.axis&bins=100&grid=1&filter=axis>3"));
    for query in ["field=sched_switch.next_tid&bins=100&grid=1", "field=step.axis&bins=100", "field=step.axis"] {
        assert!(same_answer(&with, &without, query), "{query}");
    }
    let found = ask(&with, "values", "field=step.axis&bins=100&grid=1");
    let (from, to) = (found["info"]["frame"][0].as_i64().unwrap(), found["info"]["frame"][1].as_i64().unwrap());
    let bins = found["info"]["bins"].as_i64().unwrap();
    assert!((70..=152).contains(&bins) && (to - from) % bins == 0, "{bins} bins from {from} to {to}");
    assert!(u64::try_from((to - from) / bins).unwrap().is_power_of_two());
    assert_eq!(ask(&with, "values", "field=step.axis&bins=100")["info"]["bins"], json!(null));
}

#[test]
fn values_of_damaged_traces_are_those_of_all_records() {
    let mut random = Random::new("damaged_fields", 5);
    for round in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &Shape { lossy: [3, 3], records: 200, ..SHAPE }, &mut random);
        damage(dir.path(), &mut random, round % 4).unwrap();
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        same(&with, &without, &mut random, 4);
    }
}

#[test]
fn damaged_columns_are_told_of_and_not_believed() {
    let dir = made(&Plan { records: 60, user: 3000, ..Plan::default() });
    let query = "field=motor:step.axis&bins=20&grid=1";
    let expect = ask(&open(dir.path(), false), "values", query);
    let found = damaged(&index(dir.path()), 300, |of| {
        let found = ask(of, "values", query);
        let (is_of_index, is_right) = (is_of_index(&found), found["tables"] == expect["tables"]);
        (found, is_of_index, is_right)
    });
    assert!(found.wrong.is_empty(), "bytes {:?}", found.wrong);
    assert!(found.told > 0 && found.of_index > 0, "{} and {}", found.told, found.of_index);
}
