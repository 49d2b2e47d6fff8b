// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a part of a trace adds to the sums of a window that it lies in [spec/index.md 5.6]: the same as all of its
//! records, whatever came before it. Parts that follow each other are one longer part.
//!
//! Of a CPU nothing is assumed until a stretch of the part tells who runs there: up to then its steps are kept one by
//! one, and are gone again where the sums are known. From then on its sums do not depend on what was before, but for
//! the run that was going on, which is kept apart.

use super::actor::Actor;
use super::amounts::CpuTime;
use super::cpu::{CpuUse, Lane, Run};
use super::sums::{Usage, context_of};
use crate::event::Event;
use crate::hash::Map;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{Context, CpuSpan, Doing, ThreadSpan};
use crate::state::{CPUS_MAX, State, Thread};

/// Steps of a CPU that are kept. A part with more has no sums.
pub const STEPS_MAX: usize = 64;
/// Threads of a part at most.
pub const ACTORS_MAX: usize = 1 << 16;

/// What happened to a CPU before it is known who runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStep {
    /// Records of it were lost.
    Lost,
    /// The first switch that the state knows of: this was left at that time, ns.
    FirstSwitch(Context, i64),
    /// A stretch was told of.
    Span(CpuSpan),
    /// A thread is about to leave it.
    Leaving(Actor),
    /// A thread has left it.
    Left(Actor),
}

/// A run: its time, and whose it was; `None`: no thread was told of when it ended.
pub type PartRun = (CpuTime, Option<Actor>);

/// A CPU in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePart {
    /// What happened until it was known who runs there.
    pub steps: Vec<LaneStep>,
    /// Who runs at the end, and the time of that run since the steps, or since it began; `None`: the steps are all.
    pub current: Option<(Context, CpuTime)>,
    /// All before is added up, ns.
    pub counted_to: i64,
    /// The run that went on behind the steps, where it has ended: its time since then.
    pub first_run: Option<PartRun>,
    /// Runs that began later and have ended.
    pub used: CpuUse,
    /// Who was about to leave at the newest switch, if there was one.
    pub leaving: Option<Actor>,
}

/// A part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartUsage {
    /// Time of the first event, ns.
    pub begin: Option<i64>,
    /// By number of the CPU; `None`: nothing happened there.
    pub lanes: Vec<Option<LanePart>>,
    /// Runs that are not the first one of a CPU, by thread.
    pub threads: Map<Actor, CpuTime>,
    /// Its sums depend on what was before in a way that is not kept.
    pub is_odd: bool,
}

impl LanePart {
    /// Keeps a step. Whether there was room.
    fn step(&mut self, step: LaneStep) -> bool {
        let has_room = self.steps.len() < STEPS_MAX;
        if has_room {
            self.steps.push(step);
        }
        has_room
    }

    /// A thread is about to leave.
    fn leaves(&mut self, actor: Actor) -> bool {
        self.leaving = Some(actor);
        self.early(LaneStep::Leaving(actor))
    }

    fn takes(&mut self, step: LaneStep) -> bool {
        match step {
            LaneStep::Leaving(actor) => self.leaves(actor),
            _ => self.early(step),
        }
    }

    /// The same where it is not known who runs; else it changes nothing.
    fn early(&mut self, step: LaneStep) -> bool {
        self.current.is_some() || self.step(step)
    }
}

impl PartUsage {
    fn lane(&mut self, number: u32) -> Option<&mut LanePart> {
        let at = number as usize;
        if number >= CPUS_MAX {
            return None;
        }
        if self.lanes.len() <= at {
            self.lanes.resize(at + 1, None);
        }
        Some(self.lanes[at].get_or_insert_default())
    }

    /// A record of a kernel by a stream whose records are written by the threads that they name, before the state moves
    /// by it.
    #[inline]
    pub fn written(&mut self, head: &Head, thread: Option<&Thread>, state: &State) {
        let (Some(tid), Some(number)) = (head.tid, head.cpu) else { return };
        self.check(number, tid, thread, state);
    }

    /// Holds a thread against the one that should run: where they differ, the part is of no use.
    #[inline]
    fn check(&mut self, number: u32, tid: i32, thread: Option<&Thread>, state: &State) {
        let known = state.cpu(number).map_or(Context::Unknown, |cpu| cpu.current);
        self.is_odd |= known != Context::Unknown && known != context_of(tid);
        self.check_elsewhere(number, thread);
        if !matches!(self.lanes.get(number as usize), Some(Some(_))) {
            let _lane = self.lane(number);
        }
    }

