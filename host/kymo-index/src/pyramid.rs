// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over ever longer parts of a trace [spec/index.md 5.1]: a part lies between two checkpoints, and 16 of a level
//! are one of the next.

pub(crate) mod sums;
pub(crate) mod units;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::shown::Calls;
use kymo_analyze::{
    CallSpan, CpuSpan, Event, Head, InterruptSpan, OffSpan, Recorders, Sink, State, Thread, ThreadSpan, Threads,
};
use kymo_feed::{LossAt, Visit};

use crate::counts::buckets::Buckets;
use crate::counts::cpu_times::CpuTimes;
use crate::file::{Piece, Pieces, Writer};
use crate::latencies::head::LatencyHead;
use crate::latencies::measuring::Measuring;
use crate::pictures::head::{PictureHead, PicturePlace};
use crate::pictures::painter::{self, EndedSpans, Painted, Painter};
use crate::pyramid::sums::PartSums;
use crate::statistics::head::StatisticsHead;
use crate::statistics::maker::StatisticsMaker;
use crate::wakes::head::WakeHead;
use crate::wakes::maker::MadeWakes;
use crate::wakes::waking::Waking;

/// Parts of a level that are one of the next.
const FAN_OUT: usize = 16;
/// Levels at most: 16 to the power of 12 parts.
const LEVELS_MAX: usize = 12;

/// Where parts are, by level; `None` where there was too much for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PyramidHead {
    /// Between two parts, in front of the first and behind the last: lowest time of an item from there on, ns.
    pub(crate) after: Vec<i64>,
    levels: Vec<Vec<Option<Piece>>>,
}

impl PyramidHead {
    pub fn put(&self, put: &mut Put) {
        put.number(self.after.len() as u64);
        let mut before = 0i64;
        for after in &self.after {
            put.signed(after.wrapping_sub(before));
            before = *after;
        }
        put.number(self.levels.len() as u64);
        for level in &self.levels {
            put.number(level.len() as u64);
            level.iter().for_each(|piece| put.option(piece.as_ref(), |put, piece| piece.put(put)));
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<PyramidHead> {
        let mut head = PyramidHead::default();
        let mut before = 0i64;
        for _ in 0..take.count()? {
            before = before.wrapping_add(take.signed()?);
            head.after.push(before);
        }
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.levels.push((0..count).map(|_| take.option(Piece::take)).collect::<Option<_>>()?);
        }
        let parts = head.levels.first().map_or(0, Vec::len);
        let is_whole = head.after.len() == if parts == 0 { 0 } else { parts + 1 };
        (is_whole && head.after.is_sorted()).then_some(head)
    }
}

/// A level that is not complete yet.
#[derive(Default)]
struct Level {
    part: PartSums,
    /// Of the level below.
    parts: usize,
    pieces: Vec<Option<Piece>>,
}

/// Takes what ends in parts, and writes each when it is over.
pub(crate) struct Summing {
    pub cpus: CpuTimes,
    /// The class of records that tell of block devices.
    pub devices: Option<usize>,
    states: Calls,
    part: PartSums,
    /// Lowest time of an item of each part.
    first: Vec<i64>,
    first_now: i64,
    levels: Vec<Level>,
    /// What the painter has not been told yet.
    told: EndedSpans,
    painter: Painter,
    pictures: PictureHead,
    measuring: Measuring,
    latencies: LatencyHead,
    waking: Waking,
    wakes: WakeHead,
    /// Who wrote and who ran.
    pub statistics: StatisticsMaker,
}

/// All that was made of parts.
pub(crate) struct Summed {
    pub cpus: CpuTimes,
    pub pyramid: PyramidHead,
    pub pictures: PictureHead,
    pub latencies: LatencyHead,
    pub wakes: WakeHead,
    pub statistics: StatisticsHead,
}

impl Visit for Summing {}

impl Sink for Summing {
    #[inline]
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.measuring.event(head, event, state);
        self.statistics.usage.event(head, event, state);
        match *event {
            Event::Migrate { tid, .. } => self.part.migrate(tid),
            Event::Frequency { cpu, khz } => {
                self.told.frequency.extend(cpu.or(head.cpu).map(|cpu| (cpu, head.time, khz)));
            }
            Event::Idle { cpu, state } => {
                self.told.idle.extend(cpu.or(head.cpu).map(|cpu| (cpu, head.time, state)));
            }
            _ => {}
        }
    }

