// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over the latencies of a window [spec/view.md 4.10]: series from the sink of `kymo latency`, cells of the
//! density, and the longest samples.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use kymo_analyze::{
    By, CallSpan, CpuSpan, Event, Head, InterruptSpan, Key, Latency, OffSpan, Options, Sample, Sink, State, Thread,
    ThreadSpan, Threads, Unmatched, What,
};
use kymo_feed::{DEVICES, LossAt, Seen, Visit, device_of, recorders};
use kymo_index::{Pyramid, Rank, cell_of};

use crate::error::Error;
use crate::opened::Opened;
use crate::people::People;
use crate::pixels::Pixels;
use crate::questions::latencies::cut::CutSeries;
use crate::questions::latencies::density::Density;
use crate::questions::latencies::only::Only;
use crate::span::Spans;
use crate::walk::{Gather, Stop, Walk, Walked};

/// What is asked for.
#[derive(Clone)]
pub(crate) struct LatencyRequest {
    /// The kinds.
    pub what: Vec<What>,
    /// Texts of spans.
    pub spans: Vec<String>,
    /// What is kept apart.
    pub by: By,
    /// Points at most.
    pub limit: usize,
    /// Length from which every sample is a point, ns.
    pub past: Option<u64>,
    /// Where density is wanted.
    pub bins: Option<Pixels>,
    /// Only samples that end then are points.
    pub ending: Option<i64>,
}

/// One pass.
pub(crate) struct LatencyPass<'v> {
    pub latency: Latency,
    pub spans: Spans<'v>,
    pub(crate) bins: Option<Pixels>,
    pub(crate) density: Density,
    pub(crate) points: Points,
    pub(crate) people: People,
    /// Priorities are no key: those of users' spans are what is told of their threads.
    has_people: bool,
    /// Names are those of the index.
    pub(crate) are_named: bool,
    pub(crate) devices: BTreeMap<u64, String>,
    device_class: Option<usize>,
    pub(crate) only: Only<'v>,
    /// What is open ends with no record: whether it counts.
    takes_all: bool,
    /// Where parts of the window come from.
    pub(crate) pyramid: Option<&'v Pyramid>,
    /// Begin of the window; `None`: that of the trace.
    pub(crate) from: Option<i64>,
    /// Series of parts of which not all samples are known.
    pub(crate) cut: Vec<CutSeries>,
}

/// The longest samples.
pub(crate) struct Points {
    limit: usize,
    past: Option<u64>,
    ending: Option<i64>,
    pub list: Vec<(Key, Sample)>,
    /// The last one, where there are as many as are wanted.
    last: Option<(Rank, Key)>,
    /// All that could be points.
    pub samples: u64,
    past_count: u64,
}

/// The longest first.
fn order((key, sample): &(Key, Sample), (other_key, other): &(Key, Sample)) -> Ordering {
    let later = || (sample.rank(), *key).cmp(&(other.rank(), *other_key));
    other.value_ns.cmp(&sample.value_ns).then_with(later)
}

impl Points {
    fn new(asked: &LatencyRequest) -> Points {
        let (limit, past, ending) = (asked.limit, asked.past, asked.ending);
        Points { limit, past, ending, list: Vec::new(), last: None, samples: 0, past_count: 0 }
    }