    #[inline]
    fn check_elsewhere(&mut self, here: u32, thread: Option<&Thread>) {
        if let Some(Doing::Running { cpu }) = thread.map(|thread| thread.doing) {
            self.is_odd |= cpu != here;
        }
    }

    /// An event, before the state moves by it.
    #[inline]
    pub fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if self.begin.is_none() {
            self.begin = Some(state.now().map_or(head.time, |now| now.max(head.time)));
        }
        match *event {
            Event::Switch { prev, next, .. } => {
                if let Some(number) = head.cpu {
                    let at = state.now().map_or(head.time, |now| now.max(head.time));
                    self.switched(number, (prev, next), at, state);
                }
            }
            Event::Rename { tid: Some(tid), name, .. } | Event::Exec { old_tid: tid, name, .. } => {
                let Some(until_now) = Usage::until_rename(tid, name, head, state) else { return };
                self.cpu(&until_now);
                self.end(until_now.cpu, Some(called(tid, state.thread(tid))));
            }
            _ => {}
        }
    }

    fn switched(&mut self, number: u32, (prev, next): (i32, i32), at: i64, state: &State) {
        let thread = state.thread(prev);
        self.check(number, prev, thread, state);
        self.check_elsewhere(number, state.thread(next));
        let is_first = state.cpu(number).is_none_or(|cpu| cpu.current == Context::Unknown);
        let Some(lane) = self.lane(number) else { return };
        let mut has_room = !is_first || lane.early(LaneStep::FirstSwitch(context_of(prev), at));
        if prev != 0 {
            has_room &= lane.leaves(called(prev, thread));
        }
        self.is_odd |= !has_room;
    }

    /// Records were lost. Where it is known who runs, the state tells that nobody is known from there on.
    pub fn lost(&mut self, cpu: Option<u32>) {
        let lane = cpu.and_then(|number| self.lane(number));
        self.is_odd |= !lane.is_some_and(|lane| lane.early(LaneStep::Lost));
    }

    /// A stretch of a thread has ended.
    #[inline]
    pub fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if let Doing::Running { cpu } = span.doing {
            self.left(cpu, called(span.tid, Some(thread)));
        }
    }

    fn left(&mut self, number: u32, actor: Actor) {
        let Some(lane) = self.lane(number) else { return };
        match lane.current {
            None => {
                let has_room = lane.step(LaneStep::Left(actor));
                self.is_odd |= !has_room;
            }
            Some((current, _)) if current == Context::Thread(actor.tid) => self.end(number, Some(actor)),
            Some(_) => {}
        }
    }

    /// A stretch of a CPU has ended.
    #[inline]
    pub fn cpu(&mut self, span: &CpuSpan) {
        self.begin.get_or_insert(span.from);
        let Some(lane) = self.lane(span.cpu) else { return };
        let Some((current, _)) = lane.current else {
            let has_room = lane.step(LaneStep::Span(*span));
            if span.current != Context::Unknown {
                (lane.current, lane.counted_to) = (Some((span.current, CpuTime::default())), span.to);
            }
            self.is_odd |= !has_room;
            return;
        };
        if current != span.current {
            self.end(span.cpu, None);
        }
        let Some(lane) = self.lanes.get_mut(span.cpu as usize).and_then(Option::as_mut) else { return };
        let Some((current, time)) = &mut lane.current else { return };
        *current = span.current;
        let from = span.from.max(lane.counted_to);
        if from < span.to {
            time.add(span.to.abs_diff(from), matches!(span.context, Context::Interrupt(_)), span.doubt);
        }
        lane.counted_to = lane.counted_to.max(span.to);
    }

    /// The run of a CPU where it is known who runs has ended.
    fn end(&mut self, number: u32, actor: Option<Actor>) {
        let Some(part) = self.lane(number) else { return };
        let Some((current, time)) = part.current.as_mut() else { return };
        let run = Run { time: std::mem::take(time), ..Run::of(*current) };
        let is_thread = matches!(run.current, Context::Thread(_));
        if part.first_run.is_none() {
            part.first_run = Some((run.time, actor));
            self.is_odd |= is_thread && actor.is_none();
            return;
        }
        if run.time.ns == 0 {
            return;
        }
        part.used.settle(&run, actor.is_some(), true);
        self.is_odd |= is_thread && actor.is_none();
        if let Some(actor) = actor {
            self.spend(actor, &CpuTime { runs: 1, longest_ns: run.time.ns, ..run.time });
        }
    }

    fn spend(&mut self, actor: Actor, time: &CpuTime) {
        if self.threads.len() >= ACTORS_MAX && !self.threads.contains_key(&actor) {
            self.is_odd = true;
            return;
        }
        self.threads.entry(actor).or_default().plus(time);
    }

    /// Adds the part that follows.
    pub fn append(&mut self, later: &PartUsage) {
        self.begin = self.begin.or(later.begin);
        self.is_odd |= later.is_odd;
        for (number, of) in later.lanes.iter().enumerate() {
            if let Some(of) = of {
                self.append_lane(number as u32, of);
            }
        }
        later.threads.iter().for_each(|(actor, time)| self.spend(*actor, time));
    }

    fn append_lane(&mut self, number: u32, of: &LanePart) {
        for step in &of.steps {
            match *step {
                LaneStep::Span(span) => self.cpu(&span),
                LaneStep::Left(actor) => self.left(number, actor),
                early => {
                    let lane = self.lane(number);
                    self.is_odd |= !lane.is_some_and(|lane| lane.takes(early));
                }
            }
        }
        let Some(lane) = self.lane(number) else { return };
        lane.leaving = of.leaving.or(lane.leaving);
        let (Some(now), Some((_, time))) = (of.current, &mut lane.current) else { return };
        let Some((first, actor)) = of.first_run else {
            time.plus(&now.1);
            lane.counted_to = of.counted_to;
            return;
        };
        time.plus(&first);
        self.end(number, actor);
        if let Some(lane) = self.lane(number) {
            lane.used.plus(&of.used);
            (lane.current, lane.counted_to) = (Some(now), of.counted_to);
        }
    }
}