    #[inline]
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.part.thread(span, thread, &self.states);
        self.measuring.thread(span, thread);
        self.waking.thread(span);
        self.statistics.usage.thread(span, thread);
        self.told.threads.push(*span);
    }

    #[inline]
    fn cpu(&mut self, span: &CpuSpan) {
        self.cpus.cpu(span);
        self.statistics.usage.cpu(span);
        self.told.cpus.push(*span);
    }

    #[inline]
    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.measuring.interrupt(span, threads);
        self.told.interrupts.push(*span);
    }

    #[inline]
    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.measuring.call(span, thread);
        self.told.calls.push(*span);
    }

    #[inline]
    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.measuring.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, _: i64, to: i64) {
        self.statistics.usage.lost(cpu);
        self.measuring.lost(to);
    }
}

impl Summing {
    pub fn new(
        states: Calls,
        recorders: Recorders,
        devices: Option<usize>,
        statistics: StatisticsMaker,
    ) -> io::Result<Summing> {
        Ok(Summing {
            cpus: CpuTimes(Buckets::new(0)),
            devices,
            statistics,
            states,
            part: PartSums::default(),
            first: Vec::new(),
            first_now: i64::MAX,
            levels: vec![Level::default()],
            told: EndedSpans::default(),
            painter: painter::start(states)?,
            pictures: PictureHead::default(),
            measuring: Measuring::start(recorders)?,
            latencies: LatencyHead::default(),
            waking: Waking::start()?,
            wakes: WakeHead::default(),
        })
    }

    /// The trace tells of a block device: its number, and its name.
    pub fn device(&mut self, device: (u64, String)) {
        self.measuring.device(device);
    }

    /// An item begins at that time, and comes next.
    #[inline]
    pub fn note(&mut self, ns: i64) {
        if self.part.from.is_none() {
            self.part.from = Some(ns);
            (self.told.from, self.told.to) = (ns, ns);
        }
        self.told.to = self.told.to.max(ns);
        self.measuring.note(ns);
        self.first_now = self.first_now.min(ns);
    }

    pub fn lose(&mut self, loss: LossAt) {
        self.part.lose(loss);
    }

    /// A checkpoint was kept: a part is over.
    pub fn end_part(&mut self, to: &mut Writer<'_>) -> io::Result<()> {
        self.first.push(std::mem::replace(&mut self.first_now, i64::MAX));
        self.told = self.painter.give(std::mem::take(&mut self.told));
        self.measuring.end_part();
        self.waking.end_part();
        self.statistics.end_part(to)?;
        for made in self.measuring.made() {
            self.latencies.write(made, to)?;
        }
        for made in self.waking.made() {
            self.wakes.add(made.level, wake_piece(&made, to)?);
        }
        for painted in self.painter.made() {
            self.pictures.add(place(painted, to)?);
        }
        let mut part = std::mem::take(&mut self.part);
        for at in 0..LEVELS_MAX {
            let piece = part.encode().map(|bytes| to.piece(&bytes)).transpose()?;
            let level = &mut self.levels[at];
            level.pieces.push(piece);
            if at + 1 == LEVELS_MAX {
                break;
            }
            if self.levels.len() == at + 1 {
                self.levels.push(Level::default());
            }
            let above = &mut self.levels[at + 1];
            above.part.merge(&part);
            above.parts += 1;
            if above.parts < FAN_OUT {
                break;
            }
            above.parts = 0;
            part = std::mem::take(&mut above.part);
        }
        Ok(())
    }

    /// All records are in parts, but for those behind the last checkpoint.
    pub fn finish(mut self, to: &mut Writer<'_>) -> io::Result<Summed> {
        match self.measuring.finish() {
            Some(rest) => {
                for made in rest {
                    self.latencies.write(made, to)?;
                }
            }
            None => self.latencies = LatencyHead::default(),
        }
        for made in self.waking.finish() {
            self.wakes.add(made.level, wake_piece(&made, to)?);
        }
        for painted in self.painter.finish() {
            self.pictures.add(place(painted, to)?);
        }
        let parts = self.first.len();
        if parts == 0 {
            let (pyramid, pictures, latencies, wakes, statistics) = Default::default();
            return Ok(Summed { cpus: self.cpus, pyramid, pictures, latencies, wakes, statistics });
        }
        // The lowest from a boundary on: what is late there makes the boundaries before it none.
        let mut after = vec![self.first_now; parts + 1];
        for at in (0..parts).rev() {
            after[at] = after[at + 1].min(self.first[at]);
        }
        let levels = self.levels.into_iter().map(|level| level.pieces).filter(|pieces| !pieces.is_empty()).collect();
        let pyramid = PyramidHead { after, levels };
        let Summing { cpus, pictures, latencies, wakes, statistics, .. } = self;
        let statistics = statistics.finish(to)?;
        Ok(Summed { cpus, pyramid, pictures, latencies, wakes, statistics })
    }
}

