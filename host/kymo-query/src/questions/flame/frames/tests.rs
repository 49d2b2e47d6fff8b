// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of parts are those of the whole.

use kymo_testing::Random;

use super::*;
use crate::questions::slices::parts::made::{Made, PIXELS};

type Path = Vec<u16>;

/// Joins frames behind each part.
struct Joining(Frames);

impl TakeSlices for Joining {
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]) {
        self.0.part(ended, begun);
        self.0.join();
    }
}

/// Each frame by the spans that it lies in, the sums of it, and its longest span.
fn frames(made: &Made, every: usize) -> Vec<(Path, [u64; 3], u64)> {
    let mut joining = Joining(Frames::new(PIXELS()));
    made.give(&mut joining, every);
    let Joining(mut frames) = joining;
    frames.finish();
    assert_eq!(frames.left_out, 0);
    let list = &frames.list;
    let longest = |frame: &FlameFrame| frame.longest.0.1.abs_diff(frame.longest.0.0);
    let mut all: Vec<_> = list.iter().map(|frame| (path(list, frame), sums(frame), longest(frame))).collect();
    all.sort();
    all
}

fn path(list: &[FlameFrame], frame: &FlameFrame) -> Path {
    let mut all = frame.parent.map_or_else(Vec::new, |parent| path(list, &list[parent as usize]));
    assert_eq!(all.len(), usize::from(frame.depth));
    all.push(frame.span);
    all
}

fn sums(frame: &FlameFrame) -> [u64; 3] {
    [frame.total_ns, frame.within_ns, frame.count]
}

#[test]
fn parts_come_to_the_frames_of_the_whole() {
    let mut random = Random::new("parts_of_a_flame", 1);
    for round in 0..60 {
        let made = Made::threads(&mut random, 400);
        let whole = frames(&made, usize::MAX);
        assert!(whole.iter().any(|(path, ..)| path.len() > 2), "{round}: nothing lies within others");
        for every in [1, 2, 7, 50] {
            assert_eq!(frames(&made, every), whole, "round {round}, parts of {every}");
        }
    }
}
