// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over the records of a window [spec/view.md 4.20]: how many there are of each row, and who ran.

use kymo_analyze::usage::{Told, Usage, UsageScope};
use kymo_analyze::{
    CallSpan, CpuSpan, Event, Head, InterruptSpan, Level, Sink, State, Stats, Thread, ThreadSpan, Threads, Writer,
};
use kymo_feed::{Payload, Seen, Visit, is_by_writer};

use super::middle::Middle;
use crate::error::Error;
use crate::event_counts::{EventCounts, WindowCounts, event_counts};
use crate::opened::Opened;
use crate::parameters::Window;
use crate::people::People;
use crate::walk::{Gather, LossLog, Stop};

/// Records and times on the way.
pub(super) struct StatisticsPass<'o> {
    pub stats: Stats,
    /// None where no times are asked for, or none are known.
    pub usage: Option<Usage>,
    told: Told,
    needs_writer: bool,
    is_all: bool,
    /// What threads were called.
    pub people: People,
    /// What the index has of the window; `None`: all is read.
    pub middle: Option<Middle<'o>>,
    pub records: u64,
    pub selected: u64,
    pub span: Option<(i64, i64)>,
}

impl<'o> StatisticsPass<'o> {
    pub fn new(of: &Opened, level: Level, window: Window, is_all: bool) -> StatisticsPass<'o> {
        let scope = UsageScope { from: window.from, to: window.to, ..UsageScope::default() };
        let usage = (level != Level::Event && of.has_switches()).then(|| {
            let usage = Usage::new(scope, &of.classes.vocabulary).of_times();
            if of.is_restricted { usage.without_begin() } else { usage }
        });
        StatisticsPass {
            stats: Stats::new(&[level], false, &of.classes.list),
            usage,
            told: Told::new(&of.classes.list),
            needs_writer: level != Level::Event,
            is_all,
            people: People::default(),
            middle: None,
            records: 0,
            selected: 0,
            span: None,
        }
    }

    /// Seconds from the first record of the window to its last: what `kymo stats` divides by.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.abs_diff(first) as f64 / 1e9)
    }

    /// Ends the sums.
    pub fn finish(&mut self, state: &State) {
        self.usage.iter_mut().for_each(|usage| usage.finish(state));
        self.people.finish(state);
    }

    /// Takes note of so many records, the first and the last of these times.
    pub fn note(&mut self, records: u64, (first, last): (i64, i64)) {
        self.records = self.records.saturating_add(records);
        self.span = Some(self.span.map_or((first, last), |of| (of.0.min(first), of.1.max(last))));
    }

    /// Counts by event that the index has, with the losses. `None` where more is asked for.
    pub fn of_index(
        of: &Opened,
        level: Level,
        (window, is_all): (Window, bool),
        stop: &Stop,
    ) -> Result<Option<(StatisticsPass<'o>, LossLog)>, Error> {
        if level != Level::Event || !is_all {
            return Ok(None);
        }
        let mut counted = StatisticsPass::new(of, level, window, is_all);
        if window.pair() == of.whole() {
            let found = event_counts(&of.traces, &of.indexes, &of.classes, |_| true, &mut counted.stats);
            // Losses are to be listed.
            if let Some(EventCounts { records, .. }) = found.filter(|found| found.lost.is_none()) {
                (counted.records, counted.selected, counted.span) = (records, records, of.bounds);
                return Ok(Some((counted, LossLog::default())));
            }
            counted.stats = Stats::new(&[level], false, &of.classes.list);
        }
        let Some(counts) = WindowCounts::of(of, window, stop)? else { return Ok(None) };
        let records = counts.records();
        (counted.records, counted.selected, counted.span) = (records, records, counts.span());
        Ok(counts.add_to(&mut counted.stats, &of.classes).then_some((counted, counts.losses)))
    }
}

impl Visit for StatisticsPass<'_> {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let (time, payload) = (seen.head.time, Payload(seen.record.payload));
        if self.middle.as_ref().is_some_and(|middle| middle.has(seen.record.stream)) {
            return;
        }
        self.note(1, (time, time));
        if let Some(usage) = &mut self.usage {
            usage.take(seen.is_selected);
            self.told.record(seen.class, &seen.head, &payload, state, usage);
            if is_by_writer(seen.record.stream) {
                usage.check(&seen.head, state);
            }
        }
        if seen.is_selected {
            self.selected = self.selected.saturating_add(1);
            let writer = if self.needs_writer { seen.writer(state) } else { Writer::default() };
            match self.middle.as_mut().filter(|middle| middle.is_within) {
                Some(middle) => middle.read(&writer, time),
                None => self.stats.add(seen.class, (time, seen.record.bits), &writer, &payload),
            }
        }
    }
}

impl Sink for StatisticsPass<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.usage.iter_mut().for_each(|usage| usage.event(head, event, state));
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if self.middle.as_ref().is_none_or(|middle| !middle.is_within) {
            self.people.see(span.from, thread);
        }
        self.usage.iter_mut().for_each(|usage| usage.thread(span, thread));
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.usage.iter_mut().for_each(|usage| usage.cpu(span));
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.usage.iter_mut().for_each(|usage| usage.interrupt(span, threads));
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.usage.iter_mut().for_each(|usage| usage.call(span, thread));
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.usage.iter_mut().for_each(|usage| usage.lost(cpu, from, to));
    }
}

impl Gather for StatisticsPass<'_> {
    fn begin(&mut self, state: &State) {
        self.usage = self.usage.take().map(|usage| usage.resume(state));
    }

    fn open(&mut self, _: &State, _: i64) {
        // What ends with the window ends with no record.
        self.usage.iter_mut().for_each(|usage| usage.take(self.is_all));
    }
}
