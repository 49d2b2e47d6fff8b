// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of a flame graph [spec/view.md 4.18]: spans that lie within the same ones are summed up.

#[cfg(test)]
mod tests;

use kymo_analyze::hash::Map;
use kymo_index::{BegunSpan, FLAME_DEPTH_MAX, FlameSums, WaitingPlaces, divided, longer, within};

use crate::columns::{Answer, Table};
use crate::pixels::Pixels;
use crate::questions::slices::parts::{OpenSlice, TakeSlices};
use crate::questions::slices::slice::Slice;

/// Frames that an answer has at most.
const FRAMES_MAX: usize = 8192;

/// Frames at a time, with those of spans that have not ended.
const MADE_MAX: usize = 8 * FRAMES_MAX;

/// Spans of one kind, within the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlameFrame {
    parent: Option<u32>,
    span: u16,
    depth: u16,
    /// In the window, with what lies within.
    total_ns: u64,
    /// Of that, what lies within others.
    within_ns: u64,
    count: u64,
    /// The longest, whole, and its thread.
    longest: ((i64, i64), Option<i32>),
}

impl FlameFrame {
    fn new(parent: Option<u32>, span: u16) -> FlameFrame {
        FlameFrame { parent, span, depth: 0, total_ns: 0, within_ns: 0, count: 0, longest: ((0, 0), None) }
    }

    /// Adds the sums of another frame.
    fn add(&mut self, other: &FlameFrame) {
        let is_first = |own: ((i64, i64), Option<i32>)| longer(own.0, other.longest.0) == own.0;
        // Of equal ones that of the lowest thread.
        let is_lowest = self.longest.0 != other.longest.0 || self.longest.1 <= other.longest.1;
        if other.count > 0 && !(self.count > 0 && is_first(self.longest) && is_lowest) {
            self.longest = other.longest;
        }
        self.total_ns += other.total_ns;
        self.within_ns += other.within_ns;
        self.count += other.count;
    }
}

/// The frames, parents before what lies within them.
pub(crate) struct Frames {
    pixels: Pixels,
    list: Vec<FlameFrame>,
    /// Those that spans of one kind share, but for those that had not ended at the end of a part.
    index: Map<(Option<u32>, u16), u32>,
    /// By thread: what has begun and not ended, each with a frame of its own.
    waiting: Map<Option<i32>, WaitingPlaces<u32>>,
    /// Whatever has begun is known to end in the window.
    all_end: bool,
    /// How many there were when those of one kind were joined.
    joined: usize,
    /// Spans that had no place.
    left_out: u64,
}

impl Frames {
    pub(crate) fn new(pixels: Pixels) -> Frames {
        let (list, index, waiting) = (Vec::new(), Map::default(), Map::default());
        Frames { pixels, list, index, waiting, all_end: false, joined: 0, left_out: 0 }
    }

    /// Without a span. Whatever will have begun ends in the window.
    pub(crate) fn of_ended(pixels: Pixels) -> Frames {
        Frames { all_end: true, ..Frames::new(pixels) }
    }

    /// What comes now goes on somewhere else: what has begun is told of anew.
    pub(crate) fn resume(&mut self) {
        self.waiting.clear();
    }

    /// Adds spans of a thread that lie within others: the pairs of these and of their own, the outermost first.
    pub(crate) fn add(&mut self, tid: Option<i32>, path: &[u16], sums: &FlameSums) {
        let (mut at, mut parent) = (None, None);
        for span in path {
            parent = at;
            at = self.frame(at, *span, true);
            if at.is_none() {
                self.left_out += sums.count;
                return;
            }
        }
        let Some((at, span)) = at.zip(path.last()) else { return };
        let FlameSums { count, total_ns, longest } = *sums;
        self.list[at as usize].add(&FlameFrame {
            total_ns,
            count,
            longest: (longest, tid),
            ..FlameFrame::new(None, *span)
        });
        if let Some(parent) = parent {
            self.list[parent as usize].within_ns += total_ns;
        }
    }

    /// Spans for which there was no place.
    pub(crate) fn leave_out(&mut self, spans: u64) {
        self.left_out = self.left_out.saturating_add(spans);
    }

