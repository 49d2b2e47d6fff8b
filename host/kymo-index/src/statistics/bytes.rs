// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and times of a part as bytes, and back [spec/index.md 5.6].

use std::collections::BTreeMap;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::usage::{ACTORS_MAX, Actor, CpuTime, CpuUse, LanePart, LaneStep, PartUsage, STEPS_MAX};
use kymo_analyze::{Context, CpuSpan, Doubt, Interrupt};

use crate::file::bits::{BitPut, BitTake, width};
use crate::latencies::samples::TIME_MAX;
use crate::statistics::names::{WriterName, WriterNames};
use crate::statistics::part::{CountedRecords, StatisticsPart, WRITERS_MAX, WriterRows};

/// Of single numbers.
const SINGLE_ORDER: u32 = 8;
/// Of times that are not many.
const TIME_ORDER: u32 = 20;
/// CPUs of a part at most: as many as a state has.
const CPUS_MAX: usize = 8192;

/// Numbers of a list, with the order of codes that their mean has.
fn put_all(bits: &mut BitPut, all: impl ExactSizeIterator<Item = u64> + Clone) {
    let sum = all.clone().fold(0, u64::saturating_add);
    let order = bits.order(sum, all.len());
    all.for_each(|number| bits.number(number, order));
}

fn take_all(bits: &mut BitTake<'_>, count: usize) -> Option<Vec<u64>> {
    let order = bits.order()?;
    (count <= bits.left()).then_some(())?;
    (0..count).map(|_| bits.number(order)).collect()
}

/// Puts what a part has, with times as distances from one.
struct PartPut<'n> {
    bits: BitPut,
    base: i64,
    names: &'n mut WriterNames,
    /// Numbers of the writers and threads of the part, ascending.
    local: Vec<u32>,
    /// A time is none that is kept.
    is_beyond: bool,
}

