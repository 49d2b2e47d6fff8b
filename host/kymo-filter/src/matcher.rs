// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of records, found record by record [spec/analyze.md 5.1], and filters that ask for the time between them.
//!
//! What is open is kept in a table of bounded size: the oldest is dropped, and counted.

use crate::ast::Context;
use crate::check::{Checked, pair_alone};
use crate::error::Error;
use crate::open::Open;
use crate::pair::{Left, Pair};
use crate::plan::{OperandSource, Record, Value};
use crate::schema::{FieldPath, Schema};

/// What one pair did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Begins that were closed by an end.
    pub closed: u64,
    /// Begins that were dropped because the table was full.
    pub dropped: u64,
    /// Begins inside of a pair with the same key that has been closed since.
    pub nested: u64,
    /// Wake-ups: followed by another one of the same thread, which counts instead.
    pub replaced: u64,
    /// Ends without a begin.
    pub unopened: u64,
    /// Records of these events without a key or a time.
    pub without_key: u64,
    /// Wake-ups: threads that ran again without one, because they had been preempted.
    pub preempted: u64,
}

/// What a part of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart<'p> {
    /// A field of the event, or what is in one.
    Field(&'p FieldPath),
    /// What the trace tells of a record besides its fields.
    Context(Context),
}

/// The value of a part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// Also of an enumeration.
    Integer(i128),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyValue::Integer(value) => value.fmt(f),
            KeyValue::Bool(value) => u8::from(*value).fmt(f),
            KeyValue::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// A pair that a record closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Nanoseconds from begin to end.
    pub ns: i128,
    /// Another one with the same key began in it: which begin is of this end follows from nesting alone.
    pub is_outer: bool,
    /// The thread that began it, where the record tells it.
    pub begun_by: Option<i128>,
}

/// A begin that waits for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it began, ns.
    pub ns: i128,
    /// The thread that began it, where the record tells it.
    pub thread: Option<i128>,
    /// Its key, in parts.
    pub key: Vec<KeyValue>,
}

impl Waiting {
    /// Its key, as [`PairLatency::key`] has it.
    pub fn key_text(&self) -> String {
        shown(self.key.iter())
    }
}

/// A begin that waits for its end, with all that is needed to go on with it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBegin {
    /// Its key, as bytes.
    pub key: Box<[u8]>,
    /// When it began, ns; `None` where no latency begins there.
    pub ns: Option<i128>,
    /// The thread that began it, where the record tells it.
    pub thread: Option<i128>,
    /// The process, where pairs are of one thread and the record tells it.
    pub process: Option<i128>,
    /// Begins with the same key directly in it.
    pub inner: u64,
}

impl KeptBegin {
    /// The key of a pair that is of one thread. `cpu`: of an idle thread, which is one for each CPU.
    pub fn key_of_thread(thread: i128, cpu: Option<u32>) -> Box<[u8]> {
        let mut key = Vec::new();
        append(&mut key, Value::Int(thread));
        if let Some(cpu) = cpu {
            append(&mut key, Value::Int(cpu.into()));
        }
        key.into()
    }

    /// The CPU in such a key.
    pub fn cpu_of_idle(&self) -> Option<u32> {
        match values(&self.key).nth(1)? {
            KeyValue::Integer(cpu) => u32::try_from(cpu).ok(),
            _ => None,
        }
    }
}

/// Finds the latencies of one pair in records that are given in the order of time.
#[derive(Debug)]
pub struct PairLatency {
    pair: Pair,
    open: Open<Box<[u8]>, OpenPair>,
    key: Vec<u8>,
    counts: PairCounts,
}

#[derive(Clone, Copy, Debug)]
struct OpenPair {
    /// When; `None` where it is no latency: a thread can run without having been woken, a begin does not have what
    /// `where=` asks for.
    ns: Option<i128>,
    /// The thread that began it, where the record tells it.
    thread: Option<i128>,
    /// The process, where pairs are of one thread and the record tells it.
    process: Option<i128>,
    /// Begins with the same key directly in it.
    inner: u64,
}

impl OpenPair {
    /// Whether it may be of this process; `None`: not known.
    fn is_of(&self, process: Option<i128>) -> bool {
        self.process.is_none() || process.is_none() || self.process == process
    }
}

impl PairLatency {
    /// A pair by its arguments alone, `req:begin, req:end, by=id`, held against events. At most `open_max` begins wait.
    ///
    /// Refused are names that no event has.
    pub fn parse(text: &str, schema: &(impl Schema + ?Sized), open_max: usize) -> Result<Self, Error> {
        Ok(Self::new(pair_alone(text, schema)?, open_max))
    }

    fn new(pair: Pair, open_max: usize) -> Self {
        Self { pair, open: Open::with_max(open_max), key: Vec::new(), counts: PairCounts::default() }
    }

