// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the picture of a large trace is true: random pixels of CPU and thread rows, as the questions answer them
//! with the index, beside the states of all records, read once from the begin. `cargo run --release -p kymo-query
//! --example true_pixels TRACE PIXELS [SEED]`. Prints a JSON object: pixels, wrong, largest (difference of a share),
//! examples.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_analyze::{Context, CpuSpan, Doing, Ready, Sink, Thread, ThreadSpan};
use kymo_ctf::read::{Reader, Trace};
use kymo_feed::{Classes, Visit, Walker};
use kymo_index::{Indexes, Named};
use kymo_query::{Opened, Parameters, Stop, answer};
use kymo_testing::Random;
use serde_json::{Value, json};

/// States by number [spec/view.md 4.4, 4.6].
const CPU_STATES: [&str; 3] = ["unknown", "idle", "thread"];
const THREAD_STATES: [&str; 12] = [
    "unknown",
    "running",
    "preempted",
    "woken",
    "gave_way",
    "lock",
    "uninterruptible",
    "waiting",
    "sleeping",
    "stopped",
    "absent",
    "page_fault",
];
/// Pixels of a window, and rows of which each window has some.
const PIXELS: i64 = 1000;
/// A share that differs by more is wrong: shares have 24 bits.
const ROUNDING: f64 = 1e-6;

/// A row: a CPU or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowKey {
    Cpu(u32),
    Thread(i32),
}

/// A pixel that is looked at.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    window: usize,
    row: RowKey,
    pixel: i64,
    from: i64,
    to: i64,
}

/// Times of one row, cut at all boundaries of its pixels: time by state of each stretch.
struct Stretches {
    edges: Vec<i64>,
    ns: Vec<[u64; 11]>,
}

impl Stretches {
    fn new(mut edges: Vec<i64>) -> Stretches {
        edges.sort_unstable();
        edges.dedup();
        let ns = vec![[0; 11]; edges.len().saturating_sub(1)];
        Stretches { edges, ns }
    }

    fn add(&mut self, from: i64, to: i64, state: usize) {
        let first = self.edges.partition_point(|edge| *edge <= from).saturating_sub(1);
        for at in first..self.ns.len() {
            let (begin, end) = (self.edges[at].max(from), self.edges[at + 1].min(to));
            if self.edges[at] >= to {
                break;
            }
            if begin < end {
                self.ns[at][state] += end.abs_diff(begin);
            }
        }
    }

    /// Shares of a pixel; what nothing covers is of state 0.
    fn shares(&self, from: i64, to: i64) -> [f64; 11] {
        let first = self.edges.partition_point(|edge| *edge < from);
        let last = self.edges.partition_point(|edge| *edge < to);
        let mut sum = [0u64; 11];
        for ns in self.ns.get(first..last).unwrap_or_default() {
            sum.iter_mut().zip(ns).for_each(|(sum, ns)| *sum += ns);
        }
        let whole = to.abs_diff(from).max(1);
        sum[0] += whole.saturating_sub(sum.iter().sum());
        sum.map(|ns| ns as f64 / whole as f64)
    }
}

/// The states of all records, as far as somebody looks.
struct Truth {
    rows: BTreeMap<RowKey, Stretches>,
    futex: Option<kymo_analyze::CallId>,
}

impl Visit for Truth {}

impl Sink for Truth {
    fn cpu(&mut self, span: &CpuSpan) {
        let state = match span.current {
            Context::Idle => 1,
            Context::Thread(_) => 2,
            _ => 0,
        };
        if let Some(row) = self.rows.get_mut(&RowKey::Cpu(span.cpu)) {
            row.add(span.from, span.to, state);
        }
    }

    fn thread(&mut self, span: &ThreadSpan, _: &Thread) {
        let Some(row) = self.rows.get_mut(&RowKey::Thread(span.tid)) else { return };
        let state = match span.doing {
            Doing::Unknown => 0,
            Doing::Running { .. } => 1,
            Doing::Runnable { why: Ready::Preempted { .. }, .. } => 2,
            Doing::Runnable { why: Ready::GaveWay { .. }, .. } => 4,
            Doing::Runnable { .. } => 3,
            Doing::Blocked { in_fault: true, .. } => 11,
            Doing::Blocked { call, .. } if call.is_some() && call == self.futex => 5,
            Doing::Blocked { state: b'D', .. } => 6,
            Doing::Blocked { .. } => 7,
            Doing::Forked | Doing::Ended => 10,
        };
        row.add(span.from, span.to, state);
    }
}

