// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that follow from the state of a machine: each takes what kymo-analyze hands on, as the verbs do. A row
//! belongs to the part of the table in which it ends.

pub(crate) mod cpus;
pub(crate) mod latencies;
pub(crate) mod slice;
pub(crate) mod slices;
pub(crate) mod threads;
pub(crate) mod wakeups;

use std::borrow::Cow;

use kymo_analyze::{
    CallSpan, Context, CpuSpan, Doubt, Event, Head, InterruptSpan, Name, OffSpan, Sink, State, Thread, ThreadSpan,
    Threads, Unmatched,
};
use kymo_ctf::read::Passed;
use kymo_feed::{LossAt, Seen, Visit, Walker};
use kymo_index::range;
use kymo_query::doing::By;

use crate::emit::{Emit, Ended};
use crate::known::{Cell, Rows};
use crate::open::Group;
use crate::scan::{Scan, is_time};

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

/// Who makes rows. What a sink hands on is kept until [`Derive::flush`]: then the state knows the names of all.
pub(crate) trait Derive: Sink {
    /// A record, before the state moves by it.
    fn record(&mut self, _seen: &Seen<'_, '_>, _state: &State) {}
    /// Records of a kernel or of a program are missing.
    fn loss(&mut self, _loss: &LossAt) {}
    /// Rows of what was handed on since the last time.
    fn flush(&mut self, out: &mut Out<'_>, state: &State);
}

/// Where rows go.
pub(crate) struct Out<'o> {
    pub group: &'o Group,
    scan: &'o Scan,
    rows: &'o mut Rows,
    emit: &'o mut Emit,
    ended: Option<Ended>,
}

/// When, where and whose a row is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPlace {
    pub from: i64,
    pub to: i64,
    pub cpu: Option<u32>,
    pub tid: Option<i32>,
}

impl Out<'_> {
    /// Whether a row is asked for.
    pub fn wants(&self, of: &RowPlace) -> bool {
        let scan = self.scan;
        scan.part().0.is_none_or(|from| of.to >= from)
            && scan.wants_time(Some(of.from))
            && scan.wants_end(Some(of.to))
            && scan.wants_cpu(of.cpu)
            && scan.wants_tid(of.tid.map(i64::from))
    }

    /// Whether a column is asked for.
    pub fn has(&self, column: usize) -> bool {
        self.rows.has(column)
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[Cell<'_>]) {
        self.rows.push(row);
    }

    fn send(&mut self) {
        let is_enough = self.rows.len() as u64 >= self.emit.left();
        if self.ended.is_none() && (self.rows.is_full() || is_enough) {
            self.ended = self.rows.send(self.emit).err();
        }
    }
}

struct Visitor<'v, 'o, D> {
    derive: &'v mut D,
    out: &'v mut Out<'o>,
}

impl<D: Derive> Visit for Visitor<'_, '_, D> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.derive.flush(self.out, state);
        self.out.send();
        self.derive.record(seen, state);
    }

    fn loss(&mut self, loss: &LossAt) {
        self.derive.loss(loss);
    }
}

impl<D: Derive> Sink for Visitor<'_, '_, D> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.derive.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.derive.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.derive.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.derive.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.derive.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.derive.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.derive.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.derive.unmatched(of);
    }
}

/// What rows depend on beside the state in front of what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    State,
    /// What CPUs did since the threads were woken that have not run yet.
    Waits,
    /// All records: requests, pairs of the user's events and calls begin anywhere.
    All,
}

/// From when on records are read.
fn begin(group: &Group, from: Option<i64>, needs: Needs, emit: &Emit) -> Result<Option<i64>, Ended> {
    let Some(from) = from.filter(|_| needs != Needs::All) else { return Ok(None) };
    if needs == Needs::State {
        return Ok(Some(from));
    }
    let walker = state(group, from, emit)?;
    let waits = walker.state.threads().filter(|thread| thread.is_woken()).map(|thread| thread.ready_from);
    Ok(Some(waits.fold(from, i64::min)))
}

