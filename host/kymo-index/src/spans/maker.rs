// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the spans of parts from the streams of programs, while an index is built [spec/index.md 5.5].

use kymo_analyze::Recorders;
use kymo_ctf::read::{Item, Passed, Range, Reader, Start, Trace};
use kymo_feed::clamp;

use crate::build::stop::Stop;
use crate::error::Error;
use crate::spans::bytes::put_waiting;
use crate::spans::pairs::SpanPairs;
use crate::spans::parts::{MadeSpans, OpenSpan, RowSpan, SpanParts};

/// Records between two looks whether it shall go on.
const LOOK_EVERY: u32 = 4096;

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

impl SpanMaker<'_> {
    /// Goes through the streams that have such records. False: nothing can be made of them, as times go back, or a
    /// record does not say who wrote it.
    pub fn make(mut self, trace: &Trace, is_read: &[bool]) -> Result<bool, Error> {
        let starts: Vec<Start> = is_read.iter().map(|read| if *read { Start::Begin } else { Start::Skip }).collect();
        let traces = std::slice::from_ref(trace);
        let Some(mut reader) = Reader::between(traces, Range::default(), &starts) else { return Ok(false) };
        let (mut parts, mut passed) = (SpanParts::new(self.spans, std::mem::take(&mut self.recorders)), 0u32);
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
            match parts.is_over(time, || self.pairs.open()) {
                None => return Ok(false),
                Some(true) => self.end_part(&mut parts, time),
                Some(false) => {}
            }
            parts.reach(time);
            if !self.pairs.record(&record, |span| parts.end(RowSpan { row: span.tid, begun_by: span.tid, span })) {
                return Ok(false);
            }
        }
        (self.give)(MadeSpans::Paths(parts.paths()));
        Ok(true)
    }

    /// The part ends in front of a record of that time.
    fn end_part(&mut self, parts: &mut SpanParts, at: i64) {
        let begun: Vec<OpenSpan> = self.pairs.begun().map(|(tid, of)| OpenSpan { row: tid, tid, of }).collect();
        parts.end_part(at, &begun, self.give);
        (self.give)(MadeSpans::Over(at, put_waiting(at, &self.pairs.kept(&parts.nesting))));
    }
}