impl PartPut<'_> {
    fn time(&mut self, at: i64) {
        self.is_beyond |= !(-TIME_MAX..TIME_MAX).contains(&at);
        self.bits.signed(at.wrapping_sub(self.base), TIME_ORDER);
    }

    fn place(&mut self, number: u32) {
        let place = self.local.binary_search(&number).unwrap_or_default();
        self.bits.bits(place as u64, width(self.local.len().saturating_sub(1) as u64));
    }

    fn actor(&mut self, actor: &Actor) {
        let number = self.names.number(WriterName::of(actor));
        self.place(number);
    }

    fn context(&mut self, context: Context) {
        match context {
            Context::Idle => self.bits.bits(1, 2),
            Context::Thread(tid) => {
                self.bits.bits(2, 2);
                self.bits.signed(tid.into(), SINGLE_ORDER);
            }
            Context::Unknown | Context::Interrupt(_) => self.bits.bits(0, 2),
        }
    }

    fn doubt(&mut self, doubt: Doubt) {
        self.bits.flag(!doubt.is_none());
        if !doubt.is_none() {
            self.bits.bits(doubt.bits().into(), 8);
        }
    }

    /// The time of a run, or of several.
    fn run(&mut self, time: &CpuTime) {
        self.bits.number(time.ns, TIME_ORDER);
        self.bits.number(time.interrupted_ns, TIME_ORDER);
        self.doubtful(time);
    }

    fn doubtful(&mut self, time: &CpuTime) {
        self.doubt(time.doubt);
        if !time.doubt.is_none() {
            self.bits.number(time.doubtful_ns, TIME_ORDER);
        }
    }

    fn step(&mut self, step: &LaneStep) {
        match step {
            LaneStep::Span(span) => {
                self.bits.bits(0, 3);
                self.time(span.from);
                self.is_beyond |= span.to >= TIME_MAX;
                self.bits.number(span.to.wrapping_sub(span.from) as u64, TIME_ORDER);
                self.bits.flag(matches!(span.context, Context::Interrupt(_)));
                self.context(span.current);
                self.doubt(span.doubt);
            }
            LaneStep::Leaving(actor) => {
                self.bits.bits(1, 3);
                self.actor(actor);
            }
            LaneStep::Left(actor) => {
                self.bits.bits(2, 3);
                self.actor(actor);
            }
            LaneStep::FirstSwitch(leaves, at) => {
                self.bits.bits(3, 3);
                self.context(*leaves);
                self.time(*at);
            }
            LaneStep::Lost => self.bits.bits(4, 3),
        }
    }

    fn lane(&mut self, lane: &LanePart) {
        self.bits.number(lane.steps.len() as u64, 1);
        lane.steps.iter().for_each(|step| self.step(step));
        self.bits.flag(lane.leaving.is_some());
        lane.leaving.iter().for_each(|actor| self.actor(actor));
        self.bits.flag(lane.current.is_some());
        let Some((current, time)) = &lane.current else { return };
        self.context(*current);
        self.run(time);
        self.time(lane.counted_to);
        self.bits.flag(lane.first_run.is_some());
        let Some((first, actor)) = &lane.first_run else { return };
        self.run(first);
        self.bits.flag(actor.is_some());
        actor.iter().for_each(|actor| self.actor(actor));
        let used = &lane.used;
        for ns in [used.thread_ns, used.interrupt_ns, used.idle_ns, used.unknown_ns, used.runs] {
            self.bits.number(ns, TIME_ORDER);
        }
    }

    fn writers(&mut self, rows: &[(u32, CountedRecords)]) {
        rows.iter().for_each(|(writer, _)| self.place(*writer));
        put_all(&mut self.bits, rows.iter().map(|(_, of)| of.records - 1));
        put_all(&mut self.bits, rows.iter().map(|(_, of)| of.last.abs_diff(of.first)));
        let lasts: Vec<i64> = [self.base].into_iter().chain(rows.iter().map(|(_, of)| of.last)).collect();
        put_all(&mut self.bits, lasts.windows(2).map(|pair| pair[1].abs_diff(pair[0])));
    }

    fn cpus(&mut self, cpus: &BTreeMap<Option<u32>, CountedRecords>) {
        self.bits.number(cpus.len() as u64, SINGLE_ORDER);
        for (cpu, of) in cpus {
            self.bits.number(cpu.map_or(0, |cpu| u64::from(cpu) + 1), SINGLE_ORDER);
            self.bits.number(of.records, TIME_ORDER / 2);
            self.time(of.first);
            self.bits.number(of.last.abs_diff(of.first), TIME_ORDER);
        }
    }

    /// Threads by their places: a bit says which have run.
    fn threads(&mut self, threads: &BTreeMap<u32, CpuTime>) {
        let local = std::mem::take(&mut self.local);
        local.iter().for_each(|number| self.bits.flag(threads.contains_key(number)));
        self.local = local;
        put_all(&mut self.bits, threads.values().map(|time| time.runs));
        put_all(&mut self.bits, threads.values().map(|time| time.ns));
        put_all(&mut self.bits, threads.values().map(|time| time.interrupted_ns));
        // The longest of one run is that.
        let several: Vec<u64> = threads.values().filter(|of| of.runs > 1).map(|of| of.longest_ns).collect();
        put_all(&mut self.bits, several.into_iter());
        threads.values().for_each(|time| self.doubtful(time));
    }

    fn lanes(&mut self, lanes: &[Option<LanePart>]) {
        self.bits.number(lanes.len() as u64, SINGLE_ORDER);
        for lane in lanes {
            self.bits.flag(lane.is_some());
            lane.iter().for_each(|lane| self.lane(lane));
        }
    }
}

/// All actors of a CPU in a part.
fn actors(lane: &LanePart) -> impl Iterator<Item = &Actor> {
    let of_step = |step| match step {
        &LaneStep::Leaving(ref actor) | &LaneStep::Left(ref actor) => Some(actor),
        _ => None,
    };
    let first = lane.first_run.iter().filter_map(|(_, actor)| actor.as_ref());
    lane.steps.iter().filter_map(of_step).chain(&lane.leaving).chain(first)
}

impl StatisticsPart {
    /// As bytes. `None`: there was too much, or too many names.
    pub(crate) fn encode(&self, names: &mut WriterNames) -> Option<Vec<u8>> {
        let rows = self.writers.in_order();
        let threads = self.usage.threads.iter().map(|(actor, time)| (names.number(WriterName::of(actor)), *time));
        let threads: BTreeMap<u32, CpuTime> = threads.collect();
        let mut local: Vec<u32> = rows.iter().map(|(writer, _)| *writer).chain(threads.keys().copied()).collect();
        for lane in self.usage.lanes.iter().flatten() {
            local.extend(actors(lane).map(|actor| names.number(WriterName::of(actor))));
        }
        local.sort_unstable();
        local.dedup();
        let base = rows.iter().map(|(_, of)| of.first).min().or(self.usage.begin).unwrap_or(0);
        let newest = rows.iter().map(|(_, of)| of.last).max().unwrap_or(base);
        if self.is_over() || names.is_over || base < -TIME_MAX || newest >= TIME_MAX {
            return None;
        }
        let mut put = Put::default();
        put.signed(base);
        put.number(local.len() as u64);
        put.number(rows.len() as u64);
        let mut all = PartPut { bits: BitPut::default(), base, names, local, is_beyond: false };
        let gaps: Vec<u64> = all.local.windows(2).map(|pair| u64::from(pair[1] - pair[0]) - 1).collect();
        all.bits.number(all.local.first().copied().unwrap_or(0).into(), SINGLE_ORDER);
        put_all(&mut all.bits, gaps.into_iter());
        all.writers(&rows);
        all.cpus(&self.cpus);
        all.threads(&threads);
        all.bits.flag(self.usage.begin.is_some());
        self.usage.begin.into_iter().for_each(|begin| all.time(begin));
        all.lanes(&self.usage.lanes);
        all.bits.finish(&mut put.0);
        (!all.is_beyond).then_some(put.0)
    }

