// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies of a window from the index [spec/index.md 5.3], and from the records only where that has too little.

use kymo_analyze::{
    By, CallSpan, Doubt, Event, Head, InterruptSpan, Key, Of, OffSpan, Recorders, Sample, SampleGroup, Sampler, Sink,
    State, TakeSamples, Thread, ThreadSpan, Threads, What,
};
use kymo_feed::{Visit, recorders};
use kymo_index::{
    DamagedSums, LatencyPart, LatencyPlace, LatencySeries, LatencyStretch, PartSums, Pyramid, UnitContent,
};

use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::begun::damage_note;
use crate::questions::deeper::{FindLongest, complete};
use crate::questions::latencies::cut::{CutSeries, whole_key};
use crate::questions::latencies::only::Only;
use crate::questions::latencies::pass::{LatencyPass, LatencyRequest};
use crate::questions::latencies::spans::AskedSpans;
use crate::questions::slices::keep::kept;
use crate::questions::slices::read::KnownSpans;
use crate::questions::slices::rows::RowChoice;
use crate::walk::{Gather, Stop, TakePictures, Walk, Walked};

/// What is made of the index, or the choice, which is back again: records are to be read.
type Indexed<'o> = Result<(LatencyPass<'o>, Walked), Only<'o>>;

/// Whether the index has what is asked for.
fn has(walk: &Walk<'_>, asked: &LatencyRequest, only: &Only<'_>) -> bool {
    let is_on_grid = asked.bins.is_none_or(|bins| bins.shift().is_some() || bins.count() == 1);
    walk.is_all() && asked.by == By::default() && asked.past.is_none() && is_on_grid && only.is_of_series()
}

/// Answers from the index. `notes`: what is wrong with it.
pub(crate) fn indexed<'o>(
    of: &'o Opened,
    walk: &Walk<'o>,
    asked: &LatencyRequest,
    only: Only<'o>,
    notes: &mut Vec<String>,
    stop: &Stop,
) -> Result<Indexed<'o>, Error> {
    let window = walk.window();
    let states = of.indexes.states.as_ref().filter(|_| !window.is_empty() && has(walk, asked, &only));
    let Some(states) = states else { return Ok(Err(only)) };
    let of_index = states.spans.as_ref().and_then(|spans| AskedSpans::of(KnownSpans::of_threads(spans), &asked.spans));
    let mut chosen = None;
    if of_index.is_none() && !asked.spans.is_empty() {
        match kept(of, &asked.spans, &RowChoice::of_threads(&asked.spans)) {
            Ok(kept) => chosen = Some(kept),
            Err(note) => {
                notes.extend(note);
                return Ok(Err(only));
            }
        }
    }
    let kept = chosen.as_ref().and_then(|kept| AskedSpans::of(KnownSpans::of_kept(kept), &asked.spans));
    let spans = of_index.or(kept).filter(|_| !asked.spans.is_empty());
    if spans.is_none() && !asked.spans.is_empty() {
        return Ok(Err(only));
    }
    // Spans are not made of the records at the ends of the window.
    let mut pass = LatencyPass::new(of, &LatencyRequest { spans: Vec::new(), ..asked.clone() }, only)?;
    let mut found = of_kernel(of, &states.pyramid, (window, asked), &mut pass, stop)?;
    if let (Some(spans), Ok(Some(walked))) = (spans, &found) {
        match spans.add(of, window, (&mut pass, &walked.losses), stop)? {
            Ok(true) => {}
            Ok(false) => found = Ok(None),
            Err(damaged) => found = Err(damaged),
        }
    }
    match found {
        Ok(Some(walked)) => {
            pass.finish(&walked);
            return Ok(Ok((pass, walked)));
        }
        Ok(None) => {}
        Err(damaged) => notes.push(damage_note(damaged)),
    }
    Ok(Err(pass.only))
}

