// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flame graph from the index [spec/index.md 5.5]. What has not ended at the end of the window is in none, and what
//! lies within it belongs to what that lies in: so parts in which such a span begins are read.

use std::collections::{BTreeMap, BTreeSet};

use kymo_index::{BegunSpan, DamagedSums, FlamePart, FlameSums, SpanStretch};

use crate::error::Error;
use crate::opened::Opened;
use crate::pixels::Pixels;
use crate::questions::flame::frames::Frames;
use crate::questions::slices::index::known;
use crate::questions::slices::open::Wanted;
use crate::questions::slices::parts::{OpenSlice, TakeSlices};
use crate::questions::slices::read::{Indexed, IndexedSlices, KnownSpans, SpanReader, TakeRead};
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;
use crate::walk::{Stop, Walk};

/// Of so many parts of the lowest level one is read at most: with more of them, all records are as soon read.
const READ_SHARE: usize = 4;
/// So many may be read of any window.
const READ_MIN: usize = 16;

/// Answers from the index. `Ok(Err(_))`: the records are to be read, as it is damaged, or has too little.
pub(crate) fn indexed(
    of: &Opened,
    spans: KnownSpans<'_>,
    (pixels, tids): (Pixels, &Option<Vec<i32>>),
    stop: &Stop,
) -> Result<Indexed<Frames>, Error> {
    let Some(read) = SpanReader::new(of, spans, Wanted { tids }).filter(|read| read.spans.is_of_threads()) else {
        return Ok(Err(None));
    };
    let mut frames = Frames::of_ended(pixels);
    match sum(&read, pixels, &mut frames, stop)? {
        Ok(true) => {}
        Ok(false) => return Ok(Err(None)),
        Err(damaged) => return Ok(Err(Some(damaged))),
    }
    let losses = known(&Walk::new(of, pixels.window()).in_pixels(pixels));
    Ok(losses.map(|losses| IndexedSlices { taken: frames, left_out: 0, losses }).ok_or(None))
}

/// Sums up a window. Whether the index has enough for that.
fn sum(
    read: &SpanReader<'_>,
    pixels: Pixels,
    frames: &mut Frames,
    stop: &Stop,
) -> Result<Result<bool, DamagedSums>, Error> {
    let (window, spans) = (pixels.window(), read.spans);
    let around = read.around(window);
    let begun = match read.part(around.tail, Some(window.to), &mut Nothing, stop)? {
        Ok(begun) => begun,
        Err(damaged) => return Ok(Err(damaged)),
    };
    let unended = Unended::of(&begun);
    let mut stretches = Vec::new();
    let mut first = around.parts.start;
    // No part has the begin of such a span within it.
    for part in begun.iter().map(|of| spans.part_of(of.from)).collect::<BTreeSet<usize>>() {
        if !around.parts.contains(&part) {
            continue;
        }
        stretches.extend(spans.flames(first..part));
        let is_within = |of: &OpenSlice| spans.part_of(of.from) == part && spans.times(part).0 != Some(of.from);
        first = part;
        if begun.iter().any(is_within) {
            stretches.push(SpanStretch::Records(part));
            first += 1;
        }
    }
    stretches.extend(spans.flames(first..around.parts.end));
    let is_read = |stretch: &&SpanStretch<_>| matches!(stretch, SpanStretch::Records(_));
    if stretches.iter().filter(is_read).count() > READ_MIN.max(around.parts.len() / READ_SHARE) {
        return Ok(Ok(false));
    }
    let mut known = Known { frames, unended: &unended };
    for stretch in around.head.map(SpanStretch::Records).into_iter().chain(stretches) {
        stop.check()?;
        let taken = match stretch {
            SpanStretch::Part(place) => spans.flame(&place).map(|part| known.sums(&part, read, pixels)),
            SpanStretch::Records(part) => read.part(part, spans.times(part).1, &mut known, stop)?.map(drop),
        };
        if let Err(damaged) = taken {
            return Ok(Err(damaged));
        }
    }
    Ok(read.part(around.tail, Some(window.to), &mut known, stop)?.map(|_| true))
}

/// What has begun and not ended at the end of the window, by thread, in the order of begins.
struct Unended(BTreeMap<Option<i32>, Vec<BegunSpan>>);

impl Unended {
    fn of(begun: &[OpenSlice]) -> Unended {
        let mut by_thread: BTreeMap<Option<i32>, Vec<BegunSpan>> = BTreeMap::new();
        begun.iter().for_each(|of| by_thread.entry(of.tid).or_default().push(of.begun()));
        by_thread.values_mut().for_each(|own| own.sort_by_key(|(_, from)| *from));
        Unended(by_thread)
    }

    fn has(&self, of: &OpenSlice) -> bool {
        self.0.get(&of.tid).is_some_and(|own| own.contains(&of.begun()))
    }

    /// A path of a thread's spans without those that begin up to a time and do not end.
    fn without(&self, tid: Option<i32>, path: Vec<u16>, from: i64) -> Vec<u16> {
        let own = self.0.get(&tid).map_or(&[][..], Vec::as_slice);
        let mut outer = own.iter().filter(|(_, begin)| *begin <= from).map(|(span, _)| *span).peekable();
        path.into_iter().filter(|span| outer.next_if_eq(span).is_none()).collect()
    }
}

/// Takes spans of which it is known which do not end.
struct Known<'k> {
    frames: &'k mut Frames,
    unended: &'k Unended,
}

impl Known<'_> {
    fn sums(&mut self, part: &FlamePart, read: &SpanReader<'_>, pixels: Pixels) {
        let path = |tid, path, from| self.unended.without(tid, read.spans.path(path), from);
        for ((tid, number), sums) in part.rows.iter().filter(|((tid, _), _)| read.wanted.has(*tid)) {
            self.frames.add(*tid, &path(*tid, *number, part.from), sums);
        }
        for of in part.crossing.iter().filter(|of| read.wanted.has(of.tid)) {
            let Some((from, to)) = pixels.cut(of.stretch.0, of.stretch.1) else { continue };
            let sums = FlameSums { total_ns: to.abs_diff(from), ..FlameSums::of(of.stretch) };
            self.frames.add(of.tid, &path(of.tid, of.path, of.stretch.0), &sums);
        }
        self.frames.leave_out(part.left_out);
    }
}

impl TakeSlices for Known<'_> {
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]) {
        let begun: Vec<OpenSlice> = begun.iter().filter(|of| !self.unended.has(of)).copied().collect();
        self.frames.part(ended, &begun);
    }
}

impl TakeRead for Known<'_> {
    fn resume(&mut self, _: Vec<(SliceRow, BegunSpan, u16)>) {
        self.frames.resume();
    }
}

/// Who wants to know only what has begun.
struct Nothing;

impl TakeSlices for Nothing {
    fn part(&mut self, _: Vec<Slice>, _: &[OpenSlice]) {}
}

impl TakeRead for Nothing {
    fn resume(&mut self, _: Vec<(SliceRow, BegunSpan, u16)>) {}
}
