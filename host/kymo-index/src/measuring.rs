// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the samples of latencies while an index is built, and hands them on by parts [spec/index.md 5.3]. Of each only
//! what sums need is handed on, and all of the longest.

use std::collections::BTreeSet;

use kymo_analyze::hash::Map;
use kymo_analyze::{
    CallSpan, Doubt, Event, Head, Interrupt, InterruptSpan, Of, OffSpan, Recorders, Request, Sample, SampleGroup,
    Sampler, State, TakeSamples, Thread, ThreadSpan, Threads, What,
};

use crate::latency_bytes::SERIES_MAX;
use crate::latency_maker::{EndedSamples, LatencyMaker, LongestOf, MadeLatencies, Token};
use crate::latency_part::{LISTED_MAX, LONGEST_MAX, PastSample, Rank};
use crate::latency_samples::TIME_MAX;
use crate::worker::Worker;

/// Parts between two checkpoints that are one part of the lowest level.
pub(crate) const UNIT: usize = 4;
/// Series that are found without a map, by the lowest bits of what they are of.
const NEAR: usize = 64;

/// The longest samples of a series.
#[derive(Default)]
struct Longest {
    list: Vec<Sample>,
    /// Only samples before it are kept.
    before: Option<Rank>,
}

impl Longest {
    #[inline]
    fn take(&mut self, sample: &Sample) {
        if self.before.is_some_and(|before| sample.value_ns <= before.0.0 && sample.rank() >= before) {
            return;
        }
        self.list.push(*sample);
        if self.list.len() >= 2 * LONGEST_MAX {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.list.len() > LONGEST_MAX {
            let before = self.list.select_nth_unstable_by_key(LONGEST_MAX, Sample::rank).1.rank();
            self.list.retain(|sample| sample.rank() < before);
            self.before = Some(before);
        }
    }
}

/// Numbers of series.
struct Numbers {
    known: Map<(SampleGroup, Of), u32>,
    near: Vec<Option<(SampleGroup, Of, u32)>>,
}

impl Numbers {
    /// Where a series may be near.
    #[inline]
    fn place(group: SampleGroup, of: &Of) -> usize {
        let low = match *of {
            Of::Interrupt(Interrupt::Irq(number), _) => number as u64,
            Of::Interrupt(Interrupt::Vector(number) | Interrupt::Softirq(number), _) => number.into(),
            Of::Function(function) => function >> 4,
            Of::Call(call) => call.0.into(),
            Of::Device(device) => device,
            _ => 0,
        };
        (low.wrapping_mul(5) ^ group as u64) as usize % NEAR
    }
}

/// What is handed on next.
struct Ended {
    recorders: Recorders,
    numbers: Numbers,
    /// By number of the series.
    longest: Vec<Longest>,
    part: EndedSamples,
    /// Requests that began in the part and are not over.
    begun: BTreeSet<Request>,
    /// Nothing can be made of the trace.
    is_over: bool,
}

impl Ended {
    #[inline]
    fn number(&mut self, group: SampleGroup, of: Of) -> Option<u32> {
        let place = Numbers::place(group, &of);
        if let Some((_, _, number)) = self.numbers.near[place].filter(|near| (near.0, near.1) == (group, of)) {
            return Some(number);
        }
        let next = self.longest.len();
        let number = match self.numbers.known.get(&(group, of)) {
            Some(number) => *number,
            None if next >= SERIES_MAX => {
                self.is_over = true;
                return None;
            }
            None => {
                self.numbers.known.insert((group, of), next as u32);
                self.longest.push(Longest::default());
                self.part.new.push((group, of));
                next as u32
            }
        };
        self.numbers.near[place] = Some((group, of, number));
        Some(number)
    }

    /// What was before decides about it: it is kept as it is.
    #[cold]
    fn past(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        let is_lost = sample.doubt.has(Doubt::LOST);
        let in_part = Doubt::LOST.when(self.part.lost_to.is_some_and(|to| sample.from < to));
        let sample = Sample { doubt: sample.doubt.without(Doubt::LOST) | in_part, ..*sample };
        match self.part.past.len() < LISTED_MAX {
            true => self.part.past.push(PastSample { group, of, sample, is_lost }),
            false => self.part.is_over = true,
        }
    }
}

impl TakeSamples for Ended {
    #[inline]
    fn sample(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        let is_of_kymo = self.recorders.is_kymo;
        if is_of_kymo && group.is_of_thread() && self.recorders.own(sample.tid, sample.process, sample.name.as_str()) {
            return;
        }
        if sample.from < -TIME_MAX || sample.to >= TIME_MAX || sample.from >= TIME_MAX || sample.to < -TIME_MAX {
            self.part.is_over = true;
            return;
        }
        if group.is_of_past() && self.part.from.is_none_or(|from| sample.from <= from) {
            return self.past(group, of, sample);
        }
        let Some(series) = self.number(group, of) else { return };
        let (is_doubtful, is_idle) = (!sample.doubt.is_none(), sample.doubt.has(Doubt::IDLE));
        self.part.tokens.push(Token { value_ns: sample.value_ns, to: sample.to, series, is_doubtful, is_idle });
        if let Some(longest) = self.longest.get_mut(series as usize).filter(|_| !is_idle) {
            longest.take(sample);
        }
    }