/// A window as the page asks for it, on the grid of the question [spec/view.md 3]: its frame, and how many pixels.
fn on_grid(of: &Opened, window: (i64, i64)) -> Result<((i64, i64), i64), String> {
    let found = ask(of, "cpus", window, ("cpus", "0".into()))?;
    let number = |value: &Value| value.as_i64().ok_or("a frame is missing");
    let (info, base) = (&found["info"], of.base());
    let frame = (base + number(&info["frame"][0])?, base + number(&info["frame"][1])?);
    Ok((frame, number(&info["pixels"])?))
}

/// Asks, as the server does.
fn ask(of: &Opened, question: &str, window: (i64, i64), more: (&str, String)) -> Result<Value, String> {
    let [from, to] = [window.0, window.1].map(|at| at.to_string());
    let pairs = [("from", from), ("to", to), ("pixels", PIXELS.to_string()), ("grid", "1".into()), more];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value)).to_vec();
    answer(of, question, Parameters::new(pairs), &Stop::default()).map(|found| found.json()).map_err(|e| e.to_string())
}

/// What an answer says of a pixel of a row.
fn told(found: &Value, key: &str, row: i64, states: &[&str], chosen: &Chosen, base: i64) -> Option<[f64; 11]> {
    let column = |table: &str, name: &str| found["tables"][table][name].as_array();
    let mut shares = [0.0; 11];
    let (rows, pixels) = (column("mixed", key)?, column("mixed", "pixel")?);
    let mixed = (0..rows.len()).find(|at| rows[*at] == row && pixels[*at] == chosen.pixel);
    if let Some(at) = mixed {
        let Some(of) = column("mixed", "states") else {
            for (share, name) in shares.iter_mut().zip(states) {
                *share = column("mixed", name)?[at].as_f64()?;
            }
            return Some(shares);
        };
        // Those of one pixel behind those of the pixels before it.
        let bits = |row: usize| of[row].as_u64().unwrap_or(0);
        let first: usize = (0..at).map(|row| bits(row).count_ones() as usize).sum();
        let own = shares.iter_mut().enumerate().filter(|(state, _)| bits(at) >> state & 1 != 0);
        for ((_, share), place) in own.zip(first..) {
            *share = column("shares", "share")?.get(place)?.as_f64()?;
        }
        return Some(shares);
    }
    let (rows, from, to) = (column("spans", key)?, column("spans", "from")?, column("spans", "to")?);
    let covers = |at: &usize| {
        let times = from[*at].as_i64().zip(to[*at].as_i64());
        rows[*at] == row && times.is_some_and(|(a, b)| a <= chosen.from - base && chosen.to - base <= b)
    };
    let at = (0..rows.len()).find(covers)?;
    *shares.get_mut(column("spans", "state")?[at].as_u64()? as usize)? = 1.0;
    Some(shares)
}

fn choose(
    of: &Opened,
    windows: &[(i64, i64)],
    rows: &[RowKey],
    count: usize,
    random: &mut Random,
) -> Result<Vec<Chosen>, String> {
    let frames = windows.iter().map(|window| on_grid(of, *window)).collect::<Result<Vec<_>, _>>()?;
    let (first, last) = of.bounds.ok_or("the trace has no record")?;
    let mut all = Vec::new();
    for number in 0..count {
        let window = number % windows.len();
        let ((begin, end), pixels) = frames[window];
        let (row, pixel) = (rows[random.below(rows.len() as u64) as usize], random.below(pixels));
        let length = (end - begin) / pixels;
        let (from, to) = ((begin + pixel * length).max(first), begin + (pixel + 1) * length);
        // What is behind the last record is known of the answer only.
        if from < to && to <= last {
            all.push(Chosen { window, row, pixel, from, to });
        }
    }
    Ok(all)
}

