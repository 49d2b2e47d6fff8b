// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--explain`: causes of the worst samples. A second pass keeps what is around each of them, as `kymo explain` does,
//! and the same engine [spec/analyze.md 6] says what their time went to.

use std::collections::{BTreeSet, HashMap};

use kymo_analyze::explain::{Question, Scene, Slice};
use kymo_analyze::{
    CpuSpan, Event, Head, InterruptSpan, Key, Latency, OffSpan, SPANS_MAX, Sample, Sink, State, Thread, ThreadSpan,
    Threads, duration,
};
use kymo_ctf::read::Reader;

use crate::verbs::analyze::feed::{Classes, Input, Seen, Visit, walk};
use crate::verbs::analyze::machine_of;
use crate::verbs::analyze::show::Names;
use crate::verbs::explain::keep::QUOTA_TIMER;
use crate::verbs::symbols::Symbolizer;

/// Samples that are explained at most, the longest first.
const EXPLAINED_MAX: usize = 32;
/// Parts of a sample's time that are shown in text, and the share below which one is not.
const SHOWN: usize = 3;
const SHARE_MIN: f64 = 0.05;

/// Causes by sample: its row, and its place among the worst of the row.
#[derive(Default)]
pub struct Causes {
    of_sample: HashMap<(usize, usize), Vec<Slice>>,
    /// Samples that were too many.
    pub left_out: usize,
}

impl Causes {
    /// Of the worst samples of all rows that `is_wanted`.
    pub fn find(
        input: &Input,
        classes: &Classes,
        latency: &Latency,
        names: &Names<'_>,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> anyhow::Result<Causes> {
        let rows = latency.series();
        let mut samples: Vec<(usize, usize, &Key, &Sample)> = Vec::new();
        for (row, (key, series)) in rows.iter().enumerate().filter(|(_, (key, _))| is_wanted(key)) {
            samples.extend(series.worst.iter().enumerate().map(|(at, sample)| (row, at, *key, sample)));
        }
        samples.sort_by_key(|(row, at, _, sample)| (std::cmp::Reverse(sample.value_ns), *row, *at));
        let left_out = samples.len().saturating_sub(EXPLAINED_MAX);
        samples.truncate(EXPLAINED_MAX);
        let machine = machine_of(&input.traces);
        let spans_max = SPANS_MAX / samples.len().max(1);
        let scene = |(_, _, key, sample): &(usize, usize, &Key, &Sample)| {
            Scene::new(Question::of_sample(key.what, names.of(key.of), sample), spans_max, machine)
        };
        let scenes = samples.iter().map(scene).collect();
        let known = Symbolizer::new(None, &input.traces)?;
        let mut gather = Gather { scenes, known, functions: BTreeSet::new() };
        walk(&mut Reader::new(&input.traces), classes, &mut gather);
        let budget = |scene: &Scene| scene.budget(&classes.vocabulary, &gather.known);
        let places = samples.iter().map(|(row, at, ..)| (*row, *at));
        Ok(Causes { of_sample: places.zip(gather.scenes.iter().map(budget)).collect(), left_out })
    }

    /// What the time of a sample went to, the largest part first; `None`: it was not asked for.
    pub fn of(&self, row: usize, at: usize) -> Option<&[Slice]> {
        self.of_sample.get(&(row, at)).map(Vec::as_slice)
    }

    /// The same for people, the largest parts of it.
    pub fn text(&self, row: usize, at: usize) -> Option<String> {
        let slices = self.of(row, at)?;
        let whole = slices.iter().map(|slice| slice.ns).sum::<u64>().max(1);
        let share = |slice: &Slice| slice.ns as f64 / whole as f64;
        let shown = slices.iter().filter(|slice| share(slice) >= SHARE_MIN).take(SHOWN);
        let part = |slice: &Slice| {
            let inferred = if slice.seen { "" } else { " (inferred)" };
            format!("{} ({:.0} %) {}{inferred}", duration(slice.ns), 100.0 * share(slice), slice.text)
        };
        Some(shown.map(part).collect::<Vec<_>>().join("; "))
    }
}

/// A scene for each sample.
struct Gather {
    scenes: Vec<Scene>,
    known: Symbolizer,
    /// Functions of timers that were looked up.
    functions: BTreeSet<u64>,
}

impl Gather {
    fn each(&mut self, take: impl FnMut(&mut Scene)) {
        self.scenes.iter_mut().for_each(take);
    }
}

impl Visit for Gather {
    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        self.known.learn(seen.record);
    }
}

impl Sink for Gather {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if let Event::TimerExpire { function, .. } = *event {
            if self.functions.insert(function) && self.known.of_kernel(function).is_some_and(|name| name == QUOTA_TIMER)
            {
                self.each(|scene| scene.set_quota_timer(function));
            }
        }
        self.each(|scene| scene.event(head, event, state));
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.each(|scene| scene.thread(span, thread));
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.each(|scene| scene.cpu(span));
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.each(|scene| scene.interrupt(span, threads));
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.each(|scene| scene.off(span, threads));
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.each(|scene| scene.lost(cpu, from, to));
    }
}