    /// The spans of one thread.
    fn thread(&mut self, tid: Option<i32>, ended: Vec<Slice>, begun: &[BegunSpan]) {
        let mut waiting = self.waiting.remove(&tid).unwrap_or_default();
        let (pixels, all_end) = (self.pixels, self.all_end);
        let cut = |slice: &Slice| pixels.cut(slice.from, slice.to);
        let all = waiting.next(ended, begun);
        let places = within(&all, !all_end, |parent, span, of| match of.map(|of| &of.ended) {
            Some(Some(slice)) if cut(slice).is_none() => None,
            Some(None) => self.frame(parent, span, all_end),
            _ => self.frame(parent, span, true),
        });
        for (of, frame) in all.iter().zip(places) {
            match (&of.ended, frame) {
                (None, Some(frame)) if !all_end => waiting.keep((of.span, of.from), frame),
                (Some(slice), frame) => match (cut(slice), frame) {
                    (Some((from, to)), Some(frame)) => self.spend(frame, slice, to.abs_diff(from)),
                    (Some(_), None) => self.left_out += 1,
                    (None, _) => {}
                },
                (None, _) => {}
            }
        }
        if !waiting.is_empty() {
            self.waiting.insert(tid, waiting);
        }
    }

    /// The frame of spans within a parent, shared with others of the kind or not; none where there is no room.
    fn frame(&mut self, parent: Option<u32>, span: u16, is_shared: bool) -> Option<u32> {
        if let Some(at) = self.index.get(&(parent, span)).filter(|_| is_shared) {
            return Some(*at);
        }
        let depth = parent.map_or(0, |parent| self.list[parent as usize].depth + 1);
        if self.list.len() >= MADE_MAX || depth >= FLAME_DEPTH_MAX {
            return None;
        }
        let at = self.list.len() as u32;
        if is_shared {
            self.index.insert((parent, span), at);
        }
        self.list.push(FlameFrame { depth, ..FlameFrame::new(parent, span) });
        Some(at)
    }

    /// Adds a span to its frame.
    fn spend(&mut self, at: u32, slice: &Slice, ns: u64) {
        let longest = ((slice.from, slice.to), slice.tid);
        self.list[at as usize].add(&FlameFrame {
            total_ns: ns,
            count: 1,
            longest,
            ..FlameFrame::new(None, slice.span)
        });
        if let Some(parent) = self.list[at as usize].parent {
            self.list[parent as usize].within_ns += ns;
        }
    }

    /// Joins frames of one kind, but for those of spans that have not ended. What lies within one that never ended is
    /// its parent's.
    fn join(&mut self) {
        let mut waits = vec![false; self.list.len()];
        self.waiting.values().flat_map(WaitingPlaces::iter).for_each(|(_, at)| waits[at as usize] = true);
        let mut all = Frames::new(self.pixels);
        let mut places: Vec<Option<u32>> = Vec::with_capacity(self.list.len());
        for (frame, waits) in self.list.iter().zip(waits) {
            let parent = frame.parent.and_then(|parent| places[parent as usize]);
            let is_over = frame.count == 0 && !waits;
            let place = if is_over { parent } else { all.frame(parent, frame.span, !waits) };
            places.push(place);
            match place {
                Some(at) if is_over => all.list[at as usize].within_ns += frame.within_ns,
                Some(at) => all.list[at as usize].add(frame),
                None => {}
            }
        }
        self.waiting.values_mut().for_each(|waiting| waiting.move_to(|at| places[at as usize]));
        (self.joined, self.list, self.index) = (all.list.len(), all.list, all.index);
    }

    /// The frames of spans that have ended.
    fn finish(&mut self) {
        self.waiting.clear();
        self.join();
        let beyond = self.list.iter().skip(FRAMES_MAX).map(|frame| frame.count).sum::<u64>();
        self.left_out += beyond;
        self.list.truncate(FRAMES_MAX);
    }
}

impl Frames {
    /// Adds what they are to an answer.
    pub(crate) fn tell(mut self, answer: &mut Answer) {
        self.finish();
        answer.set("frames_left_out", self.left_out);
        let all = || self.list.iter();
        let table = Table::new("frames")
            .column("parent", all().map(|frame| frame.parent))
            .column("span", all().map(|frame| frame.span))
            .column("depth", all().map(|frame| frame.depth))
            .column("total_ns", all().map(|frame| frame.total_ns))
            .column("self_ns", all().map(|frame| frame.total_ns.saturating_sub(frame.within_ns)))
            .column("count", all().map(|frame| frame.count))
            .column("longest_from", all().map(|frame| answer.time(frame.longest.0.0)))
            .column("longest_to", all().map(|frame| answer.time(frame.longest.0.1)))
            .column("longest_tid", all().map(|frame| frame.longest.1));
        answer.push(table);
    }
}

impl TakeSlices for Frames {
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]) {
        // How long an open one is, is not known.
        let ended = ended.into_iter().filter(|slice| !slice.open).map(|slice| (slice.tid, slice));
        let begun = begun.iter().map(|of| (of.tid, of.begun()));
        for (tid, (ended, begun)) in divided(ended, begun, self.waiting.keys().copied().collect::<Vec<_>>()) {
            self.thread(tid, ended, &begun);
        }
        if !self.all_end && self.list.len() > 2 * self.joined + FRAMES_MAX {
            self.join();
        }
    }
}