    /// The same again, with the names of the index.
    pub(crate) fn decode(bytes: &[u8], names: &WriterNames) -> Option<StatisticsPart> {
        let mut take = Take(bytes);
        let base = take.signed().filter(|base| (-TIME_MAX..TIME_MAX).contains(base))?;
        let locals = take.small::<usize>().filter(|count| *count <= WRITERS_MAX + ACTORS_MAX)?;
        let rows = take.small::<usize>().filter(|count| *count <= WRITERS_MAX.min(locals))?;
        let mut all = PartTake { bits: BitTake::new(take.0), base, local: Vec::new() };
        all.locals(locals, names)?;
        let writers = all.writers(rows)?;
        let cpus = all.cpus()?;
        let threads = all.threads()?;
        let begin = if all.bits.flag()? { Some(all.time()?) } else { None };
        let lanes = all.lanes()?;
        let usage = PartUsage { begin, lanes, threads, is_odd: false };
        all.bits.is_at_end().then_some(StatisticsPart { writers, cpus, usage })
    }
}

/// Takes it again.
struct PartTake<'a> {
    bits: BitTake<'a>,
    base: i64,
    /// Numbers, each with whom it is of.
    local: Vec<(u32, WriterName)>,
}

impl PartTake<'_> {
    fn time(&mut self) -> Option<i64> {
        let time = self.base.checked_add(self.bits.signed(TIME_ORDER)?)?;
        (-TIME_MAX..TIME_MAX).contains(&time).then_some(time)
    }

    /// A time so far behind another one.
    fn behind(&mut self, from: i64, order: u32) -> Option<i64> {
        from.checked_add_unsigned(self.bits.number(order)?).filter(|time| *time < TIME_MAX)
    }

    fn place(&mut self) -> Option<&(u32, WriterName)> {
        let place = self.bits.bits(width(self.local.len().saturating_sub(1) as u64))?;
        self.local.get(usize::try_from(place).ok()?)
    }

    fn actor(&mut self) -> Option<Actor> {
        self.place()?.1.actor()
    }

    fn context(&mut self) -> Option<Context> {
        Some(match self.bits.bits(2)? {
            0 => Context::Unknown,
            1 => Context::Idle,
            2 => Context::Thread(i32::try_from(self.bits.signed(SINGLE_ORDER)?).ok()?),
            _ => return None,
        })
    }

    fn doubt(&mut self) -> Option<Doubt> {
        let has_doubt = self.bits.flag()?;
        Some(if has_doubt { Doubt::from_bits(self.bits.bits(8)? as u8) } else { Doubt::NONE })
    }

    fn run(&mut self) -> Option<CpuTime> {
        let (ns, interrupted_ns) = (self.bits.number(TIME_ORDER)?, self.bits.number(TIME_ORDER)?);
        self.doubtful(CpuTime { ns, interrupted_ns, ..CpuTime::default() })
    }

    fn doubtful(&mut self, time: CpuTime) -> Option<CpuTime> {
        let doubt = self.doubt()?;
        let doubtful_ns = if doubt.is_none() { 0 } else { self.bits.number(TIME_ORDER)? };
        Some(CpuTime { doubt, doubtful_ns, ..time })
    }

    fn step(&mut self) -> Option<LaneStep> {
        Some(match self.bits.bits(3)? {
            0 => {
                let from = self.time()?;
                let to = self.behind(from, TIME_ORDER)?;
                let is_interrupt = self.bits.flag()?;
                let current = self.context()?;
                let context = if is_interrupt { Context::Interrupt(Interrupt::Hard) } else { current };
                LaneStep::Span(CpuSpan { cpu: 0, from, to, context, current, doubt: self.doubt()? })
            }
            1 => LaneStep::Leaving(self.actor()?),
            2 => LaneStep::Left(self.actor()?),
            3 => LaneStep::FirstSwitch(self.context()?, self.time()?),
            4 => LaneStep::Lost,
            _ => return None,
        })
    }

    fn lane(&mut self, number: u32) -> Option<LanePart> {
        let steps = self.bits.small::<usize>(1).filter(|count| *count <= STEPS_MAX)?;
        let mut lane = LanePart::default();
        for _ in 0..steps {
            let step = self.step()?;
            lane.steps.push(match step {
                LaneStep::Span(span) => LaneStep::Span(CpuSpan { cpu: number, ..span }),
                other => other,
            });
        }
        lane.leaving = if self.bits.flag()? { Some(self.actor()?) } else { None };
        if !self.bits.flag()? {
            return Some(lane);
        }
        lane.current = Some((self.context()?, self.run()?));
        lane.counted_to = self.time()?;
        if self.bits.flag()? {
            let first = self.run()?;
            let actor = if self.bits.flag()? { Some(self.actor()?) } else { None };
            lane.first_run = Some((first, actor));
            let mut number = || self.bits.number(TIME_ORDER);
            let (thread_ns, interrupt_ns, idle_ns) = (number()?, number()?, number()?);
            let (unknown_ns, runs) = (number()?, number()?);
            lane.used = CpuUse { thread_ns, interrupt_ns, idle_ns, unknown_ns, runs, ..CpuUse::default() };
        }
        Some(lane)
    }

    fn locals(&mut self, count: usize, names: &WriterNames) -> Option<()> {
        let mut number = self.bits.number(SINGLE_ORDER)?;
        let gaps = take_all(&mut self.bits, count.saturating_sub(1))?;
        for at in 0..count {
            if at > 0 {
                number = number.checked_add(gaps[at - 1])?.checked_add(1)?;
            }
            let of = u32::try_from(number).ok()?;
            self.local.push((of, *names.at(of)?));
        }
        Some(())
    }

    fn writers(&mut self, count: usize) -> Option<WriterRows> {
        let numbers = (0..count).map(|_| self.place().map(|place| place.0)).collect::<Option<Vec<u32>>>()?;
        let [records, lengths, gaps] = [(); 3].map(|()| take_all(&mut self.bits, count));
        let (records, lengths, gaps) = (records?, lengths?, gaps?);
        let (mut rows, mut last) = (WriterRows::default(), self.base);
        for (at, number) in numbers.iter().enumerate() {
            last = last.checked_add_unsigned(gaps[at]).filter(|last| *last < TIME_MAX)?;
            let first = last.checked_sub_unsigned(lengths[at]).filter(|first| *first >= self.base)?;
            if rows.add(*number, &CountedRecords { records: records[at].checked_add(1)?, first, last }) != at {
                return None;
            }
        }
        Some(rows)
    }

    fn cpus(&mut self) -> Option<BTreeMap<Option<u32>, CountedRecords>> {
        let mut cpus = BTreeMap::new();
        for _ in 0..self.bits.count(SINGLE_ORDER)? {
            let cpu = self.bits.number(SINGLE_ORDER)?;
            let cpu = cpu.checked_sub(1).map(u32::try_from).transpose().ok()?;
            let records = self.bits.number(TIME_ORDER / 2)?;
            let first = self.time()?;
            let last = self.behind(first, TIME_ORDER)?;
            cpus.insert(cpu, CountedRecords { records, first, last });
        }
        Some(cpus)
    }

    fn threads(&mut self) -> Option<Map<Actor, CpuTime>> {
        let mut actors = Vec::new();
        for at in 0..self.local.len() {
            if self.bits.flag()? {
                actors.push(self.local[at].1.actor()?);
            }
        }
        let [runs, ns, interrupted] = [(); 3].map(|()| take_all(&mut self.bits, actors.len()));
        let (runs, ns, interrupted) = (runs?, ns?, interrupted?);
        let several = runs.iter().filter(|runs| **runs > 1).count();
        let mut longest = take_all(&mut self.bits, several)?.into_iter();
        let mut threads = Map::default();
        for (at, actor) in actors.into_iter().enumerate() {
            let longest_ns = if runs[at] > 1 { longest.next()? } else { ns[at] };
            let time = CpuTime {
                ns: ns[at],
                interrupted_ns: interrupted[at],
                runs: runs[at],
                longest_ns,
                ..CpuTime::default()
            };
            threads.insert(actor, self.doubtful(time)?);
        }
        Some(threads)
    }

    fn lanes(&mut self) -> Option<Vec<Option<LanePart>>> {
        let count = self.bits.count(SINGLE_ORDER).filter(|count| *count <= CPUS_MAX)?;
        let mut lanes = Vec::new();
        for number in 0..count {
            lanes.push(if self.bits.flag()? { Some(self.lane(number as u32)?) } else { None });
        }
        Some(lanes)
    }
}
