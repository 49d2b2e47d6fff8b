// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nanoseconds per record of filters, evaluated and as programs: `cargo run --release -p kymo-filter --example speed`.
//! Each line: the least of 15 rounds over 4,096 records, a quarter of which is selected; the clock is the system's.

use std::hint::black_box;
use std::time::Instant;

use kymo_filter::probe::events;
use kymo_filter::{Context, FieldPath, Record, Value, compile, parse};

const RECORDS: usize = 4096;
const ROUNDS: usize = 15;

/// `axis`, `position`, `note` of `motor:step`.
struct Step {
    axis: u32,
    position: f64,
    note: &'static str,
}

impl Record for Step {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        match place.field {
            0 => Value::Int(self.axis.into()),
            1 => Value::Float(self.position),
            6 => Value::Text(self.note.into()),
            _ => Value::Absent,
        }
    }

    fn context(&self, _: Context) -> Value<'_> {
        Value::Int(7)
    }
}

fn payload(step: &Step) -> Vec<u8> {
    let zeros = [0; 1 + 8 + 1 + 6];
    let note = step.note.as_bytes();
    let length = (note.len() as u16).to_le_bytes();
    [&step.axis.to_le_bytes()[..], &step.position.to_le_bytes(), &zeros, &length, note, &[0; 16]].concat()
}

/// Least time of a round per record, and how many it selected.
fn measure(mut round: impl FnMut() -> usize) -> (f64, usize) {
    let mut best = f64::INFINITY;
    let mut selected = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        selected = black_box(round());
        best = best.min(start.elapsed().as_nanos() as f64 / RECORDS as f64);
    }
    (best, selected)
}

fn main() {
    let steps: Vec<Step> = (0..RECORDS)
        .map(|i| Step {
            axis: (i % 2) as u32 * 2,
            position: if i % 4 < 2 { 0.75 } else { 0.25 },
            note: if i % 3 == 0 { "abc" } else { "xyz" },
        })
        .collect();
    let payloads: Vec<Vec<u8>> = steps.iter().map(payload).collect();
    for text in [
        "axis == 2 && position > 0.5",
        "axis == 3 && position > 0.5",
        "axis & 2 != 0",
        "note == \"abc\"",
        "note ~ \"a*c\"",
        "axis in (1, 3, 5, 7, 9, 11, 2)",
        "$tid == 7",
    ] {
        let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|error| panic!("{error}"));
        let (ns, selected) = measure(|| steps.iter().filter(|step| checked.matches(0, black_box(*step))).count());
        let program = match compile(&checked, 0) {
            Ok(program) => {
                let run = || payloads.iter().filter(|payload| program.run(black_box(payload))).count();
                let (ns, same) = measure(run);
                assert_eq!(same, selected, "{text}");
                format!("{ns:.1} ns as {} instructions", program.insns.len())
            }
            Err(_) => "no program".into(),
        };
        println!("{text}: {ns:.1} ns evaluated, {program} ({selected} of {RECORDS} selected)");
    }
}
