// SPDX-License-Identifier: MIT OR Apache-2.0
//! The picture is true: pixels of random windows of random traces, with losses, compared with the states computed from
//! all records; with an index and without.

use crate::random_trace;

use crate::common;

use std::collections::BTreeMap;

use common::{ask, column, rows, shares_of_threads};
use kymo_analyze::{Context, CpuSpan, Doing, Ready, Sink, Thread, ThreadSpan, Vocabulary};
use kymo_ctf::read::{Reader, Trace};
use kymo_feed::{Classes, Visit, walk};
use kymo_index::{How, Indexes, Named, Spacing, build};
use kymo_query::Opened;
use random_trace::{Plan, Random, write};
use serde_json::Value;

/// All states of a trace: from, to, number of the state.
#[derive(Default)]
struct Truth {
    cpus: BTreeMap<u32, Vec<(i64, i64, usize)>>,
    threads: BTreeMap<i32, Vec<(i64, i64, usize)>>,
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
        self.cpus.entry(span.cpu).or_default().push((span.from, span.to, state));
    }

    fn thread(&mut self, span: &ThreadSpan, _: &Thread) {
        let state = match span.doing {
            Doing::Unknown => 0,
            Doing::Running { .. } => 1,
            Doing::Runnable { why: Ready::Preempted { .. }, .. } => 2,
            Doing::Runnable { why: Ready::Woken(_) | Ready::New(_), .. } => 3,
            Doing::Runnable { .. } => 4,
            Doing::Blocked { in_fault: true, .. } => 11,
            Doing::Blocked { call, .. } if call.is_some() && call == self.futex => 5,
            Doing::Blocked { state: b'D', .. } => 6,
            Doing::Blocked { .. } => 7,
            Doing::Forked | Doing::Ended => 10,
        };
        self.threads.entry(span.tid).or_default().push((span.from, span.to, state));
    }
}

/// Shares of a stretch by state; what no span covers is of state 0.
fn shares(spans: &[(i64, i64, usize)], from: i64, to: i64) -> Vec<f32> {
    let mut ns = [0u64; 12];
    for (begin, end, state) in spans {
        let (begin, end) = ((*begin).max(from), (*end).min(to));
        if begin < end {
            ns[*state] += end.abs_diff(begin);
        }
    }
    let whole = to.abs_diff(from);
    ns[0] += whole - ns.iter().sum::<u64>();
    ns.iter().map(|ns| (*ns as f64 / whole as f64) as f32).collect()
}

/// What an answer says of a pixel of a row.
struct Picture {
    spans: Vec<(i64, i64, i64, usize)>,
    mixed: BTreeMap<(i64, u32), Vec<f32>>,
}

fn picture(answer: &Value, key: &str, states: &[&str]) -> Picture {
    let number = |value: &Value| value.as_i64().unwrap();
    let spans = rows(answer, "spans", &[key, "from", "to", "state"]);
    let spans = spans.iter().map(|row| (number(&row[0]), number(&row[1]), number(&row[2]), number(&row[3]) as usize));
    let spans = spans.collect();
    let mut mixed = BTreeMap::new();
    let of_threads = if key == "tid" { shares_of_threads(answer) } else { Vec::new() };
    for (at, row) in rows(answer, "mixed", &[key, "pixel"]).iter().enumerate() {
        let share = |state: &&str| column(answer, "mixed", state)[at].as_f64().unwrap();
        let shares = of_threads.get(at).cloned().unwrap_or_else(|| states.iter().map(share).collect());
        mixed.insert((number(&row[0]), number(&row[1]) as u32), shares.iter().map(|share| *share as f32).collect());
    }
    Picture { spans, mixed }
}

impl Picture {
    /// Shares of a pixel; none where the answer leaves it out.
    fn shares(&self, row: i64, pixel: u32, from: i64, to: i64) -> Option<Vec<f32>> {
        if let Some(mixed) = self.mixed.get(&(row, pixel)) {
            return Some(mixed.clone());
        }
        let whole = self.spans.iter().find(|(key, begin, end, _)| *key == row && *begin <= from && to <= *end)?;
        Some((0..12).map(|state| if state == whole.3 { 1.0 } else { 0.0 }).collect())
    }
}

const CPU_STATES: [&str; 3] = ["unknown", "idle", "thread"];