/// A thread, as it is kept apart where processes have no names.
fn called(tid: i32, thread: Option<&Thread>) -> Actor {
    let (process, name) = thread.map(|thread| (thread.process, thread.name)).unwrap_or_default();
    Actor { process, tid, name, ..Actor::default() }
}

impl Usage {
    /// Adds a part that begins where the sums are now. False: that cannot be done, and nothing is of use any more.
    pub fn append(&mut self, part: &PartUsage) -> bool {
        if let Some(begin) = part.begin {
            self.begin.get_or_insert(begin.max(self.scope.from));
        }
        for (number, of) in part.lanes.iter().enumerate() {
            let Some(of) = of else { continue };
            if !self.append_lane(number as u32, of) {
                return false;
            }
        }
        part.threads.iter().for_each(|(actor, time)| self.thread_row(*actor).cpu.plus(time));
        !part.is_odd
    }

    fn append_lane(&mut self, number: u32, of: &LanePart) -> bool {
        if self.lane(number).is_none_or(|lane| lane.is_contested()) {
            return false;
        }
        for step in &of.steps {
            match *step {
                LaneStep::Lost => self.lane(number).into_iter().for_each(Lane::lose),
                LaneStep::FirstSwitch(leaves, at) => self.first_switch(number, leaves, at),
                LaneStep::Span(span) => self.cpu(&span),
                LaneStep::Leaving(actor) => drop(self.leaving.insert(number, actor)),
                LaneStep::Left(actor) => self.left(number, actor),
            }
        }
        if let Some(leaving) = of.leaving {
            self.leaving.insert(number, leaving);
        }
        let Some((current, time)) = of.current else { return true };
        let Some(lane) = self.lane(number).filter(|lane| of.first_run.is_some() || lane.current() == current) else {
            return false;
        };
        let Some((first, actor)) = &of.first_run else {
            lane.spend(&time, of.counted_to);
            return true;
        };
        lane.spend(first, of.counted_to);
        if let Some(run) = lane.end() {
            self.settle(number, run, *actor);
        }
        if let Some(lane) = self.lane(number) {
            lane.used.plus(&of.used);
            lane.go_on(Run { time, ..Run::of(current) });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_saw_nobody_keeps_its_steps() {
        let mut part = PartUsage::default();
        part.lost(Some(1));
        let span = CpuSpan {
            cpu: 1,
            from: 10,
            to: 30,
            context: Context::Idle,
            current: Context::Idle,
            doubt: crate::doubt::Doubt::NONE,
        };
        part.cpu(&span);
        part.cpu(&CpuSpan { from: 30, to: 50, ..span });
        let lane = part.lanes[1].as_ref().unwrap();
        assert_eq!(lane.steps, [LaneStep::Lost, LaneStep::Span(span)]);
        assert_eq!(lane.current, Some((Context::Idle, CpuTime { ns: 20, ..CpuTime::default() })));
        assert!(lane.first_run.is_none() && !part.is_odd);
        let mut longer = part.clone();
        longer.append(&PartUsage { lanes: vec![None, Some(LanePart::default())], ..PartUsage::default() });
        assert_eq!(longer.lanes, part.lanes);
    }
}
