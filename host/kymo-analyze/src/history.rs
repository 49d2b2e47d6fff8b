// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of a stretch of time, kept: budgets and critical paths are looked up in them.

use crate::hash::Map;
use crate::name::Name;
use crate::sink::Sink;
use crate::span::{CpuSpan, ThreadSpan};
use crate::state::Thread;

/// Spans that a history keeps, unless told otherwise: about 100 MB.
pub const SPANS_MAX: usize = 1 << 20;

/// The spans that touch [from, to).
#[derive(Clone, Debug)]
pub struct History {
    from: i64,
    to: i64,
    spans_max: usize,
    spans: usize,
    full_from: Option<i64>,
    threads: Map<i32, Vec<ThreadSpan>>,
    cpus: Map<u32, Vec<CpuSpan>>,
    /// By CPU: for each of its spans, since when the CPU has the current thread.
    current_since: Map<u32, Vec<i64>>,
    names: Map<i32, Name>,
}

impl History {
    /// Will keep at most `spans_max` spans that touch [from, to).
    pub fn new(from: i64, to: i64, spans_max: usize) -> History {
        History {
            from,
            to,
            spans_max,
            spans: 0,
            full_from: None,
            threads: Map::default(),
            cpus: Map::default(),
            current_since: Map::default(),
            names: Map::default(),
        }
    }

    /// From when on spans are missing, because there were too many.
    pub fn full_from(&self) -> Option<i64> {
        self.full_from
    }

    /// The spans of a thread, in the order of time.
    pub fn thread(&self, tid: i32) -> &[ThreadSpan] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The spans of a CPU, in the order of time.
    pub fn cpu(&self, number: u32) -> &[CpuSpan] {
        self.cpus.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The threads that have spans, ascending.
    pub fn tids(&self) -> Vec<i32> {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        tids
    }

    /// Name of a thread; may be empty.
    pub fn name(&self, tid: i32) -> Name {
        self.names.get(&tid).copied().unwrap_or_default()
    }

    /// The spans of a thread that touch [from, to).
    pub(crate) fn of_thread(&self, tid: i32, from: i64, to: i64) -> impl Iterator<Item = &ThreadSpan> {
        let spans = self.thread(tid);
        let first = spans.partition_point(|span| span.to <= from);
        spans[first..].iter().take_while(move |span| span.from < to).filter(|span| span.to > span.from)
    }

    /// The spans of a CPU that touch [from, to).
    pub(crate) fn of_cpu(&self, number: u32, from: i64, to: i64) -> impl Iterator<Item = &CpuSpan> {
        let spans = self.cpu(number);
        let first = spans.partition_point(|span| span.to <= from);
        spans[first..].iter().take_while(move |span| span.from < to)
    }

    /// Since when a CPU has the thread (or none) that it has at a time.
    pub(crate) fn current_since(&self, number: u32, at: i64) -> Option<i64> {
        let last = self.cpu(number).partition_point(|span| span.from <= at).checked_sub(1)?;
        self.current_since.get(&number)?.get(last).copied()
    }

    fn takes(&mut self, from: i64, to: i64) -> bool {
        if from >= self.to || to <= self.from {
            return false;
        }
        if self.spans >= self.spans_max {
            self.full_from.get_or_insert(from);
            return false;
        }
        self.spans += 1;
        true
    }
}

impl Sink for History {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if self.takes(span.from, span.to) {
            self.threads.entry(span.tid).or_default().push(*span);
            self.names.insert(span.tid, thread.name);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        if self.takes(span.from, span.to) {
            let spans = self.cpus.entry(span.cpu).or_default();
            let since = self.current_since.entry(span.cpu).or_default();
            let is_same = spans.last().is_some_and(|last| last.current == span.current);
            since.push(since.last().copied().filter(|_| is_same).unwrap_or(span.from));
            spans.push(*span);
        }
    }
}