/// Compares a number of random windows.
fn compare(of: &Opened, truth: &Truth, random: &mut Random, windows: u32) {
    let (first, last) = of.bounds.unwrap();
    for _ in 0..windows {
        let from = first + random.below(last - first);
        let ns_max = random.pick(&[50, 5_000, 500_000, i64::MAX]).min(last - from);
        let to = (from + 1 + random.below(ns_max)).min(last);
        let pixels = 1 + random.below(200u32);
        let query = format!("from={from}&to={to}&pixels={pixels}");
        let edge = |pixel: u32| from + (i128::from(pixel) * i128::from(to - from) / i128::from(pixels)) as i64;
        let base = of.base();
        let check = |picture: &Picture, spans: &BTreeMap<i64, &Vec<(i64, i64, usize)>>, states: usize| {
            for (row, spans) in spans {
                for pixel in 0..pixels {
                    let (begin, end) = (edge(pixel), edge(pixel + 1));
                    if begin < end {
                        let expect = shares(spans, begin, end)[..states].to_vec();
                        let found = picture.shares(*row, pixel, begin - base, end - base);
                        let found = found.map(|found| found[..states].to_vec());
                        assert_eq!(found, Some(expect), "row {row}, pixel {pixel} of {query}");
                    }
                }
            }
        };
        let cpus = picture(&ask(of, "cpus", &query), "cpu", &CPU_STATES);
        let shown: BTreeMap<i64, _> = truth
            .cpus
            .iter()
            .filter(|(_, spans)| spans[0].0 < to)
            .map(|(cpu, spans)| (i64::from(*cpu), spans))
            .collect();
        check(&cpus, &shown, 3);
        let tids: Vec<String> = truth.threads.keys().map(ToString::to_string).collect();
        let answer = ask(of, "states", &format!("{query}&tids={}", tids.join(",")));
        let threads = picture(&answer, "tid", &[]);
        check(&threads, &truth.threads.iter().map(|(tid, spans)| (i64::from(*tid), spans)).collect(), 12);
    }
}

fn truth_of(traces: &[Trace]) -> Truth {
    let classes = Classes::new(traces);
    let vocabulary: &Vocabulary = &classes.vocabulary;
    let mut truth = Truth { futex: vocabulary.call_id("futex"), ..Truth::default() };
    walk(&mut Reader::new(traces), &classes, &mut truth);
    truth
}

#[test]
fn pixels_are_the_states_of_all_records() {
    let mut random = Random::new("truth", 11);
    for lossy in [0, 4] {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { seed: random.word(), records: 1500, lossy, faults: 12, ..Plan::default() };
        write(dir.path(), &plan).unwrap();
        let traces = || vec![Trace::open(dir.path()).unwrap().value];
        let truth = truth_of(&traces());
        let has = |state: usize| truth.threads.values().flatten().any(|span| span.2 == state && span.1 > span.0);
        let missing: Vec<usize> = [1, 2, 3, 5, 6, 7, 11].into_iter().filter(|state| !has(*state)).collect();
        assert!(missing.is_empty(), "no thread is in the states {missing:?}");
        let without = Opened::new(traces(), Indexes::default(), String::new(), Vec::new());
        compare(&without, &truth, &mut random, 12);
        let named = Named { dir: dir.path().to_owned(), parts: vec![dir.path().to_owned()] };
        let how = How {
            anew: true,
            in_cache: false,
            spacing: Spacing { records: 50, share: 0 },
            spans: Some(kymo_query::named_spans),
        };
        build(&named, &traces(), how, &kymo_index::Stop::new(), &|_| panic!("nobody else builds")).unwrap();
        let indexes = Indexes::open(&[named], &traces());
        assert!(indexes.states.is_some());
        let with = Opened::new(traces(), indexes, String::new(), Vec::new());
        compare(&with, &truth, &mut random, 12);
        same_answers(&with, &without);
    }
}

/// Threads of a process are those of it that are listed without a limit.
fn process_threads(of: &Opened) {
    let pairs = |query: &str| rows(&ask(of, "threads", query), "threads", &["process", "process_threads"]);
    let all = pairs("limit=10000");
    for (process, threads) in all.iter().map(|row| (&row[0], &row[1])) {
        let count = all.iter().filter(|row| !row[0].is_null() && row[0] == *process).count();
        assert_eq!(*threads, if process.is_null() { Value::Null } else { count.into() });
    }
    assert_eq!(pairs("limit=1"), all[..1]);
}

/// What the index answers is what the records answer.
fn same_answers(with: &Opened, without: &Opened) {
    process_threads(with);
    let [counted, read] = [with, without].map(|of| ask(of, "overview", "bins=64"));
    assert_eq!((&counted["info"]["source"], &read["info"]["source"]), (&"index".into(), &"records".into()));
    let sum = |answer: &Value, name: &str| column(answer, "bins", name).iter().filter_map(Value::as_u64).sum::<u64>();
    for name in ["records", "lost"] {
        assert_eq!(sum(&counted, name), sum(&read, name), "{name}");
    }
    assert!(column(&counted, "bins", "from").len() <= 64);
    assert_eq!(counted["lost"]["records"], read["lost"]["records"]);
    let [counted, read] = [with, without].map(|of| ask(of, "summary", ""));
    assert_eq!(counted["tables"], read["tables"]);
    for query in ["from=@300000&to=@900000", ""] {
        for question in ["threads", "arrows", "latencies", "records", "places"] {
            let [a, b] = [with, without].map(|of| ask(of, question, query));
            assert_eq!(a["tables"], b["tables"], "{question}?{query}");
        }
    }
}

#[test]
fn a_walk_that_nobody_waits_for_ends() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &Plan { records: 5000, ..Plan::default() }).unwrap();
    let traces = [Trace::open(dir.path()).unwrap().value];
    let classes = Classes::new(&traces);
    let before = |goes_on: bool| {
        kymo_index::range::state_before_while(&traces, &classes, &Indexes::default(), i64::MAX, &|| goes_on).is_some()
    };
    assert!(before(true) && !before(false));
}