/// The state of all records before a time.
fn state<'g>(group: &'g Group, from: i64, emit: &Emit) -> Result<Walker<'g>, Ended> {
    let goes_on = || emit.goes_on();
    let before = range::state_before_while(&group.traces, &group.classes, &group.indexes, from, &goes_on);
    match before {
        Some(before) => Ok(before),
        None => emit.check().and(Err(Ended::Enough)),
    }
}

/// Goes through what is asked for of a group.
pub(crate) fn walk<D: Derive>(
    group: &Group,
    scan: &Scan,
    rows: &mut Rows,
    emit: &mut Emit,
    derive: &mut D,
    needs: Needs,
) -> Result<(), Ended> {
    let (part_from, part_to) = scan.part();
    let from = part_from.max(scan.from).max(scan.end_from);
    let to = [part_to, scan.end_to].into_iter().flatten().min();
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Ok(());
    }
    let to = group.read_to(to);
    let from = begin(group, from, needs, emit)?;
    let mut walker = Walker::new(&group.classes);
    if let Some(from) = from {
        walker = state(group, from, emit)?;
        walker.begin_range(from);
    }
    let mut reader = range::reader(&group.traces, &group.indexes, from.map(i128::from), to.map(i128::from));
    let mut out = Out { group, scan, rows, emit, ended: None };
    let mut passed = 0u32;
    while reader.pass().is_some() {
        walker.step(&mut reader, &mut (), &mut Visitor { derive, out: &mut out });
        passed = passed.wrapping_add(1);
        if passed % ASK_EVERY == 0 {
            out.emit.check()?;
        }
        if let Some(ended) = out.ended.take() {
            return Err(ended);
        }
    }
    // What is open at the end of a part ends in another one.
    if part_to.is_none() && is_last(group, to) {
        walker.state.finish(None, &mut Visitor { derive, out: &mut out });
    }
    derive.flush(&mut out, &walker.state);
    out.ended.take().map_or(Ok(()), Err)?;
    let Out { rows, emit, .. } = out;
    rows.send(emit)
}

/// Whether the trace has no record from a time on.
fn is_last(group: &Group, to: Option<i64>) -> bool {
    let Some(to) = to else { return true };
    let mut rest = range::reader(&group.traces, &group.indexes, Some(to.into()), None);
    loop {
        match rest.pass() {
            None => return true,
            Some(Passed::Record { .. }) => return false,
            Some(Passed::Loss { .. }) => {}
        }
    }
}

/// The name of a thread, as the state knows it.
pub(crate) fn name(state: &State, tid: Option<i32>) -> Name {
    match tid {
        Some(0) => Name::new("swapper"),
        Some(tid) => state.thread(tid).map(|thread| thread.name).unwrap_or_default(),
        None => Name::default(),
    }
}

/// The name of who woke a thread or took its CPU: a thread, an interrupt, or idle.
pub(crate) fn by_name(state: &State, by: Option<By>) -> Cow<'static, str> {
    match by {
        Some(By::Thread(tid)) => name(state, Some(tid)).to_string().into(),
        Some(by) => by.other().unwrap_or_default().into(),
        None => "".into(),
    }
}

/// The names of doubts.
pub(crate) fn doubt(doubt: Doubt) -> Cow<'static, str> {
    if doubt.is_none() { "".into() } else { doubt.to_string().into() }
}

/// The thread of a context; 0 for idle.
pub(crate) fn tid_of(context: Context) -> Option<i32> {
    match context {
        Context::Thread(tid) => Some(tid),
        Context::Idle => Some(0),
        Context::Unknown | Context::Interrupt(_) => None,
    }
}

/// A length of time; none where one of its ends is not known.
pub(crate) fn ns(from: i64, to: i64) -> Cell<'static> {
    if !is_time(&from) || !is_time(&to) {
        return Cell::Null;
    }
    Cell::from(to.saturating_sub(from).max(0) as u64)
}