fn run(dir: &Path, count: usize, seed: u64) -> Result<Value, String> {
    let open = || Trace::open(dir).map(|opened| opened.value).map_err(|error| error.to_string());
    let traces = vec![open()?];
    let indexes = Indexes::open(&[Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] }], &traces);
    let has_index = indexes.states.is_some();
    let of = Opened::new(traces, indexes, String::new(), Vec::new());
    let (first, last) = of.bounds.ok_or("the trace has no record")?;
    let mut random = Random(seed);
    // Lengths from a microsecond to the whole trace, each factor as often as any other.
    let windows: Vec<(i64, i64)> = (0..100)
        .map(|_| {
            let part = f64::from(random.below(1_000_000u32)) / 1e6;
            let ns = (1000.0 * ((last - first) as f64 / 1000.0).powf(part)).max(1000.0) as i64;
            let from = first + random.below((last - first - ns).max(1));
            (from, (from + ns).min(last))
        })
        .collect();
    let found = answer(&of, "threads", Parameters::new(vec![("limit".into(), "200".into())]), &Stop::default());
    let found = found.map_err(|error| error.to_string())?.json();
    let tids: Vec<i32> = found["tables"]["threads"]["tid"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tid| Some(tid.as_i64()? as i32))
        .collect();
    let cpus = ask(&of, "cpus", (last - 1_000_000, last), ("cpus", "0,1,2,3".into()))?;
    let cpus =
        cpus["tables"]["rows"]["cpu"].as_array().into_iter().flatten().filter_map(|cpu| Some(cpu.as_u64()? as u32));
    let mut rows: Vec<RowKey> = cpus.map(RowKey::Cpu).collect();
    // As many pixels of CPUs as of threads.
    let few = rows.clone();
    while rows.len() < tids.len() && !few.is_empty() {
        rows.extend(&few);
    }
    rows.extend(tids.iter().map(|tid| RowKey::Thread(*tid)));
    let chosen = choose(&of, &windows, &rows, count, &mut random)?;
    let mut edges: BTreeMap<RowKey, Vec<i64>> = BTreeMap::new();
    for one in &chosen {
        edges.entry(one.row).or_default().extend([one.from, one.to]);
    }
    let rows = edges.into_iter().map(|(row, edges)| (row, Stretches::new(edges))).collect();
    let whole = vec![open()?];
    let classes = Classes::new(&whole);
    let mut truth = Truth { rows, futex: classes.vocabulary.call_id("futex") };
    let mut walker = Walker::new(&classes);
    walker.go(&mut Reader::new(&whole), &mut (), &mut truth);
    // Records of programs may go on for longer than those of the kernel: what was open then goes on, too.
    walker.state.finish(Some(last.saturating_add(1)), &mut truth);
    compare(&of, &windows, &chosen, &truth, has_index)
}

fn compare(
    of: &Opened,
    windows: &[(i64, i64)],
    chosen: &[Chosen],
    truth: &Truth,
    has_index: bool,
) -> Result<Value, String> {
    let (mut wrong, mut largest, mut examples, mut compared) = (0u64, 0.0f64, Vec::new(), 0u64);
    for (number, window) in windows.iter().enumerate() {
        let own: Vec<&Chosen> = chosen.iter().filter(|one| one.window == number).collect();
        let mut tids: Vec<i32> = Vec::new();
        let mut cpus: Vec<u32> = Vec::new();
        for one in &own {
            match one.row {
                RowKey::Cpu(cpu) if !cpus.contains(&cpu) => cpus.push(cpu),
                RowKey::Thread(tid) if !tids.contains(&tid) => tids.push(tid),
                _ => {}
            }
        }
        let list = |all: Vec<String>| all.join(",");
        let none = || Ok(json!({}));
        let states = match tids.is_empty() {
            true => none(),
            false => ask(of, "states", *window, ("tids", list(tids.iter().map(ToString::to_string).collect()))),
        }?;
        let current = match cpus.is_empty() {
            true => none(),
            false => ask(of, "cpus", *window, ("cpus", list(cpus.iter().map(ToString::to_string).collect()))),
        }?;
        for one in own {
            let expect = truth.rows[&one.row].shares(one.from, one.to);
            let found = match one.row {
                RowKey::Cpu(cpu) => told(&current, "cpu", cpu.into(), &CPU_STATES, one, of.base()),
                RowKey::Thread(tid) => told(&states, "tid", tid.into(), &THREAD_STATES, one, of.base()),
            };
            // A row that has no record up to the window is not in the answer: nothing is known of it.
            let found = found.unwrap_or_else(|| std::array::from_fn(|state| if state == 0 { 1.0 } else { 0.0 }));
            let difference = expect.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            compared += 1;
            largest = largest.max(difference);
            if difference > ROUNDING {
                wrong += 1;
                if examples.len() < 10 {
                    examples.push(format!("{one:?}: {found:?} and not {expect:?}"));
                }
            }
        }
    }
    Ok(json!({ "pixels": compared, "wrong": wrong, "largest": largest, "has_index": has_index, "examples": examples }))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, other: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(other);
    let Some(dir) = arguments.get(1) else {
        eprintln!("usage: true_pixels TRACE [PIXELS] [SEED]");
        std::process::exit(2);
    };
    match run(Path::new(dir), number(2, 10_000) as usize, number(3, 1)) {
        Ok(found) => println!("{found}"),
        Err(error) => {
            eprintln!("true_pixels: {error}");
            std::process::exit(2);
        }
    }
}
