// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters that ask for the time between two records, decided record by record.
//!
//! What is open is kept in a table of bounded size: the oldest is dropped, and counted.

use std::collections::{HashMap, VecDeque};

use crate::ast::Context;
use crate::check::Checked;
use crate::pair::{Left, Pair};
use crate::plan::{Record, Source, Value};

/// Openings that a [`Matcher`] keeps for each pair.
pub const OPEN_MAX: usize = 1 << 16;

/// What one pair did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Latencies that were found.
    pub closed: u64,
    /// Openings that were dropped because the table was full.
    pub dropped: u64,
    /// Openings that were followed by another one with the same keys, which counts instead.
    pub replaced: u64,
    /// Closings without an opening.
    pub unopened: u64,
    /// Records of these events without a key or a time.
    pub without_key: u64,
    /// Wake-ups: threads that ran again without one, because they had been preempted.
    pub preempted: u64,
}

/// Finds the latencies of one pair in records that are given in the order of time.
#[derive(Debug)]
pub struct PairLatency {
    pair: Pair,
    open_max: usize,
    open: HashMap<Box<[u8]>, Open>,
    /// Openings in order, with those that were closed since.
    order: VecDeque<(u64, Box<[u8]>)>,
    next: u64,
    key: Vec<u8>,
    /// What happened so far.
    pub counts: PairCounts,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    /// When; `None` where a thread can run without having been woken.
    ns: Option<i128>,
}

impl PairLatency {
    fn new(pair: Pair, open_max: usize) -> Self {
        Self {
            pair,
            open_max: open_max.max(1),
            open: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            key: Vec::new(),
            counts: PairCounts::default(),
        }
    }

    /// Openings that wait for their closing.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes a record of the event at position `event`; nanoseconds since the opening where it closes one. Allocates
    /// only for an opening.
    pub fn feed<R: Record>(&mut self, event: usize, record: &R) -> Option<i128> {
        let closes = self.pair.closes.get(event).is_some_and(Option::is_some);
        let opens = self.pair.opens.get(event).is_some_and(Option::is_some);
        let leaves = self.pair.leaves.get(event).is_some_and(Option::is_some);
        if !closes && !opens && !leaves {
            return None;
        }
        let Value::Int(ns) = record.context(Context::Time) else {
            self.counts.without_key += 1;
            return None;
        };
        let latency = if closes { self.close(event, record, ns) } else { None };
        if leaves {
            self.leave(event, record);
        }
        if opens {
            self.begin(event, record, ns);
        }
        latency
    }

    /// Records were lost: which threads wait after a wake-up is not known any more.
    fn lost(&mut self) {
        if self.pair.is_of_wakeups() {
            self.open.clear();
            self.order.clear();
        }
    }

    /// A thread ceases to run. If it could go on, it needs no wake-up, and one that came while it ran was for nothing.
    fn leave<R: Record>(&mut self, event: usize, record: &R) {
        let Some(leaving) = self.pair.leaves[event].as_ref() else { return };
        if !write_key(&mut self.key, std::slice::from_ref(&leaving.thread), record) {
            return;
        }
        match leaving.how(record) {
            Left::Runnable => self.insert(None),
            Left::Dead => drop(self.open.remove(self.key.as_slice())),
            // It was preempted before, and that is over. A wake-up may be older than the switch: it came while the
            // thread went to sleep.
            Left::Asleep => {
                if self.open.get(self.key.as_slice()).is_some_and(|open| open.ns.is_none()) {
                    self.open.remove(self.key.as_slice());
                }
            }
            Left::Idle => {}
        }
    }

    fn close<R: Record>(&mut self, event: usize, record: &R, ns: i128) -> Option<i128> {
        if !write_key(&mut self.key, self.pair.closes[event].as_deref()?, record) {
            self.counts.without_key += 1;
            return None;
        }
        let Some(open) = self.open.remove(self.key.as_slice()) else {
            self.counts.unopened += 1;
            return None;
        };
        match open.ns {
            Some(begin) => {
                self.counts.closed += 1;
                Some(ns - begin)
            }
            None => {
                self.counts.preempted += 1;
                None
            }
        }
    }