/// Writes wake-ups that were made.
fn wake_piece(made: &MadeWakes, to: &mut Writer<'_>) -> io::Result<Option<Piece>> {
    made.bytes.as_ref().map(|bytes| to.piece(bytes)).transpose()
}

/// Writes what was painted.
fn place(painted: Painted, to: &mut Writer<'_>) -> io::Result<(usize, Option<PicturePlace>)> {
    let Some(([threads, cpus], shift)) = painted.bytes else { return Ok((painted.level, None)) };
    Ok((painted.level, Some(PicturePlace { threads: to.piece(&threads)?, cpus: to.piece(&cpus)?, shift })))
}

/// The sums of a trace, or of all parts of one that was cut.
#[derive(Clone, Debug)]
pub struct Pyramid {
    pub(crate) pieces: Arc<Pieces>,
    pub(crate) head: PyramidHead,
    pub(crate) pictures: PictureHead,
    pub(crate) latencies: LatencyHead,
    pub(crate) wakes: WakeHead,
    pub(crate) statistics: StatisticsHead,
    /// Newest time in front of each boundary, ns.
    pub(crate) before: Vec<i64>,
}

/// What sums have of a window, and what is left to be read.
#[derive(Debug)]
pub struct Cover {
    /// Up to there records are read, from the window's begin on; `None`: the sums begin with the trace.
    pub records_to: Option<i64>,
    /// From there on they are read again.
    pub records_from: i64,
    /// In the order of time.
    pub parts: Vec<PartSums>,
}

/// The sums are not what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sums over time in the index are damaged (kymo index --rebuild)")]
pub struct DamagedSums;

impl Pyramid {
    /// Whether all in front of a boundary is older than all behind it, so that a time divides them.
    pub(crate) fn divides(&self, boundary: usize) -> bool {
        let before = boundary.checked_sub(1).map_or(Some(i64::MIN), |at| self.before.get(at).copied());
        before.zip(self.head.after.get(boundary)).is_some_and(|(before, after)| before < *after)
    }

    /// Parts that lie in the window as a whole, from the first that does to the last.
    pub(crate) fn range(&self, (from, to): (i64, i64), is_from_begin: bool) -> Option<Range<usize>> {
        let after = &self.head.after;
        let least = if is_from_begin { 0 } else { after.partition_point(|after| *after < from) };
        let first = (least..after.len()).find(|boundary| self.divides(*boundary))?;
        let most = after.partition_point(|after| *after < to);
        let last = (first..most).rev().find(|boundary| self.divides(*boundary))?;
        (first < last).then_some(first..last)
    }

    /// The sums of a window [from, to), as far as there are some. `is_from_begin`: it has all that is before its end.
    /// `Ok(None)`: there is no part in it, or one had too much for sums.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn cover(&self, window: (i64, i64), is_from_begin: bool) -> Result<Option<Cover>, DamagedSums> {
        let Some(range) = self.range(window, is_from_begin) else { return Ok(None) };
        self.cover_of(range, is_from_begin)
    }

    /// The same of parts between boundaries that times divide.
    pub(crate) fn cover_of(&self, range: Range<usize>, is_from_begin: bool) -> Result<Option<Cover>, DamagedSums> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some((piece, count)) = self.longest(at, range.end) else { return Ok(None) };
            let bytes = self.pieces.read(&piece).ok_or(DamagedSums)?;
            parts.push(PartSums::decode(&bytes).ok_or(DamagedSums)?);
            at += count;
        }
        let after = |boundary: usize| self.head.after.get(boundary).copied().ok_or(DamagedSums);
        let records_to = if range.start == 0 && is_from_begin { None } else { Some(after(range.start)?) };
        Ok(Some(Cover { records_to, records_from: after(range.end)?, parts }))
    }

    /// The longest part that begins there and ends in time, and how many of the finest level it is.
    fn longest(&self, at: usize, end: usize) -> Option<(Piece, usize)> {
        let mut found = None;
        let mut count = 1usize;
        for level in &self.head.levels {
            if at % count != 0 || at + count > end {
                break;
            }
            found = level.get(at / count).copied().flatten().map(|piece| (piece, count)).or(found);
            count = count.saturating_mul(FAN_OUT);
        }
        found
    }

    /// Looks through all parts.
    pub(crate) fn check(&self) -> Result<(), DamagedSums> {
        for piece in self.head.levels.iter().flatten().flatten() {
            PartSums::decode(&self.pieces.read(piece).ok_or(DamagedSums)?).ok_or(DamagedSums)?;
        }
        self.check_pictures()?;
        self.check_latencies()?;
        self.check_wakes()?;
        self.check_statistics()
    }
}
