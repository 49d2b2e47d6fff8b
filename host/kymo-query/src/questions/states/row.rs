// SPDX-License-Identifier: MIT OR Apache-2.0
//! The row of one thread: stretches and mixed pixels of what it did, and its system calls [spec/view.md 4.6]; from
//! records or from the index.

use kymo_analyze::{CallId, Doing, Doubt, Thread};
use kymo_index::{EVER, Last, Late as LateWait, Long, Shown, ShownCall, ThreadPicture};

use crate::doing::{self, Calls, STATES};
use crate::pixels::{PixelRow, Pixels, Stretch};

/// A stretch of a thread that is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateStretch {
    pub from: i64,
    pub to: i64,
    pub doing: Doing,
    pub open: bool,
    pub doubt: Doubt,
}

/// A system call that is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallShown {
    pub from: i64,
    pub to: i64,
    pub call: CallId,
    pub value: Option<i64>,
    pub blocked: bool,
    pub doubt: Doubt,
}

/// Time in calls of one pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPixel {
    pub pixel: u32,
    pub ns: u64,
    pub count: u32,
}

/// All of one thread.
#[derive(Default)]
pub(crate) struct ThreadRow {
    /// Up to when the row is filled, ns; none: there was no stretch yet.
    at: Option<i64>,
    /// What it did last.
    last: Option<Doing>,
    /// Since when nothing is known of it, or since when it is over, where that is so in front of the window, ns.
    absent_since: Option<i64>,
    pub row: PixelRow<{ STATES.len() }>,
    pub spans: Vec<StateStretch>,
    pub calls: Vec<CallShown>,
    pub in_pixels: Vec<InPixel>,
    /// Of pixels on a grid: the longest of those that end in each.
    pub late: Vec<LateWait>,
}

impl ThreadRow {
    pub fn add(&mut self, pixels: &Pixels, states: &Calls, shown: StateStretch) {
        let at = self.filled(pixels);
        if shown.from > at {
            let is_absent = shown.doing == Doing::Forked || self.last == Some(Doing::Ended);
            self.gap(pixels, at, shown.from, is_absent);
        }
        (self.at, self.last) = (Some(shown.to.max(at)), Some(shown.doing));
        let state = states.state(&shown.doing);
        let stretch = Stretch { from: shown.from, to: shown.to, state, tid: None, doubt: shown.doubt };
        if self.row.add(pixels, &stretch) {
            self.spans.push(shown);
        }
    }

    /// What the trace knows of it in front of the window. It shows no stretch of which nothing is known, and none of a
    /// thread that is over: the row fills these, from where they begin.
    pub fn begin(&mut self, thread: Option<&Thread>, begin_of_trace: i64) {
        self.absent_since = match thread {
            None => Some(begin_of_trace),
            Some(thread) if thread.doing == Doing::Unknown && thread.doubt.has(Doubt::START) => Some(begin_of_trace),
            Some(thread) => matches!(thread.doing, Doing::Unknown | Doing::Ended).then_some(thread.since),
        };
        self.last = thread.map(|thread| thread.doing).filter(|doing| *doing == Doing::Ended);
    }

    fn filled(&self, pixels: &Pixels) -> i64 {
        let from = pixels.window().from;
        self.at.unwrap_or(self.absent_since.map_or(from, |since| since.min(from)))
    }

    /// Nothing is known, or there is no thread.
    fn gap(&mut self, pixels: &Pixels, from: i64, to: i64, is_absent: bool) {
        let doing = if is_absent { Doing::Ended } else { Doing::Unknown };
        let state = if is_absent { doing::ABSENT } else { doing::UNKNOWN };
        let stretch = Stretch { from, to, state, tid: None, doubt: Doubt::NONE };
        if self.row.add(pixels, &stretch) {
            self.spans.push(StateStretch { from, to, doing, open: false, doubt: Doubt::NONE });
        }
    }

    pub fn call(&mut self, pixels: &Pixels, call: CallShown) {
        if pixels.shows(call.to.abs_diff(call.from)) {
            return self.calls.push(call);
        }
        pixels.each(call.from, call.to, |pixel, ns| match self.in_pixels.last_mut() {
            Some(last) if last.pixel == pixel => {
                last.ns += ns;
                last.count = last.count.saturating_add(1);
            }
            _ => self.in_pixels.push(InPixel { pixel, ns, count: 1 }),
        });
    }

    /// Takes what the index has of a part of the window: first what was before it was born.
    pub fn born(&mut self, pixels: &Pixels, born: &Long<Doing>) {
        let begin = self.filled(pixels);
        self.gap(pixels, begin, born.to, born.what == Doing::Ended);
    }

    /// What its row shows.
    #[inline]
    pub fn shown(&mut self, pixels: &Pixels, shown: Shown<'_, Doing, { STATES.len() }>) {
        match shown {
            Shown::Cell(cell) => self.row.column(pixels, cell),
            Shown::Part(part) => self.row.part_of_pixel(pixels, &part),
            Shown::Long(long) if pixels.covers(long.from, long.to) => {
                let (from, to, doing, doubt) = (long.from, long.to, long.what, long.doubt);
                self.spans.push(StateStretch { from, to, doing, open: false, doubt });
            }
            Shown::Long(_) => {}
        }
    }

    /// Behind its row.
    pub fn end(&mut self, of: &ThreadPicture) {
        self.at = self.at.max(Some(of.end).filter(|end| *end > EVER));
        self.last = Some(match of.last {
            Last::Ended => Doing::Ended,
            Last::Running => Doing::Running { cpu: 0 },
            Last::Other => Doing::Unknown,
        });
    }

    /// A part of a call, or calls of a pixel.
    fn in_pixel(&mut self, pixel: Option<u32>, ns: u64, touches_behind: impl Fn(u32) -> u32) {
        let Some(pixel) = pixel else { return };
        match self.in_pixels.last_mut() {
            Some(last) if last.pixel == pixel => {
                last.ns = last.ns.saturating_add(ns);
                last.count = last.count.saturating_add(touches_behind(last.count));
            }
            _ => self.in_pixels.push(InPixel { pixel, ns, count: touches_behind(0) }),
        }
    }

    /// Calls of a part of the window.
    pub fn calls(&mut self, pixels: &Pixels, shift: u32, of: &ThreadPicture) {
        of.each_call(shift, |shown| match shown {
            ShownCall::Cell(cell) => {
                self.in_pixel(pixels.of_column(cell.from), cell.ns[0], |before| cell.touches_behind(before));
            }
            ShownCall::Part(part) => {
                self.in_pixel(pixels.of_column(part.from), part.ns, |before| part.touches_behind(before));
            }
            ShownCall::Long(of) => {
                let (from, to, call, value) = (of.from, of.to, of.call, Some(of.value));
                self.calls.push(CallShown { from, to, call, value, blocked: of.blocked, doubt: of.doubt });
            }
        });
    }

    /// Fills the row up to the end.
    pub fn finish(&mut self, pixels: &Pixels) {
        let (at, to) = (self.filled(pixels), pixels.window().to);
        if at < to {
            self.gap(pixels, at, to, matches!(self.last, Some(Doing::Ended | Doing::Running { .. })));
        }
    }
}
