// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the time of a stretch went to: the budget of [spec/analyze.md 6], with interrupts or preemption off and page
//! faults told apart, and the same for a CPU.

use super::cause::Cause;
use super::names::Names;
use super::note::Note;
use super::scene::Scene;
use super::story::Slice;
use crate::budget::{Part, Piece};
use crate::doubt::Doubt;
use crate::event::{Event, Off};
use crate::hash::Map;
use crate::span::{Context, Doing, Until};

/// A piece of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub from: i64,
    pub to: i64,
    /// The CPU, where it was one's.
    pub cpu: Option<u32>,
    pub cause: Cause,
    pub doubt: Doubt,
}

impl Stretch {
    pub fn ns(&self) -> u64 {
        self.to.abs_diff(self.from)
    }
}

/// The pieces of a scene's stretch, in the order of time, without gap.
pub(super) fn stretches(scene: &Scene) -> Vec<Stretch> {
    let (from, to) = (scene.question.from, scene.question.to);
    match (scene.question.thread(), scene.question.cpu) {
        (Some(tid), _) => {
            let own: Vec<&Note> = scene.notes.iter().filter(|note| note.head.tid == Some(tid)).collect();
            let pieces = scene.history.pieces(tid, from, to);
            pieces.iter().flat_map(|piece| of_thread(scene, tid, piece, &own)).collect()
        }
        (None, Some(cpu)) => of_cpu(scene, cpu, from, to),
        (None, None) => Vec::new(),
    }
}

fn of_thread(scene: &Scene, tid: i32, piece: &Piece, own: &[&Note]) -> Vec<Stretch> {
    let cpu = cpu_of(scene, tid, piece);
    let cause = match piece.part {
        Part::Running => Cause::Running,
        Part::Interrupt(interrupt) => Cause::Interrupt(interrupt),
        Part::Preempted { by } => Cause::Preempted { by, off: None },
        Part::WaitInterrupt(interrupt) => Cause::WaitInterrupt(interrupt),
        Part::IdleExit => Cause::IdleExit,
        Part::Switching => Cause::Switching,
        Part::Blocked { state, call, waker } => {
            Cause::Blocked { state, call, waker, fault: fault_of(own, tid, piece.from) }
        }
        Part::Unknown => Cause::Unknown,
    };
    let doubt = within(piece.doubt, cause == Cause::Unknown);
    let whole = Stretch { from: piece.from, to: piece.to, cpu, cause, doubt };
    match (cause, cpu) {
        (Cause::Preempted { by, .. }, Some(cpu)) => {
            split(scene, cpu, whole, |off| Cause::Preempted { by, off: Some(off) })
        }
        _ => vec![whole],
    }
}

/// The trace may end in the span that a piece is cut from: of the piece itself all is known, but where nothing is.
pub(super) fn within(doubt: Doubt, is_unknown: bool) -> Doubt {
    let marks = Doubt::ALL.iter().filter(|(mark, _)| *mark != Doubt::END || is_unknown);
    marks.filter(|(mark, _)| doubt.has(*mark)).fold(Doubt::NONE, |all, (mark, _)| all | *mark)
}

/// The CPU that a thread ran or waited on in a piece.
fn cpu_of(scene: &Scene, tid: i32, piece: &Piece) -> Option<u32> {
    let span = scene.history.of_thread(tid, piece.from, piece.to).next()?;
    match (span.doing, span.until) {
        (Doing::Running { cpu }, _) | (Doing::Runnable { cpu: Some(cpu), .. }, _) => Some(cpu),
        (Doing::Runnable { .. }, Until::Runs { cpu }) => Some(cpu),
        _ => None,
    }
}

/// The page fault that a thread blocked in: the last thing it began.
fn fault_of(own: &[&Note], tid: i32, from: i64) -> Option<u64> {
    let behind = own.partition_point(|note| note.head.time <= from);
    for note in own[..behind].iter().rev() {
        match note.event {
            Some(Event::Fault { address, .. }) => return Some(address),
            Some(Event::Call { .. } | Event::Return { .. }) => return None,
            Some(Event::Switch { next, .. }) if next == tid => return None,
            _ => {}
        }
    }
    None
}

fn of_cpu(scene: &Scene, cpu: u32, from: i64, to: i64) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut at = from;
    for span in scene.history.of_cpu(cpu, from, to) {
        let cause = match span.context {
            Context::Unknown => Cause::Unknown,
            Context::Idle => Cause::Idle,
            Context::Thread(tid) => Cause::Thread { tid, off: None },
            Context::Interrupt(interrupt) => Cause::Interrupt(interrupt),
        };
        let (begin, end) = (span.from.max(at), span.to.min(to));
        if begin > at {
            found.push(Stretch { from: at, to: begin, cpu: Some(cpu), cause: Cause::Unknown, doubt: Doubt::START });
        }
        if end > begin {
            let doubt = within(span.doubt, cause == Cause::Unknown);
            let whole = Stretch { from: begin, to: end, cpu: Some(cpu), cause, doubt };
            match cause {
                Cause::Thread { tid, .. } => {
                    found.extend(split(scene, cpu, whole, |off| Cause::Thread { tid, off: Some(off) }));
                }
                _ => found.push(whole),
            }
            at = end;
        }
    }
    if at < to {
        found.push(Stretch { from: at, to, cpu: Some(cpu), cause: Cause::Unknown, doubt: Doubt::END });
    }
    found
}

/// Where something was off, it is another cause.
fn split(scene: &Scene, cpu: u32, whole: Stretch, with: impl Fn(Off) -> Cause) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut at = whole.from;
    for (from, to, off) in scene.off(cpu, whole.from, whole.to) {
        let from = from.max(at);
        if from >= to {
            continue;
        }
        if from > at {
            found.push(Stretch { from: at, to: from, ..whole });
        }
        found.push(Stretch { from, to, cause: with(off), ..whole });
        at = to;
    }
    if at < whole.to {
        found.push(Stretch { from: at, ..whole });
    }
    found
}

/// The pieces summed up by cause, the largest first.
pub(super) fn budget(names: &Names<'_>, stretches: &[Stretch]) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::new();
    let mut index = Map::default();
    for stretch in stretches {
        let at = *index.entry(stretch.cause).or_insert(slices.len());
        if at == slices.len() {
            let cause = stretch.cause;
            let text = names.cause(cause, stretch.cpu);
            let (kind, tid, doubt) = (cause.kind(), cause.tid(), Doubt::NONE);
            slices.push(Slice { cause, kind, text, tid, ns: 0, pieces: 0, doubt });
        }
        slices[at].ns += stretch.ns();
        slices[at].pieces += 1;
        slices[at].doubt |= stretch.doubt;
    }
    slices.sort_by_key(|slice| std::cmp::Reverse(slice.ns));
    slices
}