/// Takes all but users' spans. `Ok(None)`: the index does not have enough.
fn of_kernel<'o>(
    of: &'o Opened,
    pyramid: &'o Pyramid,
    (window, asked): (Window, &LatencyRequest),
    pass: &mut LatencyPass<'o>,
    stop: &Stop,
) -> Result<Result<Option<Walked>, DamagedSums>, Error> {
    let walk = Walk::new(of, window).until_last_record();
    if let Some(walked) = walk.of_programs().ok().flatten() {
        return Ok(Ok(Some(walked)));
    }
    let is_from_begin = window.from <= of.base();
    // Of one bin all columns are a part.
    let shift = asked.bins.and_then(|bins| bins.shift()).unwrap_or(u32::MAX);
    let mut gallery = match pyramid.latencies(window.pair(), is_from_begin, shift) {
        Ok(Some(gallery)) => gallery,
        Ok(None) => return Ok(Ok(None)),
        Err(damaged) => return Ok(Err(damaged)),
    };
    if asked.what == [What::Span] {
        // Of the kernel, threads and losses are of interest, which the sums have.
        gallery.stretches.clear();
    }
    (pass.pyramid, pass.from) = (Some(pyramid), Some(window.from).filter(|_| !is_from_begin));
    let walked = match walk.run_pictures(&gallery, pass, stop)? {
        Ok(walked) => walked,
        Err(damaged) => return Ok(Err(damaged)),
    };
    pass.drain();
    Ok(complete(&mut FindPoints { pass, of, pyramid }, stop)?.map(|is_whole| is_whole.then_some(walked)))
}

impl TakePictures<LatencyStretch> for LatencyPass<'_> {
    fn sums(&mut self, part: &PartSums) {
        self.people.of_part(part);
    }

    fn names_are_known(&mut self, are_known: bool) {
        self.are_named = are_known;
    }

    fn picture(&mut self, stretch: &LatencyStretch) -> Result<(), DamagedSums> {
        self.drain();
        let pyramid = self.pyramid.ok_or(DamagedSums)?;
        let part = pyramid.latencies_of(stretch, self.bins.is_some(), true)?;
        self.devices.extend(part.devices.iter().cloned());
        for of in &part.series {
            let is_chosen = self.series(of, part.shift);
            if of.is_cut && is_chosen {
                let (group, known_to) = (of.group, of.complete_to());
                self.cut.push(CutSeries { part: *stretch, from: part.from, group, of: of.of, known_to });
            }
        }
        self.past(&part);
        Ok(())
    }
}

impl LatencyPass<'_> {
    /// Takes a series of a part. Whether its samples can be points.
    pub(crate) fn series(&mut self, of: &LatencySeries, shift: u32) -> bool {
        let mut is_chosen = false;
        for (what, series) in of.group.series(of.of) {
            let key = whole_key(what, series);
            let is_counted = self.latency.add_sums(what, series, &of.sums) && self.only.takes_group(of.group);
            if !is_counted || !self.only.takes_series(&key, &self.devices) {
                continue;
            }
            is_chosen = true;
            self.points.samples = self.points.samples.saturating_add(of.sums.count());
            if let Some(bins) = &self.bins {
                for cell in &of.cells {
                    self.density.add(what, bins.of(cell.column << shift), cell.cell, cell.count);
                }
            }
            of.longest.iter().for_each(|sample| self.points.offer(key, *sample));
        }
        is_chosen
    }

    /// Takes what began before a part, and what has begun in it.
    fn past(&mut self, part: &LatencyPart) {
        for past in &part.past {
            // Of a request the begin must have been read.
            let is_request = matches!(past.group, SampleGroup::Block | SampleGroup::Net);
            if !(is_request && self.from.is_some_and(|from| past.sample.from < from)) {
                self.latency.past_sample(past.group, past.of, past.sample);
            }
        }
        self.drain();
        let sampler = self.latency.sampler();
        for request in &part.ended {
            sampler.end(request);
        }
        part.begun.iter().for_each(|(request, begun)| sampler.begin(request, *begun));
        part.lost_to.into_iter().for_each(|to| sampler.lost(to));
    }

    /// Offers a sample of a series, where it is not known yet.
    pub(crate) fn offer_beyond(&mut self, above: &CutSeries, sample: &Sample) {
        if above.known_to.is_none_or(|known| sample.rank() > known) && !sample.doubt.has(Doubt::IDLE) {
            self.offer(above.group, above.of, sample);
        }
    }

    /// Offers a sample that a longer part does not list.
    fn offer(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        for (what, of) in group.series(of) {
            let key = whole_key(what, of);
            if self.only.takes_group(group) && self.is_point(&key) {
                self.points.offer(key, *sample);
            }
        }
    }

    fn is_point(&mut self, key: &Key) -> bool {
        self.latency.wants(key.what) && self.only.takes_series(key, &self.devices)
    }

    /// Whether there may be a point among the samples of a series that are not known.
    pub(crate) fn may_have_points(&mut self, of: &CutSeries) -> bool {
        of.group.series(of.of).any(|(what, series)| {
            let key = whole_key(what, series);
            self.only.takes_group(of.group) && self.is_point(&key) && self.points.wants_behind(of.known_to, key)
        })
    }
}

