// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies [spec/analyze.md 5]: a sink that makes a series of each kind, by whatever they are of.

mod kinds;
mod samples;

use std::collections::BTreeMap;

use crate::doubt::Doubt;
use crate::event::Event;
use crate::hash::Map;
use crate::lost_until::LostUntil;
use crate::name::Name;
use crate::record::Head;
use crate::recorders::Recorders;
use crate::series::{Sample, SampleSums, Series};
use crate::sink::Sink;
use crate::span::{CallSpan, Context, InterruptSpan, OffSpan, ThreadSpan, Unmatched};
use crate::state::{State, Thread, Threads};
use crate::usage::Choice;

pub use kinds::{By, Key, Of, SampleGroup, What};
pub use samples::{Begun, Request, Sampler, TakeSamples};

/// Series that are kept apart at most; beyond, samples go to one without details.
const SERIES_MAX: usize = 4096;

/// Which latencies, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kinds.
    pub what: Vec<What>,
    /// What else is kept apart.
    pub by: By,
    /// How many of the worst are kept.
    pub worst_max: usize,
    /// Only samples that begin at or after this time.
    pub from: i64,
    /// Only samples that begin before this time.
    pub to: i64,
    /// Whose own threads do not count.
    pub recorders: Recorders,
    /// Only of this thread.
    pub thread: Option<Choice>,
    /// Only of this process.
    pub process: Option<Choice>,
}

impl Default for Options {
    fn default() -> Options {
        let what = What::ALL.iter().map(|(what, _)| *what).collect();
        Options {
            what,
            by: By::default(),
            worst_max: 10,
            from: i64::MIN,
            to: i64::MAX,
            recorders: Recorders::default(),
            thread: None,
            process: None,
        }
    }
}

/// What was counted beside the series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Ends without beginnings.
    pub unmatched: BTreeMap<Unmatched, u64>,
    /// Beginnings without ends of block, network, and timers.
    pub open: u64,
    /// Beginnings that were too many.
    pub dropped: u64,
}

/// Makes series of latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    sampler: Sampler,
    kept: Kept,
    left: Left,
    /// Timers that have been started when the names were taken last, and those that were too many.
    timers: (u64, u64),
    /// Of all records: users' spans are made of any.
    lost: LostUntil,
}

/// What samples become.
#[derive(Clone, Debug)]
struct Kept {
    options: Options,
    is_wanted: [bool; What::ALL.len()],
    index: Map<Key, usize>,
    series: Vec<(Key, Series)>,
    /// Samples count.
    is_taken: bool,
    /// Samples of which the state has to say whose process they are of, where one is asked for by its name.
    undecided: Vec<(What, Of, Sample)>,
    /// Samples since they were taken last, where they are asked for.
    samples: Option<Vec<(Key, Sample)>>,
    /// Names of threads that stand in the lists of the worst and are not those of the sample.
    names: BTreeMap<i32, Name>,
    unnamed: Vec<i32>,
    /// Names of processes and of threads that are kept apart.
    processes: BTreeMap<i32, Name>,
    threads: BTreeMap<i32, Name>,
}