    /// Whether records of the event at this position begin or end it.
    pub fn takes(&self, event: usize) -> bool {
        let closes = self.pair.closes.get(event).is_some_and(Option::is_some);
        closes || self.pair.opens.get(event).is_some_and(Option::is_some)
    }

    /// Begins that wait for their end.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Those begins, in no order.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.open.entries().filter_map(|(key, begun)| {
            Some(Waiting { ns: begun.ns?, thread: begun.thread, key: values(key).collect() })
        })
    }

    /// Those begins, in the order in which they began.
    pub fn kept(&self) -> impl Iterator<Item = KeptBegin> {
        self.open.in_order().map(|(key, begun)| {
            let OpenPair { ns, thread, process, inner } = *begun;
            KeptBegin { key: key.clone(), ns, thread, process, inner }
        })
    }

    /// Goes on with a begin. They are given in the order in which they began.
    pub fn resume(&mut self, kept: KeptBegin) {
        let KeptBegin { key, ns, thread, process, inner } = kept;
        self.open.push(key, OpenPair { ns, thread, process, inner });
    }

    /// Begins behind one with the same key that has not been closed: it, or its end, may be missing.
    pub fn repeated(&self) -> u64 {
        self.open.values().map(|begun| begun.inner).sum()
    }

    /// What happened so far.
    pub fn counts(&self) -> PairCounts {
        PairCounts { dropped: self.open.dropped(), ..self.counts }
    }

    /// Takes a record of the event at position `event`; what it closes. Allocates only for a begin.
    pub fn feed<R: Record>(&mut self, event: usize, record: &R) -> Option<Closed> {
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

    /// What the parts of the key are of an event that ends it.
    pub fn key_parts(&self, event: usize) -> Vec<KeyPart<'_>> {
        let sources = self.pair.closes.get(event).and_then(Option::as_deref).unwrap_or_default();
        sources
            .iter()
            .map(|source| match source {
                OperandSource::Context(context) => KeyPart::Context(*context),
                OperandSource::Place(place) => KeyPart::Field(place),
            })
            .collect()
    }

    /// The key of the record that was fed last: its parts. Of an idle thread the last one is its CPU.
    pub fn key_values(&self) -> impl Iterator<Item = KeyValue> {
        values(&self.key)
    }

    /// The key of the record that was fed last, as text: its parts separated by commas.
    pub fn key(&self) -> String {
        shown(self.key_values())
    }

    /// Records were lost: which threads wait after a wake-up is not known any more.
    fn lost(&mut self) {
        if self.pair.is_of_wakeups() {
            self.open.clear();
        }
    }

    /// A thread ceases to run. If it could go on, it needs no wake-up, and one that came while it ran was for nothing.
    fn leave<R: Record>(&mut self, event: usize, record: &R) {
        let Some(leaving) = self.pair.leaves[event].as_ref() else { return };
        if !write_key(&mut self.key, std::slice::from_ref(&leaving.thread), record) {
            return;
        }
        match leaving.how(record) {
            Left::Runnable => self.replace(None),
            Left::Dead => drop(self.open.pop(self.key.as_slice())),
            // It was preempted before, and that is over. A wake-up may be older than the switch: it came while the
            // thread went to sleep.
            Left::Asleep => drop(self.open.pop_where(self.key.as_slice(), |begun| begun.ns.is_none())),
            Left::Idle => {}
        }
    }

    fn close<R: Record>(&mut self, event: usize, record: &R, ns: i128) -> Option<Closed> {
        if !self.write_key_of(record, |pair| pair.closes[event].as_deref()) {
            self.counts.without_key += 1;
            return None;
        }
        let process = self.process(record);
        let Some(begun) = self.open.pop_where(self.key.as_slice(), |begun| begun.is_of(process)) else {
            self.counts.unopened += 1;
            return None;
        };
        match begun.ns {
            Some(begin) => {
                self.counts.closed += 1;
                self.counts.nested += begun.inner;
                Some(Closed { ns: ns - begin, is_outer: begun.inner > 0, begun_by: begun.thread })
            }
            None => {
                self.counts.preempted += u64::from(self.pair.is_of_wakeups());
                None
            }
        }
    }

    fn begin<R: Record>(&mut self, event: usize, record: &R, ns: i128) {
        if !self.write_key_of(record, |pair| Some(pair.opens[event].as_ref()?.keys.as_slice())) {
            self.counts.without_key += 1;
            return;
        }
        let Some(opening) = self.pair.opens[event].as_ref() else { return };
        let is_wanted = opening.when.holds(record, &[]);
        if !self.pair.is_of_wakeups() {
            let process = self.process(record);
            if let Some(outer) = self.open.newest_where(self.key.as_slice(), |begun| begun.is_of(process)) {
                outer.inner += 1;
            }
            let begun = OpenPair { ns: is_wanted.then_some(ns), thread: thread(record), process, inner: 0 };
            return self.open.push(self.key.as_slice().into(), begun);
        }
        let before = self.open.newest_where(self.key.as_slice(), |_| true);
        let can_run = before.as_ref().is_some_and(|begun| begun.ns.is_none());
        if can_run || (before.is_some() && !opening.replaces) {
            return;
        }
        self.counts.replaced += u64::from(before.is_some());
        match is_wanted {
            true => self.replace(Some(ns)),
            false => drop(self.open.pop(self.key.as_slice())),
        }
    }

    fn replace(&mut self, ns: Option<i128>) {
        self.open.replace(self.key.as_slice().into(), OpenPair { ns, thread: None, process: None, inner: 0 });
    }

    /// Makes the key of a record; false where it lacks a part of it.
    fn write_key_of<R: Record>(&mut self, record: &R, keys: impl Fn(&Pair) -> Option<&[OperandSource]>) -> bool {
        let Some(keys) = keys(&self.pair) else { return false };
        if !write_key(&mut self.key, keys, record) {
            return false;
        }
        // The idle threads of all CPUs have one number.
        let of_idle = self.pair.is_of_thread && record.context(Context::Tid) == Value::Int(0);
        !of_idle || append(&mut self.key, record.context(Context::Cpu))
    }

    /// The process of a record. Numbers of threads of several programs are the same in containers.
    fn process<R: Record>(&self, record: &R) -> Option<i128> {
        match record.context(Context::Pid) {
            Value::Int(process) if self.pair.is_of_thread => Some(process),
            _ => None,
        }
    }
}

