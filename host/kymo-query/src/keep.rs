// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pass that stories, critical paths and causes are made from: spans and records around one stretch or several, as
//! kymo-analyze takes them. Verbs walk a whole trace with it; questions only what is around [`around`].

use kymo_analyze::cause::{Group, GroupFound};
use kymo_analyze::explain::{AROUND_MAX, INFERRED, Note, Question, Scene, Slice, WholeCause, together};
use kymo_analyze::{CpuSpan, Event, Head, InterruptSpan, OffSpan, Sink, State, Thread, ThreadSpan, Threads, duration};
use kymo_ctf::read::{Fields, Number, Value};
use kymo_feed::{Classes, Payload, Seen, Visit};

use crate::error::Error;
use crate::opened::Opened;
use crate::pace::Pace;
use crate::parameters::{Parameters, Window};
use crate::surroundings::Surroundings;
use crate::symbolize::Symbolize;
use crate::walk::Gather;

/// Frames of a call stack that are kept.
const FRAMES_MAX: usize = 32;

/// Event of the state dump that tells of a thread.
const THREAD_STATE: &str = "lttng_statedump_process_state";

/// Parts of a sample's time that a line shows, and the share below which one is not.
const PARTS_SHOWN: usize = 3;
const SHARE_MIN: f64 = 0.05;

/// What most of a stretch's time went to, in a line.
pub fn cause_line(budget: &[Slice]) -> String {
    let whole = budget.iter().map(|slice| slice.ns).sum::<u64>().max(1);
    let share = |cause: &WholeCause<'_>| cause.ns as f64 / whole as f64;
    let causes = together(budget);
    let shown = causes.iter().filter(|cause| share(cause) >= SHARE_MIN).take(PARTS_SHOWN);
    let part = |cause: &WholeCause<'_>| {
        let is_told = cause.largest.seen || cause.text.contains(INFERRED);
        let inferred = if is_told { "" } else { " (inferred)" };
        format!("{} ({:.0} %) {}{inferred}", duration(cause.ns), 100.0 * share(cause), cause.text)
    };
    shown.map(part).collect::<Vec<_>>().join("; ")
}

/// How long before and behind a stretch is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lead {
    /// As it was asked for, ns.
    Given(u64),
    /// ns, and less where there are more than so many records in that.
    Usual(u64, u64),
}

impl Lead {
    /// That of a question. `usual`: ns and records where it asks for none.
    pub(crate) fn of(parameters: &mut Parameters, (ns, records): (u64, u64)) -> Result<Lead, Error> {
        let given = parameters.number("lead", 0..=u64::MAX >> 1)?;
        Ok(given.map_or(Lead::Usual(ns, records), Lead::Given))
    }
}

/// The windows around stretches of one trace.
pub(crate) struct Around<'o> {
    of: &'o Opened,
    lead: Lead,
    pace: Option<Pace<'o>>,
}

impl<'o> Around<'o> {
    pub(crate) fn new(of: &'o Opened, lead: Lead) -> Around<'o> {
        Around { of, lead, pace: Pace::of(of).filter(|_| matches!(lead, Lead::Usual(..))) }
    }

    /// The window around a stretch, cut to the time of the trace.
    pub(crate) fn window(&self, (from, to): (i64, i64)) -> Window {
        let (first, end) = self.of.whole();
        let (Lead::Given(ns) | Lead::Usual(ns, _)) = self.lead;
        let (mut begin, mut behind) =
            (from.saturating_sub_unsigned(ns), to.saturating_add(1).saturating_add_unsigned(ns));
        if let (Lead::Usual(_, records), Some(pace)) = (self.lead, &self.pace) {
            begin = begin.max(pace.before(from, records)).min(from);
            behind = behind.min(pace.behind(to, records)).max(to.saturating_add(1));
        }
        let from = begin.clamp(first, end);
        Window { from, to: behind.clamp(from, end) }
    }

    /// The stretch around another one that has all records of its time line, where the index tells.
    fn near(&self, (from, to): (i64, i64)) -> (i64, i64) {
        self.pace.as_ref().map_or((i64::MIN, i64::MAX), |pace| {
            (pace.before(from, NEAR_RECORDS).min(from), pace.behind(to, NEAR_RECORDS).max(to))
        })
    }
}

/// Records between a stretch and those that are certainly not kept of its time line. The pace knows them about, and
/// counts those of the state dump, too.
const NEAR_RECORDS: u64 = 16 * AROUND_MAX as u64;

/// A scene, and from when to when it takes anything.
struct KeptScene {
    scene: Scene,
    from: i64,
    to: i64,
}

/// A scene for each question, and what their records mean.
pub struct Keep<'a, S> {
    scenes: Vec<KeptScene>,
    classes: &'a Classes,
    known: S,
    has_records: bool,
}

