// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that are made up, for tests.

use kymo_analyze::{Doubt, Name};
use kymo_testing::Random;

use super::*;
use crate::parameters::Window;
use crate::pixels::Pixels;

/// Some spans are as long as a pixel of these.
pub const PIXELS: fn() -> Pixels = || Pixels::new(Window { from: 0, to: 8192 }, 100);

enum Step {
    Begins(OpenSlice),
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

    fn of(random: &mut Random, count: usize, row: fn(i32) -> SliceRow, which: fn(&mut Random, usize) -> usize) -> Made {
        let (mut at, mut steps) = (0, Vec::new());
        let mut open: [Vec<OpenSlice>; 3] = Default::default();
        while steps.len() < count {
            at += 1 + random.below(20i64) * random.below(4i64);
            let tid = random.below(3i32);
            let own = &mut open[tid as usize];
            if own.is_empty() || own.len() < 6 && random.below(2u8) == 0 {
                let begun = OpenSlice { row: row(tid), span: random.below(3u16), tid: Some(tid), from: at };
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
        let (mut ended, mut begun): (Vec<Slice>, Vec<OpenSlice>) = (Vec::new(), Vec::new());
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

fn slice(OpenSlice { row, span, tid, from }: OpenSlice, to: i64, open: bool) -> Slice {
    let (name, doubt) = (Name::default(), Doubt::NONE);
    Slice { span, tid, process: None, name, cpu: None, from, to, open, doubt, row }
}
