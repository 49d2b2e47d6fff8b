// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans as they end, made into parts of all levels [spec/index.md 5.5]: for the index of a trace, and for spans that
//! somebody chose.

use kymo_analyze::{Of, Recorders, SampleGroup, TakeSamples};

use crate::latencies::maker::{LatencyMaker, MadeLatencies};
use crate::latencies::samples_taken::SamplesTaken;
use crate::spans::flame::{FlameMaker, FlamePart, FlamePath};
use crate::spans::nesting::{BegunSpan, NestedSpan, Nesting};
use crate::spans::part::{SpanEnd, SpanPart, SpanRow};

/// Parts of a level that are one of the next.
pub(crate) const SPAN_FAN_OUT: usize = 4;
/// Spans that end in a part for each that is open at its end, at least: what is open is kept for each part.
const ENDED_FOR_OPEN: usize = 4;
/// Rows of a part at most. A part with more is read.
const ROWS_MAX: usize = 1 << 16;

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
    fn take(&mut self, part: Option<P>, of: impl Fn(&[P]) -> Option<P>, mut give: impl FnMut(usize, Option<&P>)) {
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

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    /// Where it is drawn.
    pub row: SpanRow,
    /// The thread that began it.
    pub tid: Option<i32>,
    /// The number of its pair, and its begin, ns.
    pub of: BegunSpan,
}

/// A span that has ended, in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSpan {
    /// Where it is drawn.
    pub row: SpanRow,
    /// The thread that began it.
    pub begun_by: Option<i32>,
    /// What its end tells.
    pub span: SpanEnd,
}

impl NestedSpan for RowSpan {
    fn span(&self) -> u16 {
        self.span.span
    }

    fn stretch(&self) -> (i64, i64) {
        self.span.stretch()
    }
}

/// On its way.
pub(crate) struct SpanParts {
    /// Spans of a part, at least.
    least: usize,
    pub nesting: Nesting<SpanRow>,
    ended: Vec<RowSpan>,
    /// Time of the first record of the part, and of the newest, ns.
    times: Option<(i64, i64)>,
    flame: FlameMaker,
    parts: Rising<SpanPart>,
    flames: Rising<FlamePart>,
    samples: SamplesTaken,
    latencies: LatencyMaker,
}

impl SpanParts {
    /// Recorders' own spans are no latencies.
    pub fn new(least: usize, recorders: Recorders) -> SpanParts {
        let (nesting, ended, flame) = (Nesting::default(), Vec::new(), FlameMaker::default());
        let (parts, flames) = (Rising(Vec::new()), Rising(Vec::new()));
        let (samples, latencies) = (SamplesTaken::new(recorders), LatencyMaker::new(SPAN_FAN_OUT));
        SpanParts { least, nesting, ended, times: None, flame, parts, flames, samples, latencies }
    }

    /// Whether the part is over in front of a record of this time, when so many are open; `None`: times go back. A
    /// boundary divides the records by their times.
    pub fn is_over(&self, time: i64, open: impl FnOnce() -> usize) -> Option<bool> {
        let Some((_, newest)) = self.times else { return Some(false) };
        let ended = self.ended.len();
        (time >= newest).then(|| time > newest && ended >= self.least && ended >= ENDED_FOR_OPEN * open())
    }

    /// The part has a record of this time.
    pub fn reach(&mut self, time: i64) {
        self.times = Some((self.times.map_or(time, |(first, _)| first), time));
    }

    /// A span of the part has ended.
    pub fn end(&mut self, span: RowSpan) {
        self.ended.push(span);
    }

    /// The part ends in front of a record of that time; `begun` has not ended by then. All of its spans, those
    /// of a row in the order of their begins.
    pub fn end_part(&mut self, at: i64, begun: &[OpenSpan], mut give: impl FnMut(MadeSpans)) -> Vec<RowSpan> {
        let (from, to) = self.times.take().unwrap_or((at, at));
        let ended = std::mem::take(&mut self.ended);
        (self.samples.part.from, self.samples.part.to) = (Some(from), to);
        for RowSpan { span: of, .. } in &ended {
            self.samples.sample(SampleGroup::Span, Of::Span(of.span), &of.sample());
        }
        self.latencies.take(self.samples.take_part(|_| None), |made| {
            give(MadeSpans::Latencies(made));
            true
        });
        let by_thread: Vec<SpanEnd> = ended.iter().map(|of| of.span).collect();
        let flame = self.flame.part(from, &by_thread, begun.iter().map(|open| (open.tid, open.of)));
        let mut part = SpanPart::new(from, to);
        let whole = self.nest(ended, begun, |level, of| part.add(of.row, level, of.span));
        let fits = |part: &SpanPart| part.rows.len() <= ROWS_MAX;
        self.parts.take(
            Some(part).filter(fits),
            |parts| SpanPart::of(parts).filter(fits),
            |level, part| give(MadeSpans::Part(level, part.map(|part| (part.encode(), part.shift)))),
        );
        self.flames.take(
            Some(flame).filter(FlamePart::fits),
            |parts| FlamePart::of(parts).filter(FlamePart::fits),
            |level, part| give(MadeSpans::Flame(level, part.map(FlamePart::encode))),
        );
        whole
    }

    /// What comes behind the last boundary of parts, in that order.
    pub fn rest(&mut self, begun: &[OpenSpan]) -> Vec<RowSpan> {
        let ended = std::mem::take(&mut self.ended);
        self.nest(ended, begun, |_, _| {})
    }

    fn nest(&mut self, ended: Vec<RowSpan>, begun: &[OpenSpan], mut take: impl FnMut(u16, &RowSpan)) -> Vec<RowSpan> {
        let mut whole = Vec::with_capacity(ended.len());
        let begun = begun.iter().map(|open| (open.row, open.of));
        self.nesting.part(ended.into_iter().map(|of| (of.row, of)), begun, |_, of, level| {
            take(level, &of);
            whole.push(of);
        });
        whole
    }

    /// All paths, by number.
    pub fn paths(self) -> Vec<FlamePath> {
        self.flame.paths
    }
}
