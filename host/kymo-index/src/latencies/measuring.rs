// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the samples of latencies while an index is built, and hands them on by parts [spec/index.md 5.3].

use kymo_analyze::{
    CallSpan, Event, Head, InterruptSpan, OffSpan, Recorders, Sampler, State, Thread, ThreadSpan, Threads, What,
};

use crate::build::worker::Worker;
use crate::latencies::maker::{EndedSamples, LATENCY_FAN_OUT, LatencyMaker, MadeLatencies};
use crate::latencies::part::LISTED_MAX;
use crate::latencies::samples_taken::SamplesTaken;

/// Takes samples, and hands on those of each part.
pub(crate) struct Measuring {
    sampler: Sampler,
    ended: SamplesTaken,
    maker: Worker<EndedSamples, MadeLatencies>,
}

impl Measuring {
    pub fn start(recorders: Recorders) -> std::io::Result<Measuring> {
        let mut maker = LatencyMaker::new(LATENCY_FAN_OUT);
        let maker = Worker::start("kymo-latencies", move |ended, done| {
            maker.take(ended, |made| done.send(made).is_ok());
            EndedSamples::default()
        })?;
        let kinds: Vec<What> = What::ALL.iter().map(|(what, _)| *what).collect();
        Ok(Measuring { sampler: Sampler::new(&kinds), ended: SamplesTaken::new(recorders), maker })
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
        let part = self.ended.take_part(|request| self.sampler.request(request));
        self.maker.give(part);
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