    fn begin<R: Record>(&mut self, event: usize, record: &R, ns: i128) {
        let Some(opening) = self.pair.opens[event].as_ref() else { return };
        if !write_key(&mut self.key, &opening.keys, record) {
            self.counts.without_key += 1;
            return;
        }
        let before = self.open.get(self.key.as_slice());
        let can_run = before.is_some_and(|open| open.ns.is_none());
        if can_run || (before.is_some() && !opening.replaces) {
            return;
        }
        self.counts.replaced += u64::from(before.is_some());
        match opening.when.holds(record, &[]) {
            true => self.insert(Some(ns)),
            false => drop(self.open.remove(self.key.as_slice())),
        }
    }

    /// Puts an opening at `self.key`; the oldest ones go where there is no room.
    fn insert(&mut self, ns: Option<i128>) {
        let key: Box<[u8]> = self.key.as_slice().into();
        self.next += 1;
        let number = self.next;
        self.open.insert(key.clone(), Open { number, ns });
        self.order.push_back((number, key));
        while self.open.len() > self.open_max {
            let Some((number, key)) = self.order.pop_front() else { break };
            if self.open.get(&key).is_some_and(|open| open.number == number) {
                self.open.remove(&key);
                self.counts.dropped += 1;
            }
        }
        if self.order.len() > 2 * self.open_max {
            let open = &self.open;
            self.order.retain(|(number, key)| open.get(key).is_some_and(|open| open.number == *number));
        }
    }
}

/// The keys of a record, one after another, each with its kind; false where one is missing.
fn write_key<R: Record>(key: &mut Vec<u8>, sources: &[Source], record: &R) -> bool {
    key.clear();
    for source in sources {
        let value = match source {
            Source::Place(place) => record.field(place),
            Source::Context(context) => record.context(*context),
        };
        match value {
            Value::Int(value) | Value::Label(value, _) => {
                key.push(0);
                key.extend_from_slice(&value.to_le_bytes());
            }
            Value::Bool(value) => key.extend_from_slice(&[1, value.into()]),
            Value::Text(text) => {
                key.push(2);
                key.extend_from_slice(&(text.len() as u64).to_le_bytes());
                key.extend_from_slice(text.as_bytes());
            }
            _ => return false,
        }
    }
    true
}

/// A filter with the state that its latencies need. All records must be given to it, in the order of time.
#[derive(Debug)]
pub struct Matcher {
    checked: Checked,
    pairs: Vec<PairLatency>,
    latencies: Vec<Option<i128>>,
}

impl Matcher {
    /// With at most `open_max` openings for each pair; [`OPEN_MAX`] where nothing is known.
    pub fn new(checked: Checked, open_max: usize) -> Self {
        let pairs: Vec<_> = checked.pairs.iter().map(|pair| PairLatency::new(pair.clone(), open_max)).collect();
        Self { latencies: vec![None; pairs.len()], pairs, checked }
    }

    /// Whether a record of the event at position `event` is selected.
    #[inline]
    pub fn matches<R: Record>(&mut self, event: usize, record: &R) -> bool {
        for (pair, latency) in self.pairs.iter_mut().zip(&mut self.latencies) {
            *latency = pair.feed(event, record);
        }
        self.checked.plans.get(event).is_some_and(|plan| plan.holds(record, &self.latencies))
    }

    /// Tells that records were lost before the next one: a thread that was woken may have run since.
    pub fn lost(&mut self) {
        self.pairs.iter_mut().for_each(PairLatency::lost);
    }

    /// The latency that the newest record closed, nanoseconds; of several pairs the first.
    pub fn latency_ns(&self) -> Option<i128> {
        self.latencies.iter().flatten().next().copied()
    }

    /// The filter.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// The pairs, in the order of the expression.
    pub fn pairs(&self) -> &[PairLatency] {
        &self.pairs
    }
}
