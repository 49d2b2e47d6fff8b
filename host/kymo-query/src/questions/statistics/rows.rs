// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of statistics: the records of a thread, process or CPU, and the time of the same; their order; what the rest of
//! them comes to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo_analyze::usage::{Actor, CpuUse, ThreadUse, Usage};
use kymo_analyze::{Doubt, Level};

use super::pass::StatisticsPass;
use crate::opened::Opened;
use crate::people::People;

/// What rows are sorted by; equal ones by their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Records, the most first.
    Records,
    /// Time, the most first.
    Time,
    /// Names; CPUs by number.
    Name,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Position of the class, process, thread or CPU; none: not known.
    pub key: Option<i64>,
    pub name: String,
    /// Of an event.
    pub is_kernel: Option<bool>,
    pub records: u64,
    /// Times of the first record and of the last, ns.
    pub span: Option<(i64, i64)>,
    /// The times are known.
    pub is_timed: bool,
    /// On a CPU, with the interrupts meanwhile; of a CPU: not idle.
    pub busy_ns: u64,
    pub interrupt_ns: u64,
    pub runs: u64,
    pub longest_ns: u64,
    pub doubtful_ns: u64,
    pub other_ns: u64,
    pub idle_ns: u64,
    /// Of a CPU: who ran is not known.
    pub unknown_ns: Option<u64>,
    pub doubt: Doubt,
}

impl Row {
    /// Both together, without key and name.
    pub fn plus(self, other: &Row) -> Row {
        let span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        Row {
            key: None,
            name: String::new(),
            is_kernel: None,
            records: self.records.saturating_add(other.records),
            span,
            is_timed: self.is_timed || other.is_timed,
            busy_ns: self.busy_ns.saturating_add(other.busy_ns),
            interrupt_ns: self.interrupt_ns.saturating_add(other.interrupt_ns),
            runs: self.runs.saturating_add(other.runs),
            longest_ns: self.longest_ns.max(other.longest_ns),
            doubtful_ns: self.doubtful_ns.saturating_add(other.doubtful_ns),
            other_ns: self.other_ns.saturating_add(other.other_ns),
            idle_ns: self.idle_ns.saturating_add(other.idle_ns),
            unknown_ns: self
                .unknown_ns
                .map_or(other.unknown_ns, |ns| Some(ns.saturating_add(other.unknown_ns.unwrap_or(0)))),
            doubt: self.doubt | other.doubt,
        }
    }

    /// The time of a thread.
    fn spend(&mut self, used: &ThreadUse) {
        let time = used.cpu;
        self.is_timed = true;
        self.busy_ns = self.busy_ns.saturating_add(time.ns);
        self.interrupt_ns = self.interrupt_ns.saturating_add(time.interrupted_ns);
        self.runs = self.runs.saturating_add(time.runs);
        self.longest_ns = self.longest_ns.max(time.longest_ns);
        self.doubtful_ns = self.doubtful_ns.saturating_add(time.doubtful_ns);
        self.doubt |= time.doubt;
    }

    /// The time of a CPU.
    fn of_cpu(&mut self, used: &CpuUse) {
        (self.busy_ns, self.interrupt_ns, self.runs) = (used.busy_ns(), used.interrupt_ns, used.runs);
        (self.other_ns, self.idle_ns, self.unknown_ns) = (used.other_ns, used.idle_ns, Some(used.unknown_ns));
        self.is_timed = used.unknown_ns == 0 || self.busy_ns.max(self.other_ns).max(self.idle_ns) > 0;
    }
}

/// All rows, and what is in none of them because there were too many.
pub struct Rows {
    pub rows: Vec<Row>,
    pub rest: Row,
    pub is_cut: bool,
}

/// The part of the window of which times are known, ns: as far as the kernel's events go.
pub fn timed_stretch(usage: &Usage) -> Option<(i64, i64)> {
    usage.stretch().filter(|(from, to)| from < to)
}

