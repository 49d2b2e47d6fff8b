// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paints the pictures of the parts of a trace while its index is built [spec/index.md 5.2]: on a thread of its own, so
//! that who reads the records only hands on what ended.

use std::sync::mpsc::Sender;

use kymo_analyze::hash::Map;
use kymo_analyze::shown::Calls;
use kymo_analyze::{CallSpan, Context, CpuSpan, Doing, Doubt, InterruptSpan, ThreadSpan, Until};

use crate::build::worker::Worker;
use crate::pictures::part::{
    LATE_NS, Last, Late, LongCall, LongInterrupt, PartPicture, SHIFT_MAX, ThreadPicture, put_last,
};
use crate::pictures::row::{EVER, Kind, Long};

/// Parts of a level that are one of the next.
pub(crate) const PICTURE_FAN_OUT: usize = 4;
/// Columns of a part at least, where it is as long: at most twice as many, and one more.
const COLUMNS_MIN: u64 = 32;
/// What a part has at most. One with more has no picture: those of its own parts are used, or the records.
pub(crate) const ITEMS_MAX: usize = 1 << 18;
/// Threads of pictures that are done with are kept at most.
const SPARE_MAX: usize = 4096;
/// Numbers of CPUs that are painted.
const CPUS_MAX: u32 = 4096;

/// What ended in a part, as it was told.
#[derive(Debug, Default)]
pub(crate) struct EndedSpans {
    /// First and newest time, ns.
    pub from: i64,
    pub to: i64,
    pub threads: Vec<ThreadSpan>,
    pub cpus: Vec<CpuSpan>,
    pub interrupts: Vec<InterruptSpan>,
    pub calls: Vec<CallSpan>,
    /// Of a CPU: when, and kHz.
    pub frequency: Vec<(u32, i64, u32)>,
    /// Of a CPU: when, and the idle state.
    pub idle: Vec<(u32, i64, Option<u32>)>,
}

impl EndedSpans {
    /// Keeps the memory.
    fn clear(&mut self) {
        self.threads.clear();
        self.cpus.clear();
        self.interrupts.clear();
        self.calls.clear();
        self.frequency.clear();
        self.idle.clear();
    }
}

/// A part of a level that is painted, in the order of time.
pub(crate) struct Painted {
    pub level: usize,
    /// Bytes of threads and of CPUs, and the length of columns; `None`: there was too much, or it is no picture.
    pub bytes: Option<([Vec<u8>; 2], u32)>,
}

/// The thread that paints.
pub(crate) type Painter = Worker<EndedSpans, Painted>;

/// Begins to paint.
pub(crate) fn start(calls: Calls) -> std::io::Result<Painter> {
    let mut painting = Painting::new(calls);
    Worker::start("kymo-painter", move |mut part: EndedSpans, done| {
        painting.part(&part, done);
        part.clear();
        part
    })
}

/// What a CPU does, for as long as it is the same.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Up to when it is known.
    at: Option<i64>,
    run: Option<Long<Context>>,
}

struct Painting {
    calls: Calls,
    /// Of each thread: the end of its last stretch, and what that was.
    last: Map<i32, (i64, Last)>,
    cpus: Vec<Cpu>,
    /// By level: parts that are not one of the next yet.
    levels: Vec<Vec<Option<PartPicture>>>,
    /// Threads of pictures that are done with: their memory is used again.
    spare: Vec<ThreadPicture>,
}

impl Painting {
    fn new(calls: Calls) -> Painting {
        Painting { calls, last: Map::default(), cpus: Vec::new(), levels: Vec::new(), spare: Vec::new() }
    }

    fn part(&mut self, told: &EndedSpans, done: &Sender<Painted>) {
        let mut picture = Some(self.paint(told)).filter(|picture| picture.items() <= ITEMS_MAX);
        for level in 0.. {
            let bytes = picture.as_ref().and_then(|picture| Some((picture.encode(&self.calls)?, picture.shift)));
            if done.send(Painted { level, bytes }).is_err() {
                return;
            }
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let parts = &mut self.levels[level];
            parts.push(picture);
            if parts.len() < PICTURE_FAN_OUT {
                return;
            }
            let parts: Option<Vec<PartPicture>> = std::mem::take(parts).into_iter().collect();
            picture = parts.and_then(|parts| self.merged(parts));
        }
    }

    fn merged(&mut self, parts: Vec<PartPicture>) -> Option<PartPicture> {
        // A column of a longer part is as long as four of a shorter, so that their number does not grow.
        let shift = parts.iter().map(|part| part.shift).max()? + PICTURE_FAN_OUT.ilog2();
        if shift > SHIFT_MAX || parts.iter().map(PartPicture::items).sum::<usize>() > PICTURE_FAN_OUT * ITEMS_MAX {
            return None;
        }
        let mut picture = PartPicture { spare: std::mem::take(&mut self.spare), ..PartPicture::default() };
        picture.fold(&parts, shift, &self.calls);
        self.spare = std::mem::take(&mut picture.spare);
        for mut of in parts.into_iter().flat_map(|part| part.threads).take(SPARE_MAX - self.spare.len().min(SPARE_MAX))
        {
            of.clear();
            self.spare.push(of);
        }
        Some(picture).filter(|picture| picture.items() <= ITEMS_MAX)
    }

