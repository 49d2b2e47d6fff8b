// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second pass: spans and records around the question.

use std::collections::BTreeSet;

use kymo_analyze::explain::{Note, Scene};
use kymo_analyze::{CpuSpan, Event, Head, InterruptSpan, OffSpan, Sink, State, Thread, ThreadSpan, Threads};
use kymo_ctf::read::{Fields, Number, Value};

use crate::verbs::analyze::feed::{Classes, Payload, Seen, Visit};
use crate::verbs::symbols::Symbolizer as Known;

/// Frames of a call stack that are kept.
const FRAMES_MAX: usize = 32;

/// Event of the state dump that tells of a thread.
const THREAD_STATE: &str = "lttng_statedump_process_state";

/// The kernel's function that gives control groups their CPU quota anew.
pub const QUOTA_TIMER: &str = "sched_cfs_period_timer";

/// A scene, and what its records mean.
pub struct Keep<'a> {
    scene: Scene,
    classes: &'a Classes,
    known: Known,
    has_records: bool,
    /// Functions of timers that were looked up.
    functions: BTreeSet<u64>,
}

impl<'a> Keep<'a> {
    /// Of a question.
    pub fn new(scene: Scene, classes: &'a Classes, known: Known) -> Keep<'a> {
        Keep { scene, classes, known, has_records: true, functions: BTreeSet::new() }
    }

    /// The same without the records of a time line.
    pub fn without_records(self) -> Keep<'a> {
        Keep { has_records: false, ..self }
    }

    /// What was kept, and the functions of what was mapped.
    pub fn take(self) -> (Scene, Known) {
        (self.scene, self.known)
    }
}

impl Visit for Keep<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.known.learn(seen.record);
        if self.classes.list[seen.class].name == THREAD_STATE {
            learn_group(&mut self.scene, seen.record.payload);
        }
        if !self.has_records || !self.scene.wants(seen.head.time) || seen.record.stream.starts_with("state_") {
            return;
        }
        let payload = Payload(seen.record.payload);
        let event = self.classes.event(seen.class, &payload);
        let head = Head { tid: seen.writer(state).tid, ..seen.head };
        let mut note = Note::new(head, (seen.class, &self.classes.list[seen.class]), event, &payload);
        note.flags = flags(seen.record.common_context);
        note.stack = stack(seen.record.common_context);
        self.scene.note(note);
    }
}

/// The control group of a thread, as the state dump has it.
fn learn_group(scene: &mut Scene, payload: Fields<'_>) {
    let tid = match payload.get("tid") {
        Some(Value::Int(number, _)) => i32::try_from(i128::from(number)).ok(),
        _ => None,
    };
    if let (Some(tid), Some(Value::Text(group))) = (tid, payload.get("cgroup")) {
        scene.group(tid, group.into_owned());
    }
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

impl Sink for Keep<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if let Event::TimerExpire { function, .. } = *event {
            if self.functions.insert(function) && self.known.of_kernel(function).is_some_and(|name| name == QUOTA_TIMER)
            {
                self.scene.set_quota_timer(function);
            }
        }
        self.scene.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.scene.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.scene.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.scene.interrupt(span, threads);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.scene.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.scene.lost(cpu, from, to);
    }
}