    fn take(&mut self, key: Key, sample: Sample) {
        if self.ending.is_some_and(|ending| sample.to != ending) {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        self.past_count += u64::from(self.past.is_some_and(|past| sample.value_ns >= past));
        self.offer(key, sample);
    }

    /// Takes one that is counted elsewhere.
    pub fn offer(&mut self, key: Key, sample: Sample) {
        let is_shorter = |(rank, own): (Rank, Key)| sample.value_ns <= rank.0.0 && (sample.rank(), key) >= (rank, own);
        if self.last.is_some_and(is_shorter) {
            return;
        }
        self.list.push((key, sample));
        if self.list.len() >= 2 * self.limit.max(512) {
            self.cut();
        }
    }

    /// The longest first.
    pub fn cut(&mut self) {
        self.list.sort_by(order);
        self.list.truncate(self.limit);
        let is_full = self.list.len() >= self.limit;
        self.last = self.list.last().filter(|_| is_full).map(|(key, sample)| (sample.rank(), *key));
    }

    /// Whether there may be a point among samples of a series that are shorter than this one.
    pub fn wants_behind(&self, rank: Option<Rank>, key: Key) -> bool {
        self.last.is_none_or(|last| rank.is_none_or(|rank| (rank, key) < last))
    }

    /// Those past the limit that are not listed.
    pub fn left_out(&self) -> u64 {
        let past = self.past.unwrap_or(u64::MAX);
        let listed = self.list.iter().filter(|(_, sample)| sample.value_ns >= past).count() as u64;
        self.past_count.saturating_sub(listed)
    }
}

impl<'o> LatencyPass<'o> {
    pub(crate) fn new(of: &'o Opened, asked: &LatencyRequest, only: Only<'o>) -> Result<LatencyPass<'o>, Error> {
        // Of the worst of a series only their names matter here: points are kept beside it.
        let (what, recorders) = (asked.what.clone(), recorders(&of.traces));
        let mut latency = Latency::new(Options { what, by: asked.by, worst_max: 2, recorders, ..Options::default() });
        latency.keep_samples();
        Ok(LatencyPass {
            latency,
            spans: Spans::new(&asked.spans, &of.traces, &of.classes.vocabulary)?,
            bins: asked.bins,
            density: Density::default(),
            points: Points::new(asked),
            people: People::default(),
            has_people: !asked.by.prio,
            are_named: false,
            devices: BTreeMap::new(),
            device_class: of.classes.list.iter().position(|class| class.name == DEVICES),
            only,
            takes_all: true,
            pyramid: None,
            from: None,
            cut: Vec::new(),
        })
    }

    /// The longest samples, the longest first.
    pub fn longest(&self) -> &[(Key, Sample)] {
        &self.points.list
    }

    /// Names of block devices, by the kernel's number.
    pub fn devices(&self) -> BTreeMap<u64, String> {
        self.devices.clone()
    }

    /// Takes the samples that were made since.
    pub(crate) fn drain(&mut self) {
        for (key, sample) in self.latency.samples() {
            if !self.only.takes(&key, &sample, &self.devices) {
                continue;
            }
            if let Some(bins) = &self.bins {
                self.density.add(key.what, bins.of(sample.to), cell_of(sample.value_ns), 1);
            }
            self.points.take(key, sample);
        }
    }

    /// Takes what is known at the end.
    pub(crate) fn finish(&mut self, walked: &Walked) {
        self.drain();
        self.points.cut();
        self.people.finish(&walked.state);
        if self.has_people {
            for (_, sample) in self.points.list.iter_mut().filter(|(key, _)| key.what == What::Span) {
                let person = sample.tid.and_then(|tid| self.people.at(tid, sample.to));
                sample.prio = person.and_then(|person| person.prio);
            }
        }
        self.latency.finish(&walked.state);
        self.latency.name_processes(&walked.state);
    }

    fn learn_device(&mut self, seen: &Seen<'_, '_>) {
        self.devices.extend(device_of(seen.record));
    }
}

impl Visit for LatencyPass<'_> {
    /// What is a record of no span, and names no device, is told as what it does to threads and CPUs.
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true) || self.device_class == Some(class)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.drain();
        let latency = &mut self.latency;
        latency.take(seen.is_selected);
        self.spans.record(seen, state, &mut |of, sample| latency.span(of.number, of.key, sample));
        if self.device_class == Some(seen.class) {
            self.learn_device(seen);
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.latency.lose(loss.from, loss.to);
    }
}

impl Sink for LatencyPass<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.drain();
        self.latency.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if !self.are_named {
            self.people.see(span.from, thread);
        }
        self.latency.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.latency.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.latency.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.latency.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.latency.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.latency.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.latency.unmatched(of);
    }
}

impl Gather for LatencyPass<'_> {
    fn open(&mut self, _: &State, _: i64) {
        self.latency.take(self.takes_all);
    }
}

/// Goes through the records of a window.
pub(crate) fn pass<'o>(
    of: &'o Opened,
    walk: Walk<'o>,
    asked: &LatencyRequest,
    only: Only<'o>,
    stop: &Stop,
) -> Result<(LatencyPass<'o>, Walked), Error> {
    let mut pass = LatencyPass::new(of, asked, only)?;
    pass.takes_all = walk.is_all();
    pass.latency.take(pass.takes_all);
    let walked = walk.until_last_record().run(&mut pass, stop)?;
    pass.finish(&walked);
    Ok((pass, walked))
}