    fn begun(&mut self, request: &Request) {
        self.begun.insert(*request);
    }

    fn ended(&mut self, request: &Request) {
        if self.begun.remove(request) {
            return;
        }
        match self.part.ended.len() < LISTED_MAX {
            true => self.part.ended.push(*request),
            false => self.part.is_over = true,
        }
    }
}

/// Takes samples, and hands on those of each part.
pub(crate) struct Measuring {
    sampler: Sampler,
    ended: Ended,
    /// Between two checkpoints.
    parts: usize,
    maker: Worker<EndedSamples, MadeLatencies>,
}

impl Measuring {
    pub fn start(recorders: Recorders) -> std::io::Result<Measuring> {
        let mut maker = LatencyMaker::new();
        let maker = Worker::start("kymo-latencies", move |ended, done| {
            maker.take(ended, done);
            EndedSamples::default()
        })?;
        let numbers = Numbers { known: Map::default(), near: vec![None; NEAR] };
        let ended = Ended {
            recorders,
            numbers,
            longest: Vec::new(),
            part: EndedSamples::default(),
            begun: BTreeSet::new(),
            is_over: false,
        };
        let kinds: Vec<What> = What::ALL.iter().map(|(what, _)| *what).collect();
        Ok(Measuring { sampler: Sampler::new(&kinds), ended, parts: 0, maker })
    }

    /// An item begins at that time, and comes next.
    #[inline]
    pub fn note(&mut self, ns: i64) {
        let part = &mut self.ended.part;
        if part.from.is_none() {
            (part.from, part.to) = (Some(ns), ns);
        }
        part.to = part.to.max(ns);
    }

    #[inline]
    pub fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.sampler.event(head, event, state, &mut self.ended);
    }

    #[inline]
    pub fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.sampler.thread(span, thread, &mut self.ended);
    }

    #[inline]
    pub fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.sampler.interrupt(span, threads, &mut self.ended);
    }

    #[inline]
    pub fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.sampler.call(span, thread, &mut self.ended);
    }

    #[inline]
    pub fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.sampler.off(span, threads, &mut self.ended);
    }

    pub fn lost(&mut self, to: i64) {
        self.sampler.lost(to);
        self.ended.part.lost_to = self.ended.part.lost_to.max(Some(to));
    }

    /// The trace tells of a block device.
    pub fn device(&mut self, device: (u64, String)) {
        let part = &mut self.ended.part;
        match part.devices.len() < LISTED_MAX {
            true => part.devices.push(device),
            false => part.is_over = true,
        }
    }

    /// A part between two checkpoints is over.
    pub fn end_part(&mut self) {
        self.parts += 1;
        if self.parts % UNIT == 0 {
            let part = self.take_part();
            self.maker.give(part);
        }
    }

    fn take_part(&mut self) -> EndedSamples {
        let ended = &mut self.ended;
        // The next part has about as many.
        let tokens = Vec::with_capacity(ended.part.tokens.len() / 8 * 9);
        let next = EndedSamples { tokens, ..EndedSamples::default() };
        let mut part = std::mem::replace(&mut ended.part, next);
        for (number, longest) in ended.longest.iter_mut().enumerate() {
            let mut longest = std::mem::take(longest);
            longest.cut();
            if longest.list.is_empty() && longest.before.is_none() {
                continue;
            }
            let (series, is_cut) = (number as u32, longest.before.is_some());
            part.longest.push(LongestOf { series, list: longest.list, is_cut });
        }
        for request in std::mem::take(&mut ended.begun) {
            part.begun.extend(self.sampler.request(&request).map(|begun| (request, begun)));
        }
        part
    }

    /// What is made by now.
    pub fn made(&self) -> impl Iterator<Item = MadeLatencies> {
        self.maker.made()
    }

    /// All that was not taken yet; `None`: nothing can be made of the trace.
    pub fn finish(self) -> Option<Vec<MadeLatencies>> {
        let is_over = self.ended.is_over || self.sampler.requests().1 > 0;
        let rest = self.maker.finish();
        (!is_over).then_some(rest)
    }
}
