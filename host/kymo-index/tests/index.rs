// SPDX-License-Identifier: MIT OR Apache-2.0
//! With and without an index the same: what is read of a stretch, which state there is at a moment; of whole traces and
//! damaged ones, and whatever was done to the index.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use common::{Plan, Random};
use kymo_analyze::{Head, State, Vocabulary};
use kymo_ctf::read::{Item, Range, Reader, Trace, Value};
use kymo_feed::{Classes, Payload};
use kymo_index::{How, Indexes, Named, Spacing, Stop, build, range};

/// Checkpoints as often as can be.
const HOW: How = How { anew: true, in_cache: false, spacing: Spacing { records: 50, share: 0 }, spans: None };

struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    fn new(plan: &Plan) -> Made {
        let dir = tempfile::tempdir().unwrap();
        common::write(dir.path(), plan).unwrap();
        Made { dir }
    }

    fn named(&self) -> Named {
        Named { dir: self.dir.path().to_owned(), parts: vec![self.dir.path().to_owned()] }
    }

    fn open(&self) -> Vec<Trace> {
        vec![Trace::open(self.dir.path()).unwrap().value]
    }

    fn index(&self) -> PathBuf {
        build(&self.named(), &self.open(), HOW, &Stop::new(), &|_| panic!("nobody else builds")).unwrap().path
    }
}

/// Everything that reading a stretch says.
fn items(reader: &mut Reader<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        lines.push(match item {
            Item::Record(of) => format!("{} {} {} {}", of.ns, of.stream, of.packet, of.event.name),
            Item::Loss(of) => format!("{} {} {} lost {} to {}", of.from_ns, of.stream, of.packet, of.records, of.to_ns),
        });
    }
    lines.extend(reader.caveats().map(|(_, caveat)| caveat.to_string()));
    lines.push(format!("{} damaged", reader.caveat_count()));
    lines
}

fn state_at(traces: &[Trace], indexes: &Indexes, at: i64) -> State {
    let classes = Classes::new(traces);
    range::state_before(traces, &classes, indexes, at).state
}

/// The state in front of `at`, by the shortest way: each record's values as [`kymo_ctf::read::Fields`] has them, no
/// index, no lens.
fn linear_state(traces: &[Trace], at: i64) -> State {
    let classes = Classes::new(traces);
    let mut vocabulary = Vocabulary::new();
    let plans: Vec<_> = classes.list.iter().map(|class| vocabulary.learn(class)).collect();
    let mut state = State::new(&vocabulary);
    // By stream: whether its records are a kernel's, as soon as it has one.
    let mut of_kernel: HashMap<String, bool> = HashMap::new();
    let range = Range { from_ns: None, to_ns: Some(at.into()) };
    let mut reader = Reader::between(traces, range, &[]).unwrap();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(of) => {
                let tid = of
                    .common_context
                    .get("tid")
                    .map(|tid| if let Value::Int(tid, _) = tid { tid.into() } else { -1i128 });
                let tid = tid.and_then(|tid| i32::try_from(tid).ok());
                let plan = &plans[classes.of(&of)];
                *of_kernel.entry(of.stream.to_owned()).or_default() |= plan.is_some() || tid.is_some();
                let head = Head { time: of.ns as i64, cpu: of.cpu, tid };
                match plan.as_ref().and_then(|plan| plan.decode(&Payload(of.payload))) {
                    Some(event) => state.apply(&head, &event, &mut ()),
                    None if tid.is_some() => state.pass(&head, &mut ()),
                    None => {}
                }
            }
            Item::Loss(of) if of_kernel.get(of.stream).copied().unwrap_or(of.vpid.is_none()) => {
                state.lost(of.cpu, of.from_ns as i64, of.to_ns as i64, &mut ());
            }
            Item::Loss(_) => {}
        }
    }
    state
}

/// Random stretches and moments, with an index and without.
#[track_caller]
fn same_with_and_without(made: &Made, seed: u64, rounds: usize) {
    let traces = made.open();
    let indexes = Indexes::open(&[made.named()], &traces);
    assert!(indexes.stale.is_empty() && indexes.traces[0].is_some() && indexes.states.is_some(), "{:?}", indexes.stale);
    let none = Indexes::default();
    let bounds = range::bounds(&traces, &indexes);
    assert_eq!(bounds, range::bounds(&traces, &none));
    let Some((first, last)) = bounds else { return };
    let mut random = Random(seed);
    for _ in 0..rounds {
        let span = (last.abs_diff(first) + 40).min(1 << 40);
        let mut time = || first.saturating_sub(20).saturating_add(random.below(span) as i64);
        let (a, b) = (time(), time());
        let (from, to) = (Some(a.min(b).into()), Some(a.max(b).into()));
        let with = items(&mut range::reader(&traces, &indexes, from, to));
        let without = items(&mut range::reader(&traces, &none, from, to));
        assert_eq!(with, without, "seed {seed}: {a} {b}");
        let state = state_at(&traces, &indexes, a);
        assert_eq!(state, state_at(&traces, &none, a), "seed {seed}: state at {a}");
        assert_eq!(state, linear_state(&traces, a), "seed {seed}: state at {a}");
    }
}