impl<'a, S: Symbolize> Keep<'a, S> {
    /// Of questions about one machine, with the records of a time line; keeps at most `spans_max` spans in all.
    pub fn new(
        questions: impl IntoIterator<Item = Question>,
        spans_max: usize,
        classes: &'a Classes,
        around: Surroundings<S>,
    ) -> Keep<'a, S> {
        let always = |question| (question, i64::MIN, i64::MAX);
        Keep::within(questions.into_iter().map(always), spans_max, classes, around)
    }

    /// The same, each question with the time from which and up to which it takes anything.
    pub fn within(
        questions: impl IntoIterator<Item = (Question, i64, i64)>,
        spans_max: usize,
        classes: &'a Classes,
        around: Surroundings<S>,
    ) -> Keep<'a, S> {
        let questions: Vec<(Question, i64, i64)> = questions.into_iter().collect();
        let spans_max = spans_max / questions.len().max(1);
        let groups = around.known.groups();
        let kept = |(question, from, to): (Question, i64, i64)| {
            let mut scene = Scene::new(question, spans_max, around.machine);
            groups.iter().for_each(|(tid, group)| scene.group(*tid, dumped(group.clone())));
            KeptScene { scene, from, to }
        };
        let scenes = questions.into_iter().map(kept).collect();
        Keep { scenes, classes, known: around.known, has_records: true }
    }

    /// The same without the records of a time line.
    #[must_use]
    pub fn without_records(self) -> Keep<'a, S> {
        Keep { has_records: false, ..self }
    }

    /// The same with no more records looked at for a time line than it can have.
    #[must_use]
    pub(crate) fn near(mut self, around: &Around<'_>) -> Keep<'a, S> {
        for kept in &mut self.scenes {
            let (from, to) = around.near(kept.scene.stretch());
            kept.scene.only_near(from, to);
        }
        self
    }

    /// What was kept, in the order in which it was given, and the functions of what was mapped.
    pub fn take(self) -> (Vec<Scene>, S) {
        (self.scenes.into_iter().map(|kept| kept.scene).collect(), self.known)
    }

    /// Those that take something of [from, to].
    fn each(&mut self, from: i64, to: i64, take: impl FnMut(&mut Scene)) {
        let near = self.scenes.iter_mut().filter(|kept| from <= kept.to && to >= kept.from);
        near.map(|kept| &mut kept.scene).for_each(take);
    }
}

impl<S: Symbolize> Visit for Keep<'_, S> {
    /// Of what comes once there were too many stretches nothing is known.
    fn is_enough(&self) -> bool {
        !self.scenes.is_empty() && self.scenes.iter().all(|kept| kept.scene.full_from().is_some())
    }

    fn looks_at(&self, class: usize) -> bool {
        let name = self.classes.list[class].name.as_str();
        name == THREAD_STATE || self.known.learns_of(name)
    }

    /// Of the time line.
    fn looks_within(&self) -> Vec<(i64, i64)> {
        let near = self.scenes.iter().filter(|_| self.has_records);
        near.map(|kept| kept.scene.wanted()).collect()
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.known.learn(seen.record);
        if self.classes.list[seen.class].name == THREAD_STATE {
            self.scenes.iter_mut().for_each(|kept| learn_group(&mut kept.scene, seen.record.payload));
        }
        if !self.has_records || seen.record.stream.starts_with("state_") {
            return;
        }
        let time = seen.head.time;
        if !self.scenes.iter().any(|kept| kept.scene.wants(time)) {
            return;
        }
        let payload = Payload(seen.record.payload);
        let event = self.classes.event(seen.class, &payload);
        let head = Head { tid: seen.writer(state).tid, ..seen.head };
        let mut note = Note::new(head, (seen.class, &self.classes.list[seen.class]), event, &payload);
        note.flags = flags(seen.record.common_context);
        note.stack = stack(seen.record.common_context);
        // A scene takes only what it wants.
        self.scenes.iter_mut().for_each(|kept| kept.scene.note(note.clone()));
    }
}

/// The control group of a thread, as the state dump has it.
fn learn_group(scene: &mut Scene, payload: Fields<'_>) {
    let tid = match payload.get("tid") {
        Some(Value::Int(number, _)) => i32::try_from(i128::from(number)).ok(),
        _ => None,
    };
    if let (Some(tid), Some(Value::Text(group))) = (tid, payload.get("cgroup")) {
        scene.group(tid, dumped(group.into_owned()));
    }
}

fn dumped(path: String) -> Group {
    Group { path, found: GroupFound::StateDump }
}

fn flags(context: Fields<'_>) -> Option<(u8, u8)> {
    let byte = |name: &str| match context.get(name)? {
        Value::Int(number, _) => u8::try_from(i128::from(number)).ok(),
        _ => None,
    };
    Some((byte("irq_flags")?, byte("preempt_count")?))
}

fn stack(context: Fields<'_>) -> Vec<u64> {
    let Some(Value::Array(frames)) = context.get("callstack") else { return Vec::new() };
    let address = |value: Value<'_>| match value {
        Value::Int(Number::Unsigned(address), _) => Some(address),
        _ => None,
    };
    frames.iter().take(FRAMES_MAX).filter_map(address).collect()
}

impl<S: Symbolize> Sink for Keep<'_, S> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.each(head.time, head.time, |scene| scene.event(head, event, state));
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.each(span.from, span.to, |scene| scene.thread(span, thread));
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.each(span.from, span.to, |scene| scene.cpu(span));
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.each(span.from, span.to, |scene| scene.interrupt(span, threads));
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.each(span.from, span.to, |scene| scene.off(span, threads));
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.each(from, to, |scene| scene.lost(cpu, from, to));
    }
}

impl<S: Symbolize> Gather for Keep<'_, S> {}

#[cfg(test)]
mod tests {
    use kymo_analyze::Doubt;
    use kymo_analyze::cause::{Cause, Ground};

    use super::*;

    fn slice(ns: u64, seen: bool, text: &str) -> Slice {
        let ground = if seen { Ground::Seen } else { Ground::Inferred };
        let (cause, kind, text) = (Cause::Own, Cause::Own.word(), text.to_owned());
        Slice {
            cause,
            ground,
            kind,
            text,
            shared: None,
            tid: None,
            limit: None,
            group: None,
            group_found: None,
            seen,
            ns,
            pieces: 1,
            doubt: Doubt::NONE,
        }
    }

    #[test]
    fn a_line_has_the_largest_parts() {
        let budget = [slice(900, true, "a"), slice(60, false, "b"), slice(40, true, "c")];
        assert_eq!(cause_line(&budget), "900ns (90 %) a; 60ns (6 %) b (inferred)");
        assert_eq!(cause_line(&[]), "");
    }
}
