// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies of users' spans from the index [spec/index.md 5.5]: a span counts if it lies in the window, and is
//! doubtful if records are missing between its begin and its end. So parts in which that may be are read.

use kymo_analyze::{Doubt, Of, Sample};
use kymo_index::{
    BegunSpan, DamagedSums, LatencyPart, LatencyPlace, LatencySeries, LatencyStretch, SpanStretch, UnitContent,
};

use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::deeper::{FindLongest, complete};
use crate::questions::latencies::cut::CutSeries;
use crate::questions::latencies::pass::LatencyPass;
use crate::questions::slices::open::Wanted;
use crate::questions::slices::parts::{OpenSlice, TakeSlices};
use crate::questions::slices::read::{KnownSpans, SpanReader, TakeRead};
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;
use crate::walk::{LossLog, Stop};

/// What spans of the index are in the answer.
pub(crate) struct AskedSpans<'o> {
    spans: KnownSpans<'o>,
    /// By number in the index: that in the question.
    numbers: Vec<Option<u16>>,
}

impl<'o> AskedSpans<'o> {
    /// Of texts of a question. `None`: the index does not have all of them.
    pub fn of(spans: KnownSpans<'o>, asked: &[String]) -> Option<AskedSpans<'o>> {
        let texts = spans.spans.texts();
        let mut numbers = vec![None; texts.len()];
        for (number, text) in asked.iter().enumerate() {
            let own = texts.iter().position(|own| own == text)?;
            // One that is asked for twice is counted twice.
            if numbers[own].replace(number as u16).is_some() {
                return None;
            }
        }
        Some(AskedSpans { spans, numbers })
    }

    /// What is known of spans, with the number of the question.
    fn number(&self, of: Of) -> Option<u16> {
        match of {
            Of::Span(span) => self.numbers.get(usize::from(span)).copied().flatten(),
            _ => None,
        }
    }

    /// Adds those of a window. Whether the index has enough for that.
    pub fn add(
        &self,
        of: &Opened,
        window: Window,
        (pass, losses): (&mut LatencyPass<'_>, &LossLog),
        stop: &Stop,
    ) -> Result<Result<bool, DamagedSums>, Error> {
        let Some(read) = SpanReader::new(of, self.spans, Wanted { tids: &None }) else { return Ok(Ok(false)) };
        let mut taken = TakenSpans { asked: self, pass, losses: LossTimes::of(losses), window, cut: Vec::new() };
        if let Err(damaged) = taken.sum(&read, stop)? {
            return Ok(Err(damaged));
        }
        complete(&mut FindSpans { taken: &mut taken, read: &read }, stop)
    }
}

/// When losses begin, in that order, and up to when records are missing by then; ns.
struct LossTimes(Vec<(i64, i64)>);

impl LossTimes {
    fn of(losses: &LossLog) -> LossTimes {
        let mut all: Vec<(i64, i64)> = losses.list().iter().map(|loss| (loss.all.from, loss.all.to)).collect();
        all.sort_unstable();
        let mut until = i64::MIN;
        for (_, to) in &mut all {
            until = until.max(*to);
            *to = until;
        }
        LossTimes(all)
    }

    /// Whether records are missing between two times: as [`kymo_analyze::LostUntil`] has it.
    fn touch(&self, from: i64, to: i64) -> bool {
        let begun = self.0.partition_point(|(begin, _)| *begin < to);
        begun.checked_sub(1).is_some_and(|last| self.0[last].1 > from)
    }
}

/// Takes spans into a pass over latencies.
struct TakenSpans<'a, 'v> {
    asked: &'a AskedSpans<'a>,
    pass: &'a mut LatencyPass<'v>,
    losses: LossTimes,
    window: Window,
    cut: Vec<CutSeries>,
}

impl TakenSpans<'_, '_> {
    fn sum(&mut self, read: &SpanReader<'_>, stop: &Stop) -> Result<Result<(), DamagedSums>, Error> {
        let (around, spans) = (read.around(self.window), read.spans);
        let shift = self.pass.bins.and_then(|bins| bins.shift()).unwrap_or(u32::MAX);
        let is_known = |(from, to): (Option<i64>, Option<i64>)| {
            !self.losses.touch(from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX))
        };
        let stretches = spans.latencies(around.parts, shift, is_known);
        let head = around.head.map(SpanStretch::Records);
        for stretch in head.into_iter().chain(stretches) {
            stop.check()?;
            let taken = match stretch {
                SpanStretch::Part(place) => {
                    spans.latencies_of(&place, self.pass.bins.is_some()).map(|part| self.part(place, part))
                }
                SpanStretch::Records(part) => read.part(part, spans.times(part).1, self, stop)?.map(drop),
            };
            if let Err(damaged) = taken {
                return Ok(Err(damaged));
            }
        }
        Ok(read.part(around.tail, Some(self.window.to), self, stop)?.map(drop))
    }

    fn part(&mut self, stretch: LatencyStretch, part: LatencyPart) {
        for of in part.series {
            let Some(span) = self.asked.number(of.of) else { continue };
            let own = LatencySeries { of: Of::Span(span), ..of };
            if self.pass.series(&own, part.shift) && own.is_cut {
                let (group, known_to) = (own.group, own.complete_to());
                self.cut.push(CutSeries { part: stretch, from: part.from, group, of: own.of, known_to });
            }
        }
        for past in part.past {
            self.one(past.of, past.sample);
        }
    }

    /// Takes a sample, if it is of the window. `of`: as the index has it.
    fn one(&mut self, of: Of, sample: Sample) {
        let Some(span) = self.asked.number(of).filter(|_| sample.from >= self.window.from) else { return };
        let doubt = sample.doubt | Doubt::LOST.when(self.losses.touch(sample.from, sample.to));
        self.pass.latency.whole_span(span, &Sample { doubt, ..sample });
        self.pass.drain();
    }
}

impl TakeSlices for TakenSpans<'_, '_> {
    fn part(&mut self, ended: Vec<Slice>, _: &[OpenSlice]) {
        for slice in ended {
            self.one(Of::Span(slice.span), slice.sample());
        }
    }
}

impl TakeRead for TakenSpans<'_, '_> {
    fn resume(&mut self, _: Vec<(SliceRow, BegunSpan, u16)>) {}
}

/// Looks for the longest that parts do not list.
struct FindSpans<'a, 'b, 'v> {
    taken: &'a mut TakenSpans<'b, 'v>,
    read: &'a SpanReader<'a>,
}

