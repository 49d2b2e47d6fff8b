// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a trace around a question: spans, records, and who everybody is.

use super::note::{Note, Notes};
use super::question::Question;
use crate::event::{Interrupt, Off};
use crate::hash::Map;
use crate::history::History;
use crate::name::Name;
use crate::sink::Sink;
use crate::span::{CpuSpan, InterruptSpan, OffSpan, ThreadSpan};
use crate::state::{Thread, Threads};

/// Neighbours are looked for so far before and behind a stretch at least, ns.
const AROUND_NS: i64 = 10_000_000;
/// Stretches with interrupts or preemption off, and losses, that are kept.
const STRETCHES_MAX: usize = 65_536;

/// Who a thread is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Who {
    pub name: Name,
    pub prio: Option<i16>,
    pub process: Option<i32>,
}

/// Takes spans and records around a question.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(super) question: Question,
    pub(super) history: History,
    pub(super) notes: Notes,
    /// By CPU and what was off, in the order of time.
    offs: Map<(u32, Off), Vec<OffSpan>>,
    off_count: usize,
    pub(super) losses: Vec<(Option<u32>, i64, i64)>,
    pub(super) threads: Map<i32, Who>,
    pub(super) interrupts: Map<Interrupt, Name>,
    pub(super) cpus: Vec<CpuSpan>,
    around_ns: i64,
}

impl Scene {
    /// Nothing yet; keeps at most `spans_max` spans.
    pub fn new(question: Question, spans_max: usize) -> Scene {
        let (from, to) = (question.from, question.to.max(question.from));
        let around_ns = to.saturating_sub(from).clamp(AROUND_NS, i64::MAX / 4);
        Scene {
            history: History::new(from, to.max(from.saturating_add(1)), spans_max),
            notes: Notes::default(),
            offs: Map::default(),
            off_count: 0,
            losses: Vec::new(),
            threads: Map::default(),
            interrupts: Map::default(),
            cpus: Vec::new(),
            around_ns,
            question: Question { from, to, ..question },
        }
    }

    /// Whether a record of that time is near enough to be kept.
    #[inline]
    pub fn wants(&self, time: i64) -> bool {
        time >= self.question.from.saturating_sub(self.around_ns)
            && time <= self.question.to.saturating_add(self.around_ns)
    }

    /// Takes a record that it wants.
    pub fn note(&mut self, note: Note) {
        if self.wants(note.head.time) {
            self.notes.add(note, self.question.from, self.question.to);
        }
    }

    /// From when on spans are missing, because there were too many.
    pub fn full_from(&self) -> Option<i64> {
        self.history.full_from()
    }

    /// The spans that were kept.
    pub fn history(&self) -> &History {
        &self.history
    }

    fn touches(&self, from: i64, to: i64) -> bool {
        self.wants(from) || self.wants(to) || (from < self.question.from && to > self.question.to)
    }
}

impl Sink for Scene {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if self.touches(span.from, span.to) {
            let who = self.threads.entry(span.tid).or_default();
            who.name = if thread.name.is_empty() { who.name } else { thread.name };
            // The priority that it had in the stretch; a later one only where there is no other.
            if who.prio.is_none() || span.from <= self.question.to {
                who.prio = thread.prio.or(who.prio);
            }
            who.process = thread.process.or(who.process);
        }
        Sink::thread(&mut self.history, span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        Sink::cpu(&mut self.history, span);
        let at = self.question.from;
        if self.question.to == at && span.from <= at && span.to > at {
            self.cpus.push(*span);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, _threads: Threads<'_>) {
        if !span.name.is_empty() && self.touches(span.from, span.to) {
            self.interrupts.insert(span.interrupt, span.name);
        }
    }

    fn off(&mut self, span: &OffSpan, _threads: Threads<'_>) {
        let is_near = span.from < self.question.to && span.to > self.question.from;
        if is_near && self.off_count < STRETCHES_MAX {
            self.off_count += 1;
            self.offs.entry((span.cpu, span.what)).or_default().push(*span);
        }
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        if from <= self.question.to && to >= self.question.from && self.losses.len() < STRETCHES_MAX {
            self.losses.push((cpu, from, to));
        }
    }
}

impl Scene {
    /// What was off on a CPU within [from, to): stretches of interrupts off, else of preemption off, in the order of
    /// time.
    pub(super) fn off(&self, cpu: u32, from: i64, to: i64) -> Vec<(i64, i64, Off)> {
        let within = |what: Off| {
            let all = self.offs.get(&(cpu, what)).map_or(&[][..], Vec::as_slice);
            let first = all.partition_point(|span| span.to <= from);
            let near = all[first..].iter().take_while(move |span| span.from < to);
            near.map(move |span| (span.from.max(from), span.to.min(to), what)).filter(|(from, to, _)| from < to)
        };
        let mut found: Vec<_> = within(Off::Irqs).collect();
        if found.is_empty() {
            found = within(Off::Preemption).collect();
        }
        found.sort_unstable();
        found
    }
}