impl Latency {
    /// Nothing yet.
    pub fn new(options: Options) -> Latency {
        let sampler = Sampler::new(&options.what);
        let mut is_wanted = [false; What::ALL.len()];
        options.what.iter().for_each(|what| is_wanted[*what as usize] = true);
        let kept = Kept {
            options,
            is_wanted,
            index: Map::default(),
            series: Vec::new(),
            is_taken: true,
            undecided: Vec::new(),
            samples: None,
            names: BTreeMap::new(),
            unnamed: Vec::new(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
        };
        Latency { sampler, kept, left: Left::default(), timers: (0, 0), lost: LostUntil::default() }
    }

    /// All series, by kind, what they are of, and what is kept apart.
    pub fn series(&self) -> Vec<(&Key, &Series)> {
        let mut all: Vec<_> = self.kept.series.iter().map(|(key, series)| (key, series)).collect();
        all.sort_by_key(|(key, _)| **key);
        all
    }

    /// Name of a thread that woke one of the worst, or held its futex.
    pub fn name_of(&self, tid: i32) -> Name {
        self.kept.names.get(&tid).copied().unwrap_or_default()
    }

    /// Name of a process that is kept apart: that of its first thread, else that of the first of its threads with a
    /// sample. May be empty.
    pub fn process_name(&self, process: i32) -> Name {
        self.kept.processes.get(&process).copied().unwrap_or_default()
    }

    /// Newest name of a thread that is kept apart; may be empty.
    pub fn thread_name(&self, tid: i32) -> Name {
        self.kept.threads.get(&tid).copied().unwrap_or_default()
    }

    /// Takes the names of processes that the state knows at the end.
    pub fn name_processes(&mut self, state: &State) {
        for (process, name) in &mut self.kept.processes {
            let first = state.thread(*process).map(|thread| thread.name).filter(|name| !name.is_empty());
            *name = first.unwrap_or(*name);
        }
    }

    /// What was counted beside the series.
    pub fn left(&self) -> Left {
        let ((timers, timers_dropped), (requests, requests_dropped)) = (self.timers, self.sampler.requests());
        Left { open: timers + requests, dropped: timers_dropped + requests_dropped, ..self.left.clone() }
    }

    /// Takes the names that are still missing, and counts the timers that are open.
    pub fn finish(&mut self, state: &State) {
        self.kept.decide(state);
        if self.sampler.wants(What::Timer) {
            self.timers = state.timers();
        }
        self.kept.name_missing(state);
    }

    /// Keeps each sample until [`Latency::samples`] takes it, for who draws them over time.
    pub fn keep_samples(&mut self) {
        self.kept.samples.get_or_insert_default();
    }

    /// The samples since the last call, with the series that they are in; those of an idle CPU are in none.
    pub fn samples(&mut self) -> impl Iterator<Item = (Key, Sample)> + '_ {
        self.kept.samples.iter_mut().flat_map(|samples| samples.drain(..))
    }

    /// Whether samples that end from here on count; for who chooses among the records that end them.
    pub fn take(&mut self, is_taken: bool) {
        self.kept.is_taken = is_taken;
    }

    /// Records of any stream are missing from a time to another one, ns: begins and ends of users' spans may be among
    /// them.
    pub fn lose(&mut self, from: i64, to: i64) {
        self.lost.lose(from, to);
    }

    /// Takes a sample of a user's span. `key`: where keys are kept apart.
    pub fn span(&mut self, number: u16, key: Option<u32>, mut sample: Sample) {
        sample.doubt |= Doubt::LOST.when(sample.from < self.lost.at(sample.to));
        let of = key.map_or(Of::Span(number), |key| Of::Keyed(number, key));
        self.kept.one(What::Span, of, &sample);
    }

    /// Takes a sample of a user's span that was made elsewhere, with all that is doubtful about it.
    pub fn whole_span(&mut self, number: u16, sample: &Sample) {
        self.kept.one(What::Span, Of::Span(number), sample);
    }

    /// How late the timer was that woke a thread, ns; 0 if no timer did, or its start is not in the trace. `thread`: as
    /// it was in that wait.
    pub fn late_ns(span: &ThreadSpan, thread: &Thread) -> u64 {
        samples::late_ns(span, thread)
    }

    /// Takes sums of samples in place of these: all of a series where nothing else is kept apart. Whether it is asked
    /// for.
    pub fn add_sums(&mut self, what: What, of: Of, sums: &SampleSums) -> bool {
        if !self.sampler.wants(what) {
            return false;
        }
        let place = self.kept.place(Key { what, of, process: None, tid: None, prio: None, cpu: None });
        self.kept.series[place].1.add_sums(sums);
        true
    }

    /// Takes a sample that was made elsewhere: [`SampleGroup::is_of_past`]. Its doubt is what it is without the losses
    /// that were met here before.
    pub fn past_sample(&mut self, group: SampleGroup, of: Of, mut sample: Sample) {
        sample.doubt |= Doubt::LOST.when(sample.from < self.sampler.lost_until());
        self.kept.sample_of_all(group, of, &sample);
    }

    /// Whether a kind is asked for.
    pub fn wants(&self, what: What) -> bool {
        self.sampler.wants(what)
    }

    /// What decides about samples whose begin was met before.
    pub fn sampler(&mut self) -> &mut Sampler {
        &mut self.sampler
    }
}

impl TakeSamples for Kept {
    #[inline]
    fn sample(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        self.sample_of_all(group, of, sample);
    }
}