/// The rows of what was counted, in the order of their keys.
pub fn all(of: &Opened, level: Level, pass: &StatisticsPass<'_>) -> Rows {
    let (stats, usage) = (&pass.stats, pass.usage.as_ref());
    let mut by_key: BTreeMap<Option<i64>, Row> = BTreeMap::new();
    for (_, counted) in stats.rows() {
        let key = counted.key.first().copied().flatten();
        let name = if level == Level::Cpu { String::new() } else { counted.name.to_string() };
        let (records, span) = (counted.count, Some((counted.first, counted.last)));
        by_key.insert(key, Row { key, name, records, span, ..Row::default() });
    }
    let mut rest = Row { records: stats.rows_left_out(), ..Row::default() };
    let mut is_cut = rest.records > 0;
    match (level, usage) {
        (Level::Event, _) => name_events(of, &mut by_key),
        (Level::Cpu, Some(usage)) => {
            for (number, used) in usage.cpus() {
                let row = row_of(&mut by_key, Some(number.into()));
                if timed_stretch(usage).is_some() {
                    row.of_cpu(used);
                }
            }
        }
        (_, Some(usage)) => {
            for (actor, used) in by_name(usage) {
                if actor.tid < 0 {
                    rest.spend(used);
                    is_cut = true;
                    continue;
                }
                let key = if level == Level::Process { actor.process } else { Some(actor.tid) };
                row_of(&mut by_key, key.map(i64::from)).spend(used);
            }
            by_key.values_mut().for_each(|row| name_threads(row, level, &pass.people));
            // Who has not run has used no time, unless it is not known who ran. The idle thread uses none.
            let is_known = timed_stretch(usage).is_some() && usage.cpus().all(|(_, used)| used.unknown_ns == 0);
            let idle = by_key.values_mut().filter(|row| is_known && row.key.is_some_and(|key| key > 0));
            idle.for_each(|row| row.is_timed = true);
        }
        _ => {}
    }
    Rows { rows: by_key.into_values().collect(), rest, is_cut }
}

fn row_of(by_key: &mut BTreeMap<Option<i64>, Row>, key: Option<i64>) -> &mut Row {
    by_key.entry(key).or_insert_with(|| Row { key, ..Row::default() })
}

/// Threads that ran, in an order that does not depend on how they are stored.
fn by_name(usage: &Usage) -> Vec<(&Actor, &ThreadUse)> {
    let mut all: Vec<_> = usage.threads().filter(|(_, used)| used.cpu.runs > 0).collect();
    all.sort_by_key(|(actor, _)| **actor);
    all
}

/// Names the thread or process of a row. Records have the name of the thread that wrote them.
fn name_threads(row: &mut Row, level: Level, people: &People) {
    let number = row.key.and_then(|key| i32::try_from(key).ok()).filter(|key| *key > 0);
    let name = number.and_then(|number| people.newest(number)).map(|person| person.name).unwrap_or_default();
    if !name.is_empty() && (level == Level::Process || row.name.is_empty()) {
        row.name = name.to_string();
    }
}

fn name_events(of: &Opened, by_key: &mut BTreeMap<Option<i64>, Row>) {
    for (trace, opened) in of.traces.iter().enumerate() {
        for event in 0..opened.metadata.events.len() {
            let Some(class) = of.classes.at(trace, event) else { continue };
            if let Some(row) = by_key.get_mut(&Some(class as i64)) {
                row.is_kernel = Some(of.classes.is_of_kernel(trace, event));
                row.name = of.classes.list.get(class).map(|class| class.name.clone()).unwrap_or_default();
            }
        }
    }
}

/// Sorts rows that are in the order of their keys.
pub fn sort(rows: &mut [Row], by: Sort) {
    match by {
        Sort::Records => rows.sort_by_key(|row| Reverse((row.records, row.busy_ns))),
        Sort::Time => rows.sort_by_key(|row| Reverse((row.busy_ns, row.records))),
        Sort::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
    }
}
