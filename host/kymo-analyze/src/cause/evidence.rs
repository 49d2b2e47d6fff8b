// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of the records around samples: spans, and the few events that no span tells of.

use crate::cause::stall::Times;
use crate::doubt::Doubt;
use crate::event::{Event, Interrupt, Off};
use crate::hash::Map;
use crate::history::{History, SPANS_MAX};
use crate::name::Name;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{CpuSpan, InterruptSpan, OffSpan, ThreadSpan};
use crate::state::{State, Thread, Threads};

/// Faults, frequencies and stretches of the kernel's own that are kept of each kind.
const KEPT_MAX: usize = 1 << 20;

/// What the records do not say of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// It runs under a hypervisor: a CPU that stands still may be one that its host does not run.
    pub is_guest: bool,
}

/// A CPU came to another frequency, and wrote so itself. The kernel writes the record when the processor has changed:
/// what lies between it and the CPU's record before it has the change in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) cpu: u32,
    pub(super) khz: u32,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// The records around samples. A [`Sink`]: it takes what the state hands on.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub(super) machine: Machine,
    pub(super) history: History,
    pub(super) times: Times,
    /// Page faults: time and thread.
    pub(super) faults: Vec<(i64, i32)>,
    /// Frequencies: time, CPU, kHz.
    pub(super) frequencies: Vec<(i64, u32, u32)>,
    /// CPUs that changed their own frequency.
    pub(super) changes: Vec<Change>,
    /// Interrupts or preemption off.
    pub(super) offs: Vec<OffSpan>,
    /// Non-maskable interrupts by CPU: from, to.
    pub(super) nmis: Vec<(u32, i64, i64)>,
    prios: Map<i32, Vec<(i64, i16)>>,
    handlers: Map<Interrupt, Name>,
}

impl Evidence {
    /// Will keep what touches [from, to).
    pub fn new(from: i64, to: i64, machine: Machine) -> Evidence {
        Evidence {
            machine,
            history: History::new(from, to, SPANS_MAX),
            times: Times::new(from, to),
            faults: Vec::new(),
            frequencies: Vec::new(),
            changes: Vec::new(),
            offs: Vec::new(),
            nmis: Vec::new(),
            prios: Map::default(),
            handlers: Map::default(),
        }
    }

    /// The spans.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// From when on there was too much to keep.
    pub fn full_from(&self) -> Option<i64> {
        self.history.full_from()
    }

    /// Priority of a thread at a time: the newest that was told until then, else the first that was told.
    pub(super) fn prio(&self, tid: i32, at: i64) -> Option<i16> {
        let told = self.prios.get(&tid)?;
        let next = told.partition_point(|(time, _)| *time <= at);
        told.get(next.saturating_sub(1)).map(|(_, prio)| *prio)
    }

    /// Priority of a thread that runs at a time: no event tells of one that a thread gives itself, but when it leaves
    /// its CPU, it shows.
    pub(super) fn prio_running(&self, tid: i32, at: i64) -> Option<i16> {
        let span = self.history.of_thread(tid, at, at.saturating_add(1)).next();
        let when_it_left = span.and_then(|span| self.prio(tid, span.to));
        self.prio(tid, at).into_iter().chain(when_it_left).min()
    }

    /// What the trace calls an interrupt; may be empty.
    pub(super) fn handler(&self, interrupt: Interrupt) -> Name {
        self.handlers.get(&interrupt).copied().unwrap_or_default()
    }

    /// The frequency that a CPU came to in [from, to), if it changed.
    pub(super) fn frequency(&self, cpu: u32, from: i64, to: i64) -> Option<u32> {
        let of = |(at, number, _): &&(i64, u32, u32)| *number == cpu && (from..to).contains(at);
        self.frequencies.iter().rev().find(of).map(|(_, _, khz)| *khz)
    }

    /// Whether interrupts or preemption were off on a CPU all through the middle of [from, to), as records say.
    pub(super) fn was_off(&self, what: Off, cpu: u32, from: i64, to: i64) -> bool {
        let middle = from + (to - from) / 2;
        self.offs.iter().any(|off| off.what == what && off.cpu == cpu && (off.from..off.to).contains(&middle))
    }

    fn note_prio(&mut self, tid: i32, at: i64, prio: Option<i16>) {
        let Some(prio) = prio else { return };
        let told = self.prios.entry(tid).or_default();
        if told.last().is_none_or(|(_, last)| *last != prio) && told.len() < KEPT_MAX {
            told.push((at, prio));
        }
    }
}

impl Sink for Evidence {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        let at = head.time;
        let before = head.cpu.and_then(|cpu| self.times.last(cpu));
        if let Some(cpu) = head.cpu {
            self.times.note(cpu, at);
        }
        match *event {
            Event::Switch { prev, prev_prio, next, next_prio, .. } => {
                self.note_prio(prev, at, prev_prio);
                self.note_prio(next, at, next_prio);
            }
            Event::Wake { tid, prio, .. } => self.note_prio(tid, at, prio),
            Event::Priority { tid, prio } => self.note_prio(tid, at, Some(prio)),
            Event::Fault { .. } if self.faults.len() < KEPT_MAX => {
                let running = head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
                self.faults.extend(head.tid.or(running).map(|tid| (at, tid)));
            }
            Event::Frequency { cpu, khz } if self.frequencies.len() < KEPT_MAX => {
                let changed = cpu.or(head.cpu);
                self.frequencies.extend(changed.map(|cpu| (at, cpu, khz)));
                let own = changed.filter(|_| changed == head.cpu).zip(before);
                self.changes.extend(own.map(|(cpu, from)| Change { cpu, khz, from, to: at }));
            }
            // The tracer has its own clock; the record stands at the end of the noise.
            Event::Noise { kind: "nmi", duration, .. } if self.nmis.len() < KEPT_MAX => {
                self.nmis.extend(head.cpu.map(|cpu| (cpu, at.saturating_sub(duration), at)));
            }
            _ => {}
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        Sink::thread(&mut self.history, span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        Sink::cpu(&mut self.history, span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, _: Threads<'_>) {
        if !span.name.is_empty() {
            self.handlers.insert(span.interrupt, span.name);
        }
    }

    fn off(&mut self, span: &OffSpan, _: Threads<'_>) {
        if !span.doubt.has(Doubt::IDLE) && self.offs.len() < KEPT_MAX {
            self.offs.push(*span);
        }
    }
}