/// The pass, and where it looks further.
struct FindPoints<'a, 'o> {
    pass: &'a mut LatencyPass<'o>,
    of: &'a Opened,
    pyramid: &'a Pyramid,
}

impl FindLongest for FindPoints<'_, '_> {
    type Place = LatencyPlace;
    type Cut = CutSeries;

    fn wanted(&mut self) -> Vec<CutSeries> {
        self.pass.points.cut();
        let mut all = std::mem::take(&mut self.pass.cut);
        all.retain(|series| self.pass.may_have_points(series));
        all
    }

    fn part_of(cut: &CutSeries) -> LatencyStretch {
        cut.part
    }

    fn content(&self, of: &LatencyStretch) -> Option<UnitContent<LatencyPlace>> {
        self.pyramid.within(of)
    }

    fn look_into(&mut self, all: &[CutSeries], part: &LatencyStretch) -> Result<(), DamagedSums> {
        look_into(self.pass, self.pyramid, all, part)
    }

    fn read_again(
        &mut self,
        all: &[CutSeries],
        window: (i64, i64),
        stop: &Stop,
    ) -> Result<Result<(), DamagedSums>, Error> {
        read_again(self.pass, self.of, all, window, stop).map(Ok)
    }
}

/// Takes what a part of a longer part lists and that does not.
fn look_into(
    pass: &mut LatencyPass<'_>,
    pyramid: &Pyramid,
    all: &[CutSeries],
    stretch: &LatencyStretch,
) -> Result<(), DamagedSums> {
    let part = pyramid.latencies_of(stretch, false, true)?;
    for above in all {
        let (group, of) = (above.group, above.of);
        // What began before this part, and not before the longer one, is among the sums of that.
        for past in
            part.past.iter().filter(|past| (past.group, past.of) == (group, of) && past.sample.from > above.from)
        {
            pass.offer_beyond(above, &past.in_longer_part());
        }
        let Some(series) = part.series.iter().find(|series| (series.group, series.of) == (group, of)) else { continue };
        series.longest.iter().for_each(|sample| pass.offer_beyond(above, sample));
        if series.is_cut {
            let known_to = series.complete_to().max(above.known_to);
            pass.cut.push(CutSeries { part: *stretch, from: part.from, group, of, known_to });
        }
    }
    Ok(())
}

/// Takes what a part of the lowest level does not list, from its records.
fn read_again(
    pass: &mut LatencyPass<'_>,
    of: &Opened,
    all: &[CutSeries],
    (from, to): (i64, i64),
    stop: &Stop,
) -> Result<(), Error> {
    let kinds: Vec<What> = What::ALL.iter().map(|(what, _)| *what).collect();
    let window = Window { from: from.max(of.base()), to };
    let found = Found { recorders: recorders(&of.traces), wanted: all, list: Vec::new() };
    let mut again = ReadAgain { sampler: Sampler::new(&kinds), found };
    Walk::new(of, window).run_open(&mut again, stop)?;
    again.found.list.iter().for_each(|(group, of, sample)| pass.offer(*group, *of, sample));
    Ok(())
}

/// Samples of a part that it does not list.
struct Found<'a> {
    recorders: Recorders,
    wanted: &'a [CutSeries],
    list: Vec<(SampleGroup, Of, Sample)>,
}

impl TakeSamples for Found<'_> {
    fn sample(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        let Some(wanted) = self.wanted.iter().find(|wanted| (wanted.group, wanted.of) == (group, of)) else { return };
        let is_known = wanted.known_to.is_some_and(|known| sample.rank() <= known);
        // What began before the part is listed.
        let is_past = group.is_of_past() && sample.from <= wanted.from;
        let is_own = group.is_of_thread() && self.recorders.own(sample.tid, sample.process, sample.name.as_str());
        if !is_known && !is_past && !is_own && !sample.doubt.has(Doubt::IDLE) {
            self.list.push((group, of, *sample));
        }
    }
}

/// A pass over the records of such a part.
struct ReadAgain<'a> {
    sampler: Sampler,
    found: Found<'a>,
}

impl Visit for ReadAgain<'_> {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for ReadAgain<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.sampler.event(head, event, state, &mut self.found);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.sampler.thread(span, thread, &mut self.found);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.sampler.interrupt(span, threads, &mut self.found);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.sampler.call(span, thread, &mut self.found);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.sampler.off(span, threads, &mut self.found);
    }

    fn lost(&mut self, _: Option<u32>, _: i64, to: i64) {
        self.sampler.lost(to);
    }
}

impl Gather for ReadAgain<'_> {}
