// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random traces with an index of as many parts as can be, and windows of them.

use std::path::{Path, PathBuf};

use crate::random_trace::{Plan, Random, write};
use kymo_ctf::read::Trace;
use kymo_index::{FILE_NAME, How, Indexes, Named, Spacing, build};
use kymo_query::Opened;
use serde_json::Value;

/// As many parts as can be.
pub const HOW: How = How {
    anew: true,
    in_cache: false,
    spacing: Spacing { records: 20, share: 0 },
    spans: Some(kymo_query::named_spans),
};

pub fn named(dir: &Path) -> Named {
    Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] }
}

pub fn index(dir: &Path) -> PathBuf {
    index_with(dir, HOW.spacing.records)
}

/// With so many records between two checkpoints.
pub fn index_with(dir: &Path, records: u64) -> PathBuf {
    let (traces, how) = ([Trace::open(dir).unwrap().value], How { spacing: Spacing { records, share: 0 }, ..HOW });
    build(&named(dir), &traces, how, &kymo_index::Stop::new(), &|_| panic!("nobody else builds")).unwrap().path
}

pub fn open(dir: &Path, with_index: bool) -> Opened {
    let traces = vec![Trace::open(dir).unwrap().value];
    let indexes = if with_index { Indexes::open(&[named(dir)], &traces) } else { Indexes::default() };
    Opened::new(traces, indexes, String::new(), Vec::new())
}

/// What came of a damaged index.
pub struct Damaged {
    /// Answers that told of damage, and that were made of the index.
    pub told: u32,
    pub of_index: u32,
    /// Bytes whose change made the answer another one.
    pub wrong: Vec<usize>,
}

/// Changes bytes of an index, about `count` of them, one by one, and asks each time. `ask`: the answer, whether it was
/// made of the index, and whether it is right.
pub fn damaged(path: &Path, count: usize, ask: impl Fn(&Opened) -> (Value, bool, bool)) -> Damaged {
    assert_eq!(path.file_name().unwrap(), FILE_NAME, "it lies beside the trace");
    let (dir, whole) = (path.parent().unwrap(), std::fs::read(path).unwrap());
    let mut found = Damaged { told: 0, of_index: 0, wrong: Vec::new() };
    for at in (60..whole.len()).step_by((whole.len() / count).max(1)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(path, &bytes).unwrap();
        let (answer, is_of_index, is_right) = ask(&open(dir, true));
        found.told += u32::from(answer["notes"].to_string().contains("damaged"));
        found.of_index += u32::from(is_of_index);
        found.wrong.extend((!is_right).then_some(at));
    }
    found
}

pub fn made(plan: &Plan) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), plan).unwrap();
    dir
}

/// Windows of all lengths, some of which begin or end where the trace does.
pub fn window(random: &mut Random, round: u32, (first, last): (i64, i64)) -> (i64, i64) {
    let span = last.abs_diff(first) + 1;
    let (a, b) = (first + random.below(span) as i64, first + random.below(span) as i64);
    let (mut from, mut to) = (a.min(b), a.max(b) + 1);
    match round % 5 {
        0 => from = first,
        1 => to = last + 1,
        2 => (from, to) = (first, last + 1),
        _ => {}
    }
    (from, to)
}

/// Random traces of several shapes, each with and without its index. `check` says of each how often the index answered:
/// of which the least often, and how often.
pub fn in_shapes(random: &mut Random, mut check: impl FnMut(&Opened, &Opened, &mut Random) -> u32) -> (u32, String) {
    let plan = Plan { records: 1200, ..Plan::default() };
    let plans = [
        plan,
        Plan { cpus: 16, threads: 200, records: 300, ..plan },
        // Losses of the kernel, and of programs too: these are not in sums.
        Plan { lossy: 4, packet: 50, user: 0, ..plan },
        Plan { lossy: 6, packet: 50, user: 4000, ..plan },
        Plan { lossy: 3, packet: 50, user: 4000, spans: 3, compact: true, ..plan },
        Plan { cpus: 1, threads: 1, ..plan },
    ];
    let of_plan = |plan: Plan| {
        let dir = made(&Plan { seed: random.word(), ..plan });
        index(dir.path());
        let [with, without] = [true, false].map(|with_index| open(dir.path(), with_index));
        (check(&with, &without, random), format!("{plan:?}"))
    };
    plans.into_iter().map(of_plan).min().expect("there are some")
}
