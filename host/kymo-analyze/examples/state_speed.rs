// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the state goes over records: `cargo run --release -p kymo-analyze --example state_speed [RECORDS]`.
//!
//! Records of two CPUs in memory: threads that wake each other, interrupts, system calls, as a busy machine writes
//! them. Printed: records a second of one core with no sink, with latencies, and with latencies and history. Decoding
//! by plans is part of it; a trace format is not.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use kymo_analyze::{Class, Field, Head, History, Latency, Options, Plan, Record, Sink, State, ValueKind, Vocabulary};

/// Names and fields of the classes, text last.
const CLASSES: [(&str, &[&str]); 10] = [
    ("sched_switch", &["prev_tid", "prev_prio", "prev_state", "next_tid", "next_prio", "next_comm"]),
    ("sched_waking", &["tid", "prio", "target_cpu", "comm"]),
    ("sched_wakeup", &["tid", "prio", "target_cpu", "comm"]),
    ("irq_handler_entry", &["irq", "name"]),
    ("irq_handler_exit", &["irq", "ret"]),
    ("irq_softirq_raise", &["vec"]),
    ("irq_softirq_entry", &["vec"]),
    ("irq_softirq_exit", &["vec"]),
    ("syscall_entry_read", &["fd", "count"]),
    ("syscall_exit_read", &["ret"]),
];
/// Threads.
const THREADS: i64 = 200;

struct Row {
    class: usize,
    head: Head,
    values: [i64; 5],
    name: &'static str,
}

impl Record for Row {
    fn integer(&self, position: usize) -> Option<i128> {
        self.values.get(position).map(|value| (*value).into())
    }

    fn float(&self, _: usize) -> Option<f64> {
        None
    }

    fn text(&self, _: usize) -> Option<Cow<'_, str>> {
        Some(self.name.into())
    }
}

/// A round of one CPU: a call, an interrupt that wakes a thread, the switch to it.
fn round(number: i64, rows: &mut Vec<Row>) {
    let cpu = (number % 2) as u32;
    let (before, next) = (1 + number % THREADS, 1 + (number + 2) % THREADS);
    let records: [(usize, [i64; 5]); 10] = [
        (8, [3, 100, 0, 0, 0]),
        (3, [24, 0, 0, 0, 0]),
        (5, [3, 0, 0, 0, 0]),
        (4, [24, 1, 0, 0, 0]),
        (6, [3, 0, 0, 0, 0]),
        (1, [next, 20, cpu.into(), 0, 0]),
        (2, [next, 20, cpu.into(), 0, 0]),
        (7, [3, 0, 0, 0, 0]),
        (0, [before, 20, 1, next, 20]),
        (9, [100, 0, 0, 0, 0]),
    ];
    for (class, values) in records {
        let time = rows.len() as i64 * 100;
        // The return is the next thread's, of its call before.
        let tid = if class == 9 { next } else { before };
        let head = Head { time, cpu: Some(cpu), tid: Some(tid as i32) };
        rows.push(Row { class, head, values, name: "a-thread" });
    }
}

fn main() {
    let wanted: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000_000);
    let mut rows = Vec::with_capacity(wanted + 10);
    let mut number = 0;
    while rows.len() < wanted {
        round(number, &mut rows);
        number += 1;
    }
    let mut vocabulary = Vocabulary::new();
    let plans: Vec<Plan> = CLASSES.iter().filter_map(|class| vocabulary.learn(&describe(class))).collect();
    assert_eq!(plans.len(), CLASSES.len());
    measure("state alone", &rows, &plans, &vocabulary, ());
    measure("with latencies", &rows, &plans, &vocabulary, Latency::new(Options::default()));
    let both = (Latency::new(Options::default()), History::new(i64::MIN, i64::MAX, 1 << 20));
    measure("with latencies and history", &rows, &plans, &vocabulary, both);
}

fn describe((name, fields): &(&str, &[&str])) -> Class {
    let field = |(position, name): (usize, &&str)| {
        let kind = if name.ends_with("comm") || *name == "name" { ValueKind::Text } else { ValueKind::Integer };
        Field { name: (*name).to_owned(), kind, position }
    };
    Class { name: (*name).to_owned(), fields: fields.iter().enumerate().map(field).collect() }
}

fn measure(what: &str, rows: &[Row], plans: &[Plan], vocabulary: &Vocabulary, mut sink: impl Sink) {
    let mut state = State::new(vocabulary);
    let begin = Instant::now();
    for row in rows {
        if let Some(event) = plans[row.class].decode(row) {
            state.apply(&row.head, &event, &mut sink);
        }
    }
    state.finish(None, &mut sink);
    let seconds = begin.elapsed().as_secs_f64();
    black_box((&state, &sink));
    let rate = rows.len() as f64 / seconds / 1e6;
    println!("{what}: {} records in {seconds:.3} s, {rate:.1} M records/s", rows.len());
    let begin = Instant::now();
    let checkpoint = state.clone();
    println!(
        "  a checkpoint of {} threads: {:.1} us",
        checkpoint.threads().count(),
        begin.elapsed().as_secs_f64() * 1e6
    );
}
