// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a trace around a question: the evidence for its causes, records, and who everybody is.

use super::note::{Note, Notes};
use super::question::Question;
use crate::cause::{Evidence, Group, Machine, Moment, Segment};
use crate::event::Event;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{CpuSpan, InterruptSpan, OffSpan, ThreadSpan};
use crate::state::{State, Thread, Threads};

/// Neighbours are looked for so far before and behind a stretch at least, ns.
const AROUND_NS: i64 = 10_000_000;

/// Takes spans and records around a question.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(super) question: Question,
    pub(super) evidence: Evidence,
    pub(super) notes: Notes,
    pub(super) cpus: Vec<CpuSpan>,
    /// When records are near enough to be kept, ns, with both ends.
    wanted: (i64, i64),
}

impl Scene {
    /// Nothing yet; keeps at most `spans_max` spans.
    pub fn new(question: Question, spans_max: usize, machine: Machine) -> Scene {
        let (from, to) = (question.from, question.to.max(question.from));
        let around_ns = to.saturating_sub(from).clamp(AROUND_NS, i64::MAX / 4);
        let end = to.max(from.saturating_add(1));
        Scene {
            evidence: Evidence::new(from.saturating_sub(AROUND_NS), end, spans_max, machine),
            notes: Notes::default(),
            cpus: Vec::new(),
            wanted: (from.saturating_sub(around_ns), to.saturating_add(around_ns)),
            question: Question { from, to, ..question },
        }
    }

    /// What is asked about, ns.
    pub fn stretch(&self) -> (i64, i64) {
        (self.question.from, self.question.to)
    }

    /// When records are near enough to be kept, ns, with both ends.
    pub fn wanted(&self) -> (i64, i64) {
        self.wanted
    }

    /// Says that there are more records than are kept between `from` and the stretch, and between that and `to`: those
    /// that are farther away are not wanted.
    pub fn only_near(&mut self, from: i64, to: i64) {
        self.wanted = (self.wanted.0.max(from), self.wanted.1.min(to));
    }

    /// Whether a record of that time is near enough.
    #[inline]
    pub fn wants(&self, time: i64) -> bool {
        (self.wanted.0..=self.wanted.1).contains(&time)
    }

    /// Takes a record that it wants.
    pub fn note(&mut self, note: Note) {
        if self.wants(note.head.time) {
            self.notes.add(note, self.question.from, self.question.to);
        }
    }

    /// The control group of a thread.
    pub fn group(&mut self, tid: i32, group: Group) {
        self.evidence.learn_group(tid, group);
    }

    /// From when on spans are missing, because there were too many.
    pub fn full_from(&self) -> Option<i64> {
        self.evidence.full_from()
    }

    /// What the causes are found from.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The pieces of the stretch that is asked about, in the order of time, without gap.
    pub fn segments(&self) -> Vec<Segment> {
        let Question { from, to, asked, cpu, .. } = self.question;
        match (self.question.thread(), cpu) {
            (Some(tid), _) => self.evidence.segments(&Moment { tid, cpu, from, to, asked }),
            (None, Some(cpu)) => self.evidence.segments_of_cpu(cpu, from, to),
            (None, None) => Vec::new(),
        }
    }
}

impl Sink for Scene {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.evidence.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.evidence.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.evidence.cpu(span);
        let at = self.question.from;
        if self.question.to == at && span.from <= at && span.to > at {
            self.cpus.push(*span);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.evidence.interrupt(span, threads);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.evidence.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        if from <= self.question.to && to >= self.question.from {
            self.evidence.lost(cpu, from, to);
        }
    }
}
