// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a window come part by part, as they end: a window may have more of them than can be kept at a time [spec/view.md
//! 6]. What has begun and not ended at the end of a part gets its place there, so that what lies within it finds it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::slice_rows::SliceRow;
use super::slices::Slice;

/// Spans of a part.
pub(super) const PART: usize = 1 << 16;

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub row: SliceRow,
    pub span: u16,
    pub tid: Option<i32>,
    pub from: i64,
}

/// What spans are made into.
pub(super) trait TakeSlices {
    /// Takes those that ended since the last part, and all that have begun and not ended.
    fn part(&mut self, ended: Vec<Slice>, begun: &[Begun]);
}

/// A span of a part, whose place may be known from an earlier one.
pub(super) struct Placed<P> {
    pub span: u16,
    pub from: i64,
    /// The last time that there is, where it has not ended.
    pub to: i64,
    /// None where it has not ended.
    pub slice: Option<Slice>,
    pub place: Option<P>,
}

/// The spans of one row, or one thread, that have begun and not ended, with their places.
pub(super) struct Waiting<P>(Vec<(u16, i64, P)>);

impl<P> Default for Waiting<P> {
    fn default() -> Waiting<P> {
        Waiting(Vec::new())
    }
}

impl<P> Waiting<P> {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<P: Copy> Waiting<P> {
    /// The spans of the next part, in the order of their begins, of those that begin together the longest first.
    pub(super) fn next(&mut self, ended: Vec<Slice>, begun: &[Begun]) -> Vec<Placed<P>> {
        let mut known: HashMap<(u16, i64), P> =
            self.0.drain(..).map(|(span, from, place)| ((span, from), place)).collect();
        let mut all: Vec<Placed<P>> = Vec::with_capacity(ended.len() + begun.len());
        for slice in ended {
            let Slice { span, from, to, .. } = slice;
            all.push(Placed { span, from, to, slice: Some(slice), place: None });
        }
        for Begun { span, from, .. } in begun.iter().copied() {
            all.push(Placed { span, from, to: i64::MAX, slice: None, place: None });
        }
        all.sort_by_key(|of| (of.from, Reverse(of.to)));
        if !known.is_empty() {
            all.iter_mut().for_each(|of| of.place = known.remove(&(of.span, of.from)));
        }
        all
    }

    /// The places of all.
    pub(super) fn places(&self) -> impl Iterator<Item = P> {
        self.0.iter().map(|(.., place)| *place)
    }

    /// Gives each its new place; those that have none are not waited for any more.
    pub(super) fn move_to(&mut self, place: impl Fn(P) -> Option<P>) {
        let moved = self.0.drain(..).filter_map(|(span, from, old)| Some((span, from, place(old)?)));
        self.0 = moved.collect();
    }

    /// One that has not ended has this place.
    pub(super) fn keep(&mut self, of: &Placed<P>, place: P) {
        self.0.push((of.span, of.from, place));
    }
}

/// The spans of a part by what they are of, with an entry for each of which some have begun before.
pub(super) fn divided<K: Ord + Copy>(
    ended: Vec<Slice>,
    begun: &[Begun],
    before: impl Iterator<Item = K>,
    (of_slice, of_begun): (fn(&Slice) -> K, fn(&Begun) -> K),
) -> BTreeMap<K, (Vec<Slice>, Vec<Begun>)> {
    let mut all: BTreeMap<K, (Vec<Slice>, Vec<Begun>)> = before.map(|key| (key, Default::default())).collect();
    ended.into_iter().for_each(|slice| all.entry(of_slice(&slice)).or_default().0.push(slice));
    begun.iter().for_each(|of| all.entry(of_begun(of)).or_default().1.push(*of));
    all
}

/// Spans that are made up, for tests.
#[cfg(test)]
pub(super) mod made {
    use kymo_analyze::{Doubt, Name};
    use kymo_testing::Random;

    use super::*;
    use crate::parameters::Window;
    use crate::pixels::Pixels;

    /// Some spans are as long as a pixel of these.
    pub const PIXELS: fn() -> Pixels = || Pixels::new(Window { from: 0, to: 8192 }, 100);

    enum Step {
        Begins(Begun),
        Ends(Slice),
    }

    /// Begins and ends, one after the other.
    pub struct Made(Vec<Step>);

    impl Made {
        /// Spans of three threads, each within the one before it.
        pub fn threads(random: &mut Random, count: usize) -> Made {
            Made::of(random, count, |tid| SliceRow::Thread(Some(tid)), |_, open| open - 1)
        }

        /// Spans of three keys that overlap.
        pub fn keys(random: &mut Random, count: usize) -> Made {
            Made::of(random, count, |key| SliceRow::Key(7, Some(key as u32)), |random, open| random.below(open))
        }

        fn of(
            random: &mut Random,
            count: usize,
            row: fn(i32) -> SliceRow,
            which: fn(&mut Random, usize) -> usize,
        ) -> Made {
            let (mut at, mut steps) = (0, Vec::new());
            let mut open: [Vec<Begun>; 3] = Default::default();
            while steps.len() < count {
                at += 1 + random.below(20i64) * random.below(4i64);
                let tid = random.below(3i32);
                let own = &mut open[tid as usize];
                if own.is_empty() || own.len() < 6 && random.below(2u8) == 0 {
                    let begun = Begun { row: row(tid), span: random.below(3u16), tid: Some(tid), from: at };
                    own.push(begun);
                    steps.push(Step::Begins(begun));
                } else {
                    let at_open = which(random, own.len());
                    steps.push(Step::Ends(slice(own.remove(at_open), at, false)));
                }
            }
            // What has not ended goes on to the end of the window.
            let rest = open.into_iter().flatten().map(|begun| Step::Ends(slice(begun, 8192.max(at + 1), true)));
            steps.extend(rest);
            Made(steps)
        }

        /// All of them.
        pub fn slices(&self) -> impl Iterator<Item = &Slice> {
            self.0.iter().filter_map(|step| match step {
                Step::Ends(slice) => Some(slice),
                Step::Begins(_) => None,
            })
        }

        /// Gives them in parts of so many.
        pub fn give(&self, to: &mut impl TakeSlices, every: usize) {
            let (mut ended, mut begun): (Vec<Slice>, Vec<Begun>) = (Vec::new(), Vec::new());
            for step in &self.0 {
                match step {
                    Step::Begins(of) => begun.push(*of),
                    Step::Ends(slice) => {
                        // At the end of the window nothing is waited for any more.
                        if !slice.open {
                            begun.retain(|of| (of.row, of.from, of.span) != (slice.row, slice.from, slice.span));
                        }
                        ended.push(*slice);
                        if ended.len() >= every && !slice.open {
                            to.part(std::mem::take(&mut ended), &begun);
                        }
                    }
                }
            }
            to.part(ended, &[]);
        }
    }

    fn slice(Begun { row, span, tid, from }: Begun, to: i64, open: bool) -> Slice {
        let (name, doubt) = (Name::default(), Doubt::NONE);
        Slice { span, tid, process: None, name, cpu: None, from, to, open, doubt, row }
    }
}
