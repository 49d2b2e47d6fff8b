// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stretches of time drawn into columns of pixels [spec/view.md 3, 4]: a pixel within one stretch belongs to it, and of
//! all others the shares of each state are counted, to the nanosecond.

use kymo_analyze::Doubt;
use kymo_analyze::hash::Map;
use kymo_index::{Cell, Levels, Part};

use crate::parameters::Window;

/// A window in columns of pixels, or in bins.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    window: Window,
    count: u32,
    grid: Option<Grid>,
}

/// Edges of pixels that are multiples of a power of two of ns. The window's ends are edges, too.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Where the first pixel would begin, ns: the window may begin in it, where the trace does.
    origin: i64,
    /// A pixel has 2 to the power of this many ns.
    shift: u32,
}

impl Pixels {
    /// So many columns.
    pub fn new(window: Window, count: u32) -> Pixels {
        Pixels { window, count: count.max(1), grid: None }
    }

    /// Columns of the power of two of ns that is nearest to so many columns of the window. The window grows to their
    /// edges, as far as `bounds` lets it.
    pub fn on_grid(window: Window, count: u32, bounds: (i64, i64)) -> Pixels {
        let ns = (window.ns() / u64::from(count.max(1))).max(1);
        let is_nearer_to_next = u128::from(ns) * u128::from(ns) >= 2 << (2 * ns.ilog2());
        let shift = ns.ilog2() + u32::from(is_nearer_to_next);
        let origin = window.from >> shift << shift;
        let columns = window.to.saturating_sub(1).abs_diff(origin) >> shift;
        let count = u32::try_from(columns).unwrap_or(u32::MAX - 1) + 1;
        let end = origin.saturating_add_unsigned(u64::from(count) << shift);
        let window = match window.is_empty() {
            true => window,
            false => Window { from: origin.max(bounds.0), to: end.min(bounds.1).max(window.to) },
        };
        Pixels { window, count, grid: Some(Grid { origin, shift }) }
    }

    /// Of pixels on a grid: the power of two that is their length, ns.
    pub fn shift(&self) -> Option<u32> {
        self.grid.map(|grid| grid.shift)
    }

    /// Where the first pixel would begin and the last one end, ns, wherever the trace does.
    pub fn frame(&self) -> (i64, i64) {
        match self.grid {
            Some(Grid { origin, shift }) => (origin, origin.saturating_add_unsigned(u64::from(self.count) << shift)),
            None => self.window.pair(),
        }
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Where pixel `pixel` begins, and the one before it ends, ns.
    pub fn edge(&self, pixel: u32) -> i64 {
        if let Some(Grid { origin, shift }) = self.grid {
            let edge = origin.saturating_add_unsigned(u64::from(pixel.min(self.count)) << shift);
            return edge.clamp(self.window.from, self.window.to);
        }
        let offset = u128::from(pixel.min(self.count)) * u128::from(self.window.ns()) / u128::from(self.count);
        self.window.from.saturating_add_unsigned(offset as u64)
    }

    /// The same, wherever the trace begins or ends.
    fn whole_edge(&self, pixel: u32) -> i64 {
        match self.grid {
            Some(Grid { origin, shift }) => origin.saturating_add_unsigned(u64::from(pixel) << shift),
            None => self.edge(pixel),
        }
    }

    /// The pixel that has a time of the window; of times outside the nearest.
    pub fn of(&self, at: i64) -> u32 {
        let ns = u128::from(self.window.ns());
        let offset = at.clamp(self.window.from, self.window.to.saturating_sub(1).max(self.window.from));
        if let Some(Grid { origin, shift }) = self.grid {
            return (offset.abs_diff(origin) >> shift).min(u64::from(self.count - 1)) as u32;
        }
        let offset = u128::from(offset.abs_diff(self.window.from));
        let behind = ((offset + 1) * u128::from(self.count)).div_ceil(ns.max(1));
        (behind.saturating_sub(1) as u32).min(self.count - 1)
    }

    /// Whether a stretch is at least as long as a pixel.
    pub fn shows(&self, ns: u64) -> bool {
        if let Some(Grid { shift, .. }) = self.grid {
            return ns >> shift > 0;
        }
        u128::from(ns) * u128::from(self.count) >= u128::from(self.window.ns())
    }

    /// The part of a stretch that lies in the window; none where there is none.
    pub fn cut(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        let (from, to) = (from.max(self.window.from), to.min(self.window.to));
        (from < to).then_some((from, to))
    }

    /// Whether a stretch covers a pixel of the window at least.
    pub fn covers(&self, from: i64, to: i64) -> bool {
        let Some((from, to)) = self.cut(from, to) else { return false };
        let (first, last) = (self.of(from), self.of(to - 1));
        let (begins, ends) = (from == self.whole_edge(first), to == self.whole_edge(last + 1));
        if first == last { begins && ends } else { first + u32::from(!begins) < last + u32::from(ends) }
    }

    /// The pixel of a column of the index; none where it is not in the window. Its columns are no longer than pixels.
    pub fn of_column(&self, from: i64) -> Option<u32> {
        (from >= self.frame().0 && from < self.window.to).then(|| self.of(from))
    }

    /// Length of a pixel, ns.
    pub fn ns_of(&self, pixel: u32) -> u64 {
        self.edge(pixel + 1).abs_diff(self.edge(pixel))
    }

    /// What of a stretch lies in each pixel, ns.
    pub fn each(&self, from: i64, to: i64, mut take: impl FnMut(u32, u64)) {
        let Some((from, to)) = self.cut(from, to) else { return };
        let (mut at, last) = (from, self.of(to - 1));
        for pixel in self.of(from)..=last {
            let end = self.edge(pixel + 1).min(to);
            if end > at {
                take(pixel, end.abs_diff(at));
                at = end;
            }
        }
    }
}

/// A pixel that is not within one stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    /// Which.
    pub pixel: u32,
    /// The state with the most time; of equal ones the first.
    pub state: u8,
    /// States that have a share of it, a bit each.
    pub states: u16,
    /// The thread with the most time.
    pub tid: Option<i32>,
    /// Stretches that touch it.
    pub count: u32,
    /// What is doubtful about them.
    pub doubt: Doubt,
}