impl FindLongest for FindSpans<'_, '_, '_> {
    type Place = LatencyPlace;
    type Cut = CutSeries;

    fn wanted(&mut self) -> Vec<CutSeries> {
        let pass = &mut *self.taken.pass;
        pass.points.cut();
        let mut all = std::mem::take(&mut self.taken.cut);
        all.retain(|series| pass.may_have_points(series));
        all
    }

    fn part_of(cut: &CutSeries) -> LatencyStretch {
        cut.part
    }

    fn content(&self, of: &LatencyStretch) -> Option<UnitContent<LatencyPlace>> {
        self.read.spans.within(of)
    }

    fn look_into(&mut self, all: &[CutSeries], part: &LatencyStretch) -> Result<(), DamagedSums> {
        let content = self.read.spans.latencies_of(part, false)?;
        for above in all {
            let is_of = |of: Of| self.taken.asked.number(of).map(Of::Span) == Some(above.of);
            // What began before this part, and not before the longer one, is among the sums of that.
            let past = content.past.iter().filter(|past| is_of(past.of) && past.sample.from > above.from);
            let Some(series) = content.series.iter().find(|series| is_of(series.of)) else {
                past.for_each(|past| self.taken.pass.offer_beyond(above, &past.sample));
                continue;
            };
            let all = past.map(|past| &past.sample).chain(&series.longest);
            all.for_each(|sample| self.taken.pass.offer_beyond(above, sample));
            if series.is_cut {
                let known_to = series.complete_to().max(above.known_to);
                self.taken.cut.push(CutSeries { part: *part, from: content.from, known_to, ..above.clone() });
            }
        }
        Ok(())
    }

    fn read_again(
        &mut self,
        all: &[CutSeries],
        (from, _): (i64, i64),
        stop: &Stop,
    ) -> Result<Result<(), DamagedSums>, Error> {
        let part = self.read.spans.part_of(from);
        let mut again = AgainSpans { taken: self.taken, all };
        Ok(self.read.part(part, self.read.spans.times(part).1, &mut again, stop)?.map(drop))
    }
}

/// Takes what a part of the lowest level does not list.
struct AgainSpans<'a, 'b, 'v> {
    taken: &'a mut TakenSpans<'b, 'v>,
    all: &'a [CutSeries],
}

impl TakeSlices for AgainSpans<'_, '_, '_> {
    fn part(&mut self, ended: Vec<Slice>, _: &[OpenSlice]) {
        for slice in ended {
            let of = self.taken.asked.number(Of::Span(slice.span)).map(Of::Span);
            let wanted = self.all.iter().find(|wanted| Some(wanted.of) == of);
            // What began before the part is listed.
            if let Some(wanted) = wanted.filter(|wanted| slice.from > wanted.from) {
                self.taken.pass.offer_beyond(wanted, &slice.sample());
            }
        }
    }
}

impl TakeRead for AgainSpans<'_, '_, '_> {
    fn resume(&mut self, _: Vec<(SliceRow, BegunSpan, u16)>) {}
}