    fn paint(&mut self, told: &EndedSpans) -> PartPicture {
        let ns = told.to.abs_diff(told.from);
        let shift = (ns / COLUMNS_MIN).max(1).ilog2().min(SHIFT_MAX);
        let spare = std::mem::take(&mut self.spare);
        let mut picture = PartPicture { base: told.from, shift, spare, ..PartPicture::default() };
        told.threads.iter().for_each(|span| self.thread(&mut picture, span));
        for call in &told.calls {
            let CallSpan { from, to, call: which, value, blocked, doubt, .. } = *call;
            picture.thread(call.tid).call(shift, &LongCall { from, to, call: which, value, blocked, doubt });
        }
        for span in told.cpus.iter().filter(|span| span.cpu < CPUS_MAX) {
            self.cpu(&mut picture, span);
        }
        for span in told.interrupts.iter().filter(|span| span.cpu < CPUS_MAX) {
            let InterruptSpan { from, to, interrupt, name, doubt, .. } = *span;
            let away_ns = span.away_ns.max(0) as u64;
            let of = picture.cpu(span.cpu);
            of.interrupt(shift, &LongInterrupt { from, to, interrupt, name, away_ns, doubt });
            of.longest_ns = of.longest_ns.max(Some(to.abs_diff(from).saturating_sub(away_ns)));
        }
        for (cpu, at, khz) in told.frequency.iter().filter(|(cpu, ..)| *cpu < CPUS_MAX) {
            put_last(&mut picture.cpu(*cpu).frequency, shift, *at, *khz);
        }
        for (cpu, at, state) in told.idle.iter().filter(|(cpu, ..)| *cpu < CPUS_MAX) {
            put_last(&mut picture.cpu(*cpu).idle, shift, *at, *state);
        }
        for of in &mut picture.threads {
            (of.end, of.last) = self.last.get(&of.tid).copied().unwrap_or((EVER, Last::Other));
        }
        for of in &mut picture.cpus {
            of.tail = self.cpus.get(of.cpu as usize).and_then(|cpu| cpu.run);
        }
        picture.finish();
        self.spare = std::mem::take(&mut picture.spare);
        picture
    }

    fn thread(&mut self, picture: &mut PartPicture, span: &ThreadSpan) {
        let (calls, shift) = (self.calls, picture.shift);
        let of = picture.thread(span.tid);
        let known = self.last.entry(span.tid).or_insert((EVER, Last::Other));
        let (from, last) = *known;
        *known = (span.to.max(from), Last::of(&span.doing));
        if from < span.from {
            let is_absent = span.doing == Doing::Forked || last == Last::Ended;
            let what = if is_absent { Doing::Ended } else { Doing::Unknown };
            let (to, doubt) = (span.from, Doubt::NONE);
            of.row.stretch(shift, &Long { from, to, what, doubt, is_late: false }, &calls);
        }
        let doubt = span.doubt.without(Doubt::END);
        let is_over = matches!(span.doing, Doing::Runnable { .. }) && span.until != Until::Next;
        let is_late = is_over && span.to.abs_diff(span.ready_from) >= LATE_NS;
        let is_whole = is_late && span.ready_from == span.from;
        let long = Long { from: span.from, to: span.to, what: span.doing, doubt, is_late: is_whole };
        let is_kept = of.row.stretch(shift, &long, &calls);
        if is_late && !(is_whole && is_kept) {
            let late = Late { from: span.ready_from, to: span.to, state: calls.state(&span.doing) };
            late.put(&mut of.late, shift);
        }
    }

    /// Stretches of one thread that follow each other are one.
    fn cpu(&mut self, picture: &mut PartPicture, span: &CpuSpan) {
        let (calls, shift) = (self.calls, picture.shift);
        let of = picture.cpu(span.cpu);
        let number = span.cpu as usize;
        if self.cpus.len() <= number {
            self.cpus.resize(number + 1, Cpu::default());
        }
        let cpu = &mut self.cpus[number];
        let mut follow = |cpu: &mut Cpu, long: Long<Context>| match &mut cpu.run {
            Some(run) if run.what == long.what && run.to == long.from => {
                run.to = long.to;
                run.doubt |= long.doubt;
            }
            run => {
                if let Some(run) = run.replace(long) {
                    of.row.stretch(shift, &run, &calls);
                }
            }
        };
        let doubt = span.doubt.without(Doubt::END);
        let from = cpu.at.unwrap_or(EVER);
        if from < span.from {
            let (to, what, doubt) = (span.from, Context::Unknown, Doubt::START);
            follow(cpu, Long { from, to, what, doubt, is_late: false });
        }
        cpu.at = Some(span.to.max(from));
        follow(cpu, Long { from: span.from, to: span.to, what: span.current, doubt, is_late: false });
        if let Context::Interrupt(interrupt) = span.context {
            let (from, to, what, doubt) = (span.from, span.to, Kind(!interrupt.is_hard()), Doubt::NONE);
            of.interrupts.stretch(shift, &Long { from, to, what, doubt, is_late: false }, &calls);
        }
    }
}