impl Kept {
    #[inline]
    fn sample_of_all(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        for (what, of) in group.series(of) {
            if self.is_wanted[what as usize] {
                self.one(what, of, sample);
            }
        }
    }

    fn name_missing(&mut self, state: &State) {
        for tid in self.unnamed.drain(..) {
            let name = state.thread(tid).map(|thread| thread.name).unwrap_or_default();
            self.names.entry(tid).or_insert(name);
        }
    }

    fn one(&mut self, what: What, of: Of, sample: &Sample) {
        if !self.is_taken || sample.from < self.options.from || sample.from >= self.options.to {
            return;
        }
        let recorders = &self.options.recorders;
        if recorders.is_kymo && what.is_of_thread() && recorders.own(sample.tid, sample.process, sample.name.as_str()) {
            return;
        }
        if self.options.thread.as_ref().is_some_and(|wanted| !wanted.is(sample.tid, sample.name)) {
            return;
        }
        match &self.options.process {
            Some(Choice::Name(_)) => self.undecided.push((what, of, *sample)),
            Some(Choice::Number(wanted)) if sample.process != Some(*wanted) => {}
            _ => self.put(what, of, sample),
        }
    }

    /// Takes those of the process that is asked for by its name, which is that of its first thread.
    fn decide(&mut self, state: &State) {
        let Some(wanted) = self.options.process.clone() else { return };
        for (what, of, sample) in std::mem::take(&mut self.undecided) {
            let first = sample.process.and_then(|process| state.thread(process)).map(|thread| thread.name);
            let is_first = sample.tid.is_some() && sample.tid == sample.process;
            let name = if is_first { sample.name } else { first.unwrap_or_default() };
            if wanted.is(sample.process, name) {
                self.put(what, of, &sample);
            }
        }
    }

    fn put(&mut self, what: What, of: Of, sample: &Sample) {
        let by = self.options.by;
        let key = Key {
            what,
            of,
            process: sample.process.filter(|_| by.process),
            tid: sample.tid.filter(|_| by.thread),
            prio: sample.prio.filter(|_| by.prio),
            cpu: sample.cpu.filter(|_| by.cpu),
        };
        self.name(&key, sample);
        let index = self.place(key);
        if let Some(samples) = self.samples.as_mut().filter(|_| !sample.doubt.has(Doubt::IDLE)) {
            samples.push((self.series[index].0, *sample));
        }
        if self.series[index].1.add(sample, self.options.worst_max) {
            let waker = sample.waker.and_then(|waker| match waker.context {
                Context::Thread(tid) => Some(tid),
                _ => None,
            });
            self.unnamed.extend(waker.into_iter().chain(sample.owner));
        }
    }

    fn name(&mut self, key: &Key, sample: &Sample) {
        if sample.name.is_empty() {
            return;
        }
        if let Some(process) = key.process {
            let known = self.processes.entry(process).or_insert(sample.name);
            *known = if sample.tid == Some(process) { sample.name } else { *known };
        }
        if let Some(tid) = key.tid {
            self.threads.insert(tid, sample.name);
        }
    }

    fn place(&mut self, key: Key) -> usize {
        if let Some(&index) = self.index.get(&key) {
            return index;
        }
        let is_full = self.series.len() >= SERIES_MAX;
        let others = Key { of: Of::Others, process: None, tid: None, prio: None, cpu: None, ..key };
        let key = if is_full { others } else { key };
        let next = self.series.len();
        let index = *self.index.entry(key).or_insert(next);
        if index == next {
            self.series.push((key, Series::new()));
        }
        index
    }
}

impl Sink for Latency {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if !self.kept.undecided.is_empty() || !self.kept.unnamed.is_empty() {
            self.finish(state);
        }
        self.sampler.event(head, event, state, &mut self.kept);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.sampler.thread(span, thread, &mut self.kept);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.sampler.interrupt(span, threads, &mut self.kept);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.sampler.call(span, thread, &mut self.kept);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.sampler.off(span, threads, &mut self.kept);
    }

    fn lost(&mut self, _cpu: Option<u32>, _from: i64, to: i64) {
        self.sampler.lost(to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        *self.left.unmatched.entry(of).or_default() += 1;
    }
}