#[test]
fn a_stretch_and_a_moment_are_the_same_with_and_without() {
    for seed in 1..6 {
        let plan = Plan { seed, lossy: 4, packet: 7 + seed * 40, records: 1500, ..Plan::default() };
        let made = Made::new(&plan);
        made.index();
        same_with_and_without(&made, seed, 12);
    }
}

#[test]
fn they_are_the_same_of_damaged_traces() {
    for seed in 1..30 {
        let made = Made::new(&Plan { seed, lossy: 5, packet: 60, records: 600, user: 100, ..Plan::default() });
        common::damage(made.dir.path(), &mut Random(seed), seed % 7).unwrap();
        made.index();
        same_with_and_without(&made, seed, 6);
    }
}

#[test]
fn counts_are_those_of_the_trace() {
    let made = Made::new(&Plan { lossy: 3, ..Plan::default() });
    made.index();
    let traces = made.open();
    let indexes = Indexes::open(&[made.named()], &traces);
    let (counted, index) = (traces[0].count(1), indexes.traces[0].as_ref().unwrap());
    for (event, count) in counted.events.iter().enumerate() {
        let known = index.streams.iter().flat_map(|stream| &stream.events).filter(|of| of.event == event);
        assert_eq!(known.map(|of| of.records).sum::<u64>(), *count, "event {event}");
    }
    let lost: Vec<u64> = (0..3).map(|at| index.streams.iter().map(|stream| stream.lost[at]).sum()).collect();
    assert_eq!(lost, [counted.lost_records, counted.lost_packets, counted.lost_places]);
    assert!(lost[2] > 0);
    // The same in each summary.
    let (events, streams) = (traces[0].metadata.events.len(), index.streams.len());
    for columns in [1, 64, 4096] {
        let level = index.level(columns).unwrap();
        let sum = |rows: std::ops::Range<usize>| rows.flat_map(|row| level.row(row)).sum::<u64>();
        assert_eq!(sum(0..events), counted.records());
        assert_eq!(sum(events..events + streams), counted.records());
        assert_eq!(sum(events + streams..events + 2 * streams), lost[0]);
    }
    let (cpus, state) =
        (indexes.states.as_ref().unwrap().cpus().unwrap(), state_at(&traces, &Indexes::default(), i64::MAX));
    let from_kernel: i64 = state.cpus().map(|cpu| state.now().unwrap() - first_of(&traces, cpu.number)).sum();
    assert_eq!((0..cpus.rows()).flat_map(|row| cpus.row(row)).sum::<u64>(), from_kernel as u64);
}

/// Time of the first record or loss of a CPU's kernel stream.
fn first_of(traces: &[Trace], cpu: u32) -> i64 {
    let mut reader = Reader::new(traces);
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            if record.cpu == Some(cpu) && record.stream.starts_with("kernel") {
                return record.ns as i64;
            }
        }
    }
    panic!("no record of CPU {cpu}")
}

#[test]
fn an_index_of_another_trace_does_not_hold() {
    let made = Made::new(&Plan::default());
    let path = made.index();
    let traces = made.open();
    let why = |named: &[Named], traces: &[Trace]| {
        let indexes = Indexes::open(named, traces);
        assert!(indexes.traces[0].is_none() && indexes.states.is_none());
        indexes.stale.into_iter().map(|(_, why)| why).collect::<Vec<_>>().join("; ")
    };
    let stream = made.dir.path().join("kernel_1_0");
    let bytes = std::fs::read(&stream).unwrap();
    // As long as before, and written at another time.
    std::fs::write(&stream, &bytes).unwrap();
    assert_eq!(why(&[made.named()], &traces), "kernel_1_0 was written since");
    std::fs::write(&stream, &bytes[..bytes.len() - 1]).unwrap();
    assert!(why(&[made.named()], &made.open()).starts_with("kernel_1_0 has "));
    std::fs::copy(&stream, made.dir.path().join("kernel_9_0")).unwrap();
    assert_eq!(why(&[made.named()], &made.open()), "the trace has 4 stream files, not 3");
    let metadata = made.dir.path().join("metadata");
    let text = std::fs::read_to_string(&metadata).unwrap() + "\n";
    std::fs::write(&metadata, text).unwrap();
    assert_eq!(why(&[made.named()], &made.open()), "the metadata is another");
    std::fs::write(&path, b"kymo-idx").unwrap();
    assert_eq!(why(&[made.named()], &made.open()), "it has no head");
    // A trace that grows while it is open has none.
    let traces = made.open();
    std::fs::write(&stream, [&bytes[..], &bytes[..]].concat()).unwrap();
    assert_eq!(why(&[made.named()], &traces), "");
}