/// The keys of a record, one after another, each with its kind; false where one is missing.
fn write_key<R: Record>(key: &mut Vec<u8>, sources: &[OperandSource], record: &R) -> bool {
    key.clear();
    sources.iter().all(|source| {
        let value = match source {
            OperandSource::Place(place) => record.field(place),
            OperandSource::Context(context) => record.context(*context),
        };
        append(key, value)
    })
}

const INTEGER: u8 = 0;
const BOOL: u8 = 1;
const TEXT: u8 = 2;

fn append(key: &mut Vec<u8>, value: Value<'_>) -> bool {
    match value {
        Value::Int(value) | Value::Label(value, _) => {
            key.push(INTEGER);
            key.extend_from_slice(&value.to_le_bytes());
        }
        Value::Bool(value) => key.extend_from_slice(&[BOOL, value.into()]),
        Value::Text(text) => {
            key.push(TEXT);
            key.extend_from_slice(&(text.len() as u64).to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        }
        _ => return false,
    }
    true
}

/// The thread of a record.
fn thread<R: Record>(record: &R) -> Option<i128> {
    match record.context(Context::Tid) {
        Value::Int(thread) => Some(thread),
        _ => None,
    }
}

/// The parts of a key.
fn values(key: &[u8]) -> impl Iterator<Item = KeyValue> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (part, behind) = value(rest)?;
        rest = behind;
        Some(part)
    })
}

/// Parts of a key, with commas between them.
fn shown(parts: impl Iterator<Item = impl std::fmt::Display>) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(", ")
}

/// The first part of a key, and what is behind it.
fn value(key: &[u8]) -> Option<(KeyValue, &[u8])> {
    let (kind, rest) = key.split_first()?;
    Some(match *kind {
        INTEGER => {
            let (bytes, behind) = rest.split_first_chunk::<16>()?;
            (KeyValue::Integer(i128::from_le_bytes(*bytes)), behind)
        }
        BOOL => {
            let (value, behind) = rest.split_first()?;
            (KeyValue::Bool(*value != 0), behind)
        }
        _ => {
            let (length, behind) = rest.split_first_chunk::<8>()?;
            let (text, behind) = behind.split_at_checked(u64::from_le_bytes(*length) as usize)?;
            (KeyValue::Text(String::from_utf8_lossy(text).into_owned()), behind)
        }
    })
}

/// A filter with the state that its latencies need. All records must be given to it, in the order of time.
#[derive(Debug)]
pub struct Matcher {
    checked: Checked,
    pairs: Vec<PairLatency>,
    latencies: Vec<Option<i128>>,
}

impl Matcher {
    /// With at most `open_max` begins for each pair; [`crate::OPEN_MAX`] where nothing is known.
    pub fn new(checked: Checked, open_max: usize) -> Self {
        let pairs: Vec<_> = checked.pairs.iter().map(|pair| PairLatency::new(pair.clone(), open_max)).collect();
        Self { latencies: vec![None; pairs.len()], pairs, checked }
    }

    /// Whether a record of the event at position `event` is selected.
    #[inline]
    pub fn matches<R: Record>(&mut self, event: usize, record: &R) -> bool {
        for (pair, latency) in self.pairs.iter_mut().zip(&mut self.latencies) {
            *latency = pair.feed(event, record).map(|closed| closed.ns);
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
