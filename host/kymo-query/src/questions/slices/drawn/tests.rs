// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts are drawn as the whole, and what there is no room for is the innermost.

use std::collections::BTreeMap;

use kymo_testing::Random;

use super::*;
use crate::questions::slices::parts::made::{Made, PIXELS};

type Shown = (SliceRow, u16, u16, i64, i64, bool);

fn drawn(made: &Made, every: usize) -> (Vec<Shown>, Vec<Merged>) {
    let mut drawn = Drawn::new(PIXELS());
    made.give(&mut drawn, every);
    drawn.finish();
    assert_eq!(drawn.left_out, 0);
    let shown = drawn.shown.iter().map(|(of, level)| (of.row, *level, of.span, of.from, of.to, of.open)).collect();
    (shown, drawn.merged)
}

#[test]
fn parts_are_drawn_as_the_whole() {
    let mut random = Random::new("parts_are_drawn", 1);
    for round in 0..60 {
        for made in [Made::threads(&mut random, 400), Made::keys(&mut random, 400)] {
            let whole = drawn(&made, usize::MAX);
            assert!(whole.0.iter().any(|of| of.1 > 1) && whole.1.iter().any(|of| of.level > 1), "{round}: no levels");
            for every in [1, 2, 7, 50] {
                assert_eq!(drawn(&made, every), whole, "round {round}, parts of {every}");
            }
        }
    }
}

/// Where there is room for half of all, the outer ones are there, at all times.
#[test]
fn what_lies_within_others_is_left_out_first() {
    let made = Made::threads(&mut Random::new("thinned", 5), 4000);
    let whole = drawn(&made, 7);
    let mut drawn = Drawn::of(PIXELS(), (whole.0.len() + whole.1.len()) / 2);
    made.give(&mut drawn, 7);
    drawn.finish();
    let deepest = drawn.deepest;
    assert!(deepest < 5 && drawn.left_out > 0, "{deepest}");
    let shown: Vec<_> = whole.0.iter().filter(|of| of.1 <= deepest).map(|of| (of.0, of.3)).collect();
    assert_eq!(drawn.shown.iter().map(|(of, _)| (of.row, of.from)).collect::<Vec<_>>(), shown);
    let merged: Vec<Merged> = whole.1.iter().filter(|of| of.level <= deepest).copied().collect();
    assert_eq!(drawn.merged, merged);
    let count = |all: &[Merged]| all.iter().map(|of| u64::from(of.count)).sum::<u64>();
    let all = whole.0.len() as u64 + count(&whole.1);
    assert_eq!(all, (drawn.shown.len() as u64) + count(&drawn.merged) + drawn.left_out);
}

/// Levels, as they are without parts.
#[test]
fn a_part_has_the_levels_of_its_spans() {
    let made = Made::threads(&mut Random::new("levels", 3), 200);
    let mut rows: BTreeMap<SliceRow, Vec<&Slice>> = BTreeMap::new();
    made.slices().for_each(|slice| rows.entry(slice.row).or_default().push(slice));
    let mut wanted: Vec<(SliceRow, i64, u16)> = Vec::new();
    for (row, own) in rows {
        let levels = crate::pixels::levels(&own.iter().map(|of| (of.from, of.to)).collect::<Vec<_>>());
        wanted.extend(own.iter().zip(levels).map(|(of, level)| (row, of.from, level)));
    }
    wanted.sort();
    // With pixels of a nanosecond each span is drawn by itself.
    let window = crate::parameters::Window { from: 0, to: 8192 };
    let mut drawn = Drawn::new(Pixels::new(window, 8192));
    made.give(&mut drawn, 3);
    drawn.finish();
    let mut found: Vec<_> = drawn.shown.iter().map(|(of, level)| (of.row, of.from, *level)).collect();
    found.sort();
    assert_eq!(found, wanted);
}