/// All pixels of a row that are not within one stretch.
#[derive(Clone, Debug, Default)]
pub struct MixedPixels {
    /// In the order of time.
    pub list: Vec<Mixed>,
    /// Of each of them the shares of its states, in their order: one pixel behind the other. None is 0.
    pub shares: Vec<f32>,
}

impl MixedPixels {
    /// With all shares of each pixel, by state.
    pub fn by_state<const STATES: usize>(&self) -> impl Iterator<Item = (Mixed, [f32; STATES])> {
        let mut rest = self.shares.iter();
        self.list.iter().map(move |of| {
            let has = |state: usize| of.states >> state & 1 != 0;
            (*of, std::array::from_fn(|state| if has(state) { rest.next().copied().unwrap_or(0.0) } else { 0.0 }))
        })
    }
}

/// A stretch of a row.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// By number.
    pub state: u8,
    /// The thread that counts for it.
    pub tid: Option<i32>,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// One row of pixels. Takes stretches in the order of time, which do not overlap.
#[derive(Clone, Debug)]
pub struct PixelRow<const STATES: usize> {
    mixed: MixedPixels,
    open: Option<u32>,
    ns: [u64; STATES],
    by_tid: Map<i32, u64>,
    count: u32,
    doubt: Doubt,
}

impl<const STATES: usize> Default for PixelRow<STATES> {
    fn default() -> Self {
        let (mixed, by_tid) = (MixedPixels::default(), Map::default());
        PixelRow { mixed, open: None, ns: [0; STATES], by_tid, count: 0, doubt: Doubt::NONE }
    }
}

impl<const STATES: usize> PixelRow<STATES> {
    /// Takes a stretch. Whether it covers a whole pixel at least, and so is to be shown itself.
    pub fn add(&mut self, pixels: &Pixels, stretch: &Stretch) -> bool {
        let Some((from, to)) = pixels.cut(stretch.from, stretch.to) else { return false };
        let (first, last) = (pixels.of(from), pixels.of(to - 1));
        let begins = from == pixels.whole_edge(first);
        let ends = to == pixels.whole_edge(last + 1);
        if first == last {
            if !(begins && ends) {
                self.part(pixels, first, to.abs_diff(from), stretch);
            }
            return begins && ends;
        }
        if !begins {
            self.part(pixels, first, pixels.edge(first + 1).abs_diff(from), stretch);
        }
        if !ends {
            self.part(pixels, last, to.abs_diff(pixels.edge(last)), stretch);
        }
        first + u32::from(!begins) < last + u32::from(ends)
    }

