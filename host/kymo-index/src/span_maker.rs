// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the spans of parts from the streams of programs, while an index is built [spec/index.md 5.5].

use kymo_analyze::{Of, Recorders, SampleGroup, TakeSamples};
use kymo_ctf::read::{Item, Passed, Range, Reader, Start, Trace};
use kymo_feed::clamp;

use crate::error::Error;
use crate::flame_part::{FlameMaker, FlamePart, FlamePath};
use crate::latency_maker::{LatencyMaker, MadeLatencies};
use crate::nesting::Nesting;
use crate::samples_taken::SamplesTaken;
use crate::span_bytes::put_waiting;
use crate::span_pairs::SpanPairs;
use crate::span_part::{SpanEnd, SpanPart};
use crate::stop::Stop;

/// Parts of a level that are one of the next.
pub(crate) const SPAN_FAN_OUT: usize = 4;
/// Spans that end in a part for each that is open at its end, at least: what is open is kept for each part.
const ENDED_FOR_OPEN: usize = 4;
/// Rows of a part at most. A part with more is read.
const ROWS_MAX: usize = 1 << 16;
/// Records between two looks whether it shall go on.
const LOOK_EVERY: u32 = 4096;

/// What was made of the spans.
pub(crate) enum MadeSpans {
    /// The next part of a level: its bytes, and the length of its columns; `None`: there was too much.
    Part(usize, Option<(Vec<u8>, u32)>),
    /// Where the time of its spans went; `None`: there was too much.
    Flame(usize, Option<Vec<u8>>),
    /// A part of the lowest level is over at that time, ns, with what has begun by then.
    Over(i64, Vec<u8>),
    /// How long its spans took.
    Latencies(MadeLatencies),
    /// What spans lie within, by number, of all parts.
    Paths(Vec<FlamePath>),
}

/// By level: parts that are not one of the next yet.
struct Rising<P>(Vec<Vec<Option<P>>>);

impl<P> Rising<P> {
    /// Takes the next part of the lowest level. Each part that there is then is given, with its level.
    fn take(&mut self, part: Option<P>, of: impl Fn(&[P]) -> Option<P>, give: impl Fn(usize, Option<&P>)) {
        let mut next = part;
        for level in 0.. {
            give(level, next.as_ref());
            if self.0.len() == level {
                self.0.push(Vec::new());
            }
            self.0[level].push(next);
            if self.0[level].len() < SPAN_FAN_OUT {
                return;
            }
            let parts: Option<Vec<P>> = std::mem::take(&mut self.0[level]).into_iter().collect();
            next = parts.and_then(|parts| of(&parts));
        }
    }
}

/// Makes parts, and hands them on. Where nobody takes them it goes on.
pub(crate) struct SpanMaker<'m> {
    pub pairs: SpanPairs,
    /// Spans of a part, at least.
    pub spans: usize,
    /// Whose own spans are no latencies.
    pub recorders: Recorders,
    pub stop: &'m Stop,
    pub give: &'m dyn Fn(MadeSpans),
}

/// On its way.
struct Making {
    nesting: Nesting<Option<i32>>,
    ended: Vec<SpanEnd>,
    /// Time of the first record of the part, and of the newest, ns.
    times: Option<(i64, i64)>,
    flame: FlameMaker,
    parts: Rising<SpanPart>,
    flames: Rising<FlamePart>,
    samples: SamplesTaken,
    latencies: LatencyMaker,
}

impl Making {
    fn new(recorders: Recorders) -> Making {
        let (nesting, ended, flame) = (Nesting::default(), Vec::new(), FlameMaker::default());
        let (parts, flames) = (Rising(Vec::new()), Rising(Vec::new()));
        let (samples, latencies) = (SamplesTaken::new(recorders), LatencyMaker::new(SPAN_FAN_OUT));
        Making { nesting, ended, times: None, flame, parts, flames, samples, latencies }
    }
}

impl SpanMaker<'_> {
    /// Goes through the streams that have such records. False: nothing can be made of them, as times go back, or a
    /// record does not say who wrote it.
    pub fn make(mut self, trace: &Trace, is_read: &[bool]) -> Result<bool, Error> {
        let starts: Vec<Start> = is_read.iter().map(|read| if *read { Start::Begin } else { Start::Skip }).collect();
        let traces = std::slice::from_ref(trace);
        let Some(mut reader) = Reader::between(traces, Range::default(), &starts) else { return Ok(false) };
        let (mut making, mut passed) = (Making::new(std::mem::take(&mut self.recorders)), 0u32);
        while let Some(next) = reader.pass() {
            passed = passed.wrapping_add(1);
            if passed % LOOK_EVERY == 0 {
                self.stop.check()?;
            }
            let Passed::Record { event, .. } = next else { continue };
            let Some(Item::Record(record)) = self.pairs.takes(event).then(|| reader.current()).flatten() else {
                continue;
            };
            let time = clamp(record.ns);
            match making.times {
                Some((_, newest)) if time < newest => return Ok(false),
                // A boundary divides the records by their times.
                Some((_, newest)) if time > newest && self.is_due(&making) => {
                    self.end_part(&mut making, time);
                    making.times = Some((time, time));
                }
                Some((first, _)) => making.times = Some((first, time)),
                None => making.times = Some((time, time)),
            }
            if !self.pairs.record(&record, |span| making.ended.push(span)) {
                return Ok(false);
            }
        }
        (self.give)(MadeSpans::Paths(making.flame.paths));
        Ok(true)
    }

    fn is_due(&self, making: &Making) -> bool {
        making.ended.len() >= self.spans && making.ended.len() >= ENDED_FOR_OPEN * self.pairs.open()
    }

    /// The part ends in front of a record of that time.
    fn end_part(&mut self, making: &mut Making, at: i64) {
        let Making { nesting, ended, times, flame, parts, flames, samples, latencies } = making;
        let (from, to) = times.unwrap_or((at, at));
        let ended = std::mem::take(ended);
        (samples.part.from, samples.part.to) = (Some(from), to);
        ended.iter().for_each(|of| samples.sample(SampleGroup::Span, Of::Span(of.span), &of.sample()));
        latencies.take(samples.take_part(|_| None), |made| {
            (self.give)(MadeSpans::Latencies(made));
            true
        });
        let flame = flame.part(from, &ended, self.pairs.begun());
        let mut part = SpanPart::new(from, to);
        let ended = ended.into_iter().map(|span| (span.tid, span));
        nesting.part(ended, self.pairs.begun(), |row, span, level| part.add(row, level, span));
        let fits = |part: &SpanPart| part.rows.len() <= ROWS_MAX;
        parts.take(
            Some(part).filter(fits),
            |parts| SpanPart::of(parts).filter(fits),
            |level, part| (self.give)(MadeSpans::Part(level, part.map(|part| (part.encode(), part.shift)))),
        );
        flames.take(
            Some(flame).filter(FlamePart::fits),
            |parts| FlamePart::of(parts).filter(FlamePart::fits),
            |level, part| (self.give)(MadeSpans::Flame(level, part.map(FlamePart::encode))),
        );
        (self.give)(MadeSpans::Over(at, put_waiting(at, &self.pairs.kept(nesting))));
    }
}