#[test]
fn whatever_was_done_to_the_file_answers_are_the_same() {
    let made = Made::new(&Plan { records: 400, ..Plan::default() });
    let path = made.index();
    let whole = std::fs::read(&path).unwrap();
    let (traces, none) = (made.open(), Indexes::default());
    let (first, last) = range::bounds(&traces, &none).unwrap();
    let mut random = Random(9);
    let mut held = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(random.below(whole.len() as u64) as usize),
            1 => {
                let at = random.below(whole.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            _ => {
                let at = random.below(whole.len() as u64) as usize;
                let end = (at + 100).min(bytes.len());
                bytes[at..end].iter_mut().for_each(|byte| *byte = random.word() as u8);
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let indexes = Indexes::open(&[made.named()], &traces);
        held += usize::from(indexes.states.is_some());
        let at = first + random.below(last.abs_diff(first)) as i64;
        assert_eq!(state_at(&traces, &indexes, at), state_at(&traces, &none, at), "round {round}");
        let ends = (Some(at.into()), Some((at + 100_000).into()));
        let with = items(&mut range::reader(&traces, &indexes, ends.0, ends.1));
        assert_eq!(with, items(&mut range::reader(&traces, &none, ends.0, ends.1)), "round {round}");
    }
    assert!(held > 0, "changes beyond the head are met later");
}

/// Pieces of right checksums and wrong content.
#[test]
fn pieces_of_anyone_end() {
    let made = Made::new(&Plan { records: 300, ..Plan::default() });
    let bytes = std::fs::read(made.index()).unwrap();
    let traces = made.open();
    let mut random = Random(11);
    let mut taken = 0;
    for round in 0..3000 {
        let at = random.below(bytes.len() as u64) as usize;
        let mut part = bytes[at..(at + 1 + random.below(600) as usize).min(bytes.len())].to_vec();
        for _ in 0..random.below(3) {
            let at = random.below(part.len() as u64) as usize;
            part[at] = random.word() as u8;
        }
        taken += u32::from(kymo_index::probe::piece(&[&[round as u8][..], &part].concat()));
        kymo_index::probe::checkpoint(&part, &traces);
    }
    // Checkpoints themselves, changed in a few places: some are still states, and are read on from.
    let first = bytes.windows(2).position(|two| two == [3, 1]).unwrap();
    for _ in 0..400 {
        let mut part = bytes[first..].to_vec();
        let at = random.below(200.min(part.len() as u64)) as usize;
        part[at] = random.word() as u8;
        kymo_index::probe::checkpoint(&part, &traces);
    }
    assert!(taken > 0, "nothing was taken: the test asks nothing");
}

#[test]
fn builders_stop_and_leave_nothing() {
    let made = Made::new(&Plan::default());
    let stop = Stop::new();
    stop.set();
    let stopped = build(&made.named(), &made.open(), HOW, &stop, &|_| {}).unwrap_err();
    assert_eq!(stopped.to_string(), "stopped; no index was written");
    assert_eq!(left(made.dir.path()), Vec::<String>::new());
    // What a killed one left.
    std::fs::write(made.dir.path().join(".kymo-index.new"), b"half of an index").unwrap();
    made.index();
    assert_eq!(left(made.dir.path()), [".kymo-index"]);
    same_with_and_without(&made, 3, 2);
    let again = build(&made.named(), &made.open(), How::default(), &Stop::new(), &|_| {}).unwrap();
    assert!(!again.is_new && again.stale.is_none());
}

/// Hidden files of a trace.
fn left(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

/// A session that was cut: packets of each chunk, states of all of them.
#[test]
fn chunks_have_an_index_each_and_states_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut parts = Vec::new();
    for chunk in 0..3 {
        let part = dir.path().join(format!("chunk-{chunk}"));
        std::fs::create_dir(&part).unwrap();
        let plan = Plan { seed: 5 + chunk, begin: 1_000_000 + chunk * 3_000_000, records: 800, ..Plan::default() };
        common::write(&part, &plan).unwrap();
        parts.push(part);
    }
    let named = Named { dir: dir.path().to_owned(), parts };
    let open = || named.parts.iter().map(|part| Trace::open(part).unwrap().value).collect::<Vec<_>>();
    let traces = open();
    let build = |how| build(&named, &traces, how, &Stop::new(), &|_| {}).unwrap();
    assert!(build(HOW).is_new && !build(How { anew: false, ..HOW }).is_new);
    let (indexes, none) = (Indexes::open(std::slice::from_ref(&named), &traces), Indexes::default());
    assert!(indexes.traces.iter().all(Option::is_some) && indexes.states.as_ref().unwrap().checkpoints.len() > 10);
    let (first, last) = range::bounds(&traces, &indexes).unwrap();
    assert_eq!(range::bounds(&traces, &none), Some((first, last)));
    let mut random = Random(1);
    for _ in 0..20 {
        let at = first + random.below(last.abs_diff(first)) as i64;
        assert_eq!(state_at(&traces, &indexes, at), state_at(&traces, &none, at), "{at}");
        let ends = (Some(at.into()), Some((at + 200_000).into()));
        let with = items(&mut range::reader(&traces, &indexes, ends.0, ends.1));
        assert_eq!(with, items(&mut range::reader(&traces, &none, ends.0, ends.1)), "{at}");
    }
    indexes.check(&traces).unwrap();
}