    fn add_part(&mut self, state: u8, tid: Option<i32>, ns: u64) {
        if let Some(sum) = self.ns.get_mut(usize::from(state)) {
            *sum = sum.saturating_add(ns);
        }
        if let Some(tid) = tid {
            let sum = self.by_tid.entry(tid).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    fn part(&mut self, pixels: &Pixels, pixel: u32, ns: u64, stretch: &Stretch) {
        self.begin(pixels, pixel);
        self.add_part(stretch.state, stretch.tid, ns);
        self.count = self.count.saturating_add(1);
        self.doubt |= stretch.doubt;
    }

    fn begin(&mut self, pixels: &Pixels, pixel: u32) {
        if self.open != Some(pixel) {
            self.close(pixels);
            self.open = Some(pixel);
        }
    }

    /// Takes a part of a stretch that lies in one pixel.
    pub fn part_of_pixel(&mut self, pixels: &Pixels, of: &Part) {
        let Some(pixel) = pixels.of_column(of.from) else { return };
        self.begin(pixels, pixel);
        self.add_part(of.state, of.tid, of.ns);
        self.count = self.count.saturating_add(of.touches_behind(self.count));
        self.doubt |= of.doubt;
    }

    /// Takes a column of the index.
    pub fn column(&mut self, pixels: &Pixels, of: &Cell<STATES>) {
        let Some(pixel) = pixels.of_column(of.from) else { return };
        self.begin(pixels, pixel);
        for (sum, ns) in self.ns.iter_mut().zip(of.ns) {
            *sum = sum.saturating_add(ns);
        }
        for (tid, ns) in &of.tids {
            let sum = self.by_tid.entry(*tid).or_default();
            *sum = sum.saturating_add(*ns);
        }
        self.count = self.count.saturating_add(of.touches_behind(self.count));
        self.doubt |= of.doubt;
    }

    fn close(&mut self, pixels: &Pixels) {
        let Some(pixel) = self.open.take() else { return };
        let whole = pixels.ns_of(pixel).max(1) as f64;
        let ns = std::mem::replace(&mut self.ns, [0; STATES]);
        let most = ns.iter().copied().max().unwrap_or_default();
        let state = ns.iter().position(|sum| *sum == most).unwrap_or_default() as u8;
        let mut tid = None;
        if !self.by_tid.is_empty() {
            tid = self.by_tid.iter().max_by_key(|(tid, ns)| (**ns, std::cmp::Reverse(**tid))).map(|(tid, _)| *tid);
            self.by_tid.clear();
        }
        let mut states = 0;
        for (state, ns) in ns.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            states |= 1 << state;
            self.mixed.shares.push((*ns as f64 / whole) as f32);
        }
        let (count, doubt) = (std::mem::take(&mut self.count), std::mem::take(&mut self.doubt));
        self.mixed.list.push(Mixed { pixel, state, states, tid, count, doubt });
    }

    /// All pixels that are not within one stretch.
    pub fn finish(mut self, pixels: &Pixels) -> MixedPixels {
        self.close(pixels);
        self.mixed
    }
}

/// The levels of stretches, given by their begin and end.
pub fn levels(stretches: &[(i64, i64)]) -> Vec<u16> {
    let mut order: Vec<usize> = (0..stretches.len()).collect();
    order.sort_by_key(|&at| (stretches[at].0, std::cmp::Reverse(stretches[at].1)));
    let (mut levels, mut of) = (vec![0; stretches.len()], Levels::default());
    for at in order {
        levels[at] = of.next(stretches[at].0, stretches[at].1);
    }
    levels
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;

    use super::*;

    fn stretch(from: i64, to: i64, state: u8) -> Stretch {
        Stretch { from, to, state, tid: Some(i32::from(state) + 10), doubt: Doubt::NONE }
    }

    #[test]
    fn edges_divide_a_window_and_each_time_has_its_pixel() {
        for (from, to, count) in [(0, 1000, 10), (-7, 16, 5), (5, 8, 8), (0, 1, 3), (i64::MIN, i64::MAX, 8192)] {
            let pixels = Pixels::new(Window { from, to }, count);
            assert_eq!((pixels.edge(0), pixels.edge(count)), (from, to));
            for at in [from, from + (to / 2 - from / 2), to - 1] {
                let pixel = pixels.of(at);
                assert!(pixels.edge(pixel) <= at && at < pixels.edge(pixel + 1), "{at} in {pixel} of {from}..{to}");
            }
        }
    }

    #[test]
    fn a_grid_has_about_as_many_pixels_and_covers_the_window() {
        for (from, to, count) in [(0, 1000, 10), (-7, 1016, 5), (5, 8, 8), (0, 1, 3), (1 << 60, (1 << 60) + 12345, 100)]
        {
            let bounds = (from - 1000, to + 20);
            let pixels = Pixels::on_grid(Window { from, to }, count, bounds);
            let (shift, window) = (pixels.shift().unwrap(), pixels.window());
            assert!(window.from <= from && to <= window.to, "{from}..{to}");
            assert_eq!((pixels.edge(0), pixels.edge(pixels.count())), window.pair());
            let asked = (to - from) as f64 / f64::from(count);
            let ratio = asked.max(1.0) / f64::from(1u32 << shift);
            assert!((0.7..1.42).contains(&ratio), "{ratio} of {from}..{to} in {count}");
            for pixel in 1..pixels.count() {
                assert_eq!(pixels.edge(pixel) % (1 << shift), 0);
                assert_eq!(pixels.of(pixels.edge(pixel)), pixel);
                assert_eq!(pixels.of(pixels.edge(pixel) - 1), pixel - 1);
            }
        }
    }

    #[test]
    fn a_pixel_within_a_stretch_is_not_mixed() {
        let pixels = Pixels::new(Window { from: 100, to: 200 }, 10);
        let mut row = PixelRow::<3>::default();
        let added: Vec<bool> =
            [(50, 125, 0), (125, 127, 1), (127, 160, 2), (160, 170, 1), (170, 171, 0), (171, 199, 1), (199, 250, 0)]
                .map(|(from, to, state)| row.add(&pixels, &stretch(from, to, state)))
                .to_vec();
        assert_eq!(added, [true, false, true, true, false, true, false]);
        let mixed = row.finish(&pixels);
        assert_eq!(mixed.shares, [0.5, 0.2, 0.3, 0.1, 0.9, 0.1, 0.9]);
        let mixed: Vec<_> =
            mixed.by_state().map(|(of, shares)| (of.pixel, of.state, of.tid, shares, of.count)).collect();
        assert_eq!(
            mixed,
            [
                (2, 0, Some(10), [0.5, 0.2, 0.3], 3),
                (7, 1, Some(11), [0.1, 0.9, 0.0], 2),
                (9, 1, Some(11), [0.1, 0.9, 0.0], 2),
            ]
        );
    }

    #[test]
    fn shares_are_those_of_all_time_whatever_the_stretches() {
        let mut random = Random::new("pixels", 7);
        for _ in 0..200 {
            let (from, ns) = (random.below(1000i64) - 500, 1 + random.below(5000i64));
            let pixels = Pixels::new(Window { from, to: from + ns }, 1 + random.below(300u32));
            let mut row = PixelRow::<4>::default();
            let (mut at, mut states, mut whole) = (from - 20, Vec::new(), Vec::new());
            while at < from + ns + 20 {
                let (to, state) = (at + 1 + random.below(40i64), random.below(4u8));
                states.extend((at..to).map(|_| state));
                if row.add(&pixels, &stretch(at, to, state)) {
                    whole.push((at, to, state));
                }
                at = to;
            }
            let state_at = |at: i64| states[(at - (from - 20)) as usize];
            let mixed: Vec<(Mixed, [f32; 4])> = row.finish(&pixels).by_state().collect();
            for pixel in 0..pixels.count {
                let (begin, end) = (pixels.edge(pixel), pixels.edge(pixel + 1));
                if begin == end {
                    continue;
                }
                match mixed.iter().find(|(mixed, _)| mixed.pixel == pixel) {
                    Some((_, shares)) => {
                        for state in 0..4u8 {
                            let ns = (begin..end).filter(|at| state_at(*at) == state).count() as f64;
                            let share = (ns / (end - begin) as f64) as f32;
                            assert_eq!(shares[usize::from(state)], share);
                        }
                    }
                    None => {
                        let of = whole.iter().find(|(from, to, _)| *from <= begin && end <= *to);
                        assert_eq!(of.map(|(_, _, state)| *state), Some(state_at(begin)));
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_a_stretch_are_all_of_it() {
        let pixels = Pixels::new(Window { from: 0, to: 100 }, 7);
        let mut parts = Vec::new();
        pixels.each(-5, 43, |pixel, ns| parts.push((pixel, ns)));
        assert_eq!(parts, [(0, 14), (1, 14), (2, 14), (3, 1)]);
        assert!(pixels.shows(15) && !pixels.shows(14));
    }

    #[test]
    fn what_lies_in_another_is_deeper() {
        assert_eq!(levels(&[(0, 10), (1, 4), (2, 3), (5, 9), (10, 12), (11, 15)]), [0, 1, 2, 1, 0, 1]);
        assert_eq!(levels(&[(5, 6), (0, 10)]), [1, 0]);
    }
}
