// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a window come part by part, as they end: a window may have more of them than can be kept at a time
//! [spec/view.md 6]. What has begun and not ended at the end of a part gets its place there, so that what lies within
//! it finds it.

#[cfg(test)]
pub(super) mod made;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::slice::Slice;
use super::slice_rows::SliceRow;

/// Spans of a part.
pub(super) const PART: usize = 1 << 16;

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSlice {
    pub row: SliceRow,
    pub span: u16,
    pub tid: Option<i32>,
    pub from: i64,
}

/// What spans are made into.
pub(super) trait TakeSlices {
    /// Takes those that ended since the last part, and all that have begun and not ended.
    fn part(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]);
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
    pub(super) fn next(&mut self, ended: Vec<Slice>, begun: &[OpenSlice]) -> Vec<Placed<P>> {
        let mut known: HashMap<(u16, i64), P> =
            self.0.drain(..).map(|(span, from, place)| ((span, from), place)).collect();
        let mut all: Vec<Placed<P>> = Vec::with_capacity(ended.len() + begun.len());
        for slice in ended {
            let Slice { span, from, to, .. } = slice;
            all.push(Placed { span, from, to, slice: Some(slice), place: None });
        }
        for OpenSlice { span, from, .. } in begun.iter().copied() {
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

/// What slices are of, ended or not.
type KeysOf<K> = (fn(&Slice) -> K, fn(&OpenSlice) -> K);

/// The spans of a part by what they are of, with an entry for each of which some have begun before.
pub(super) fn divided<K: Ord + Copy>(
    ended: Vec<Slice>,
    begun: &[OpenSlice],
    before: impl Iterator<Item = K>,
    (of_slice, of_begun): KeysOf<K>,
) -> BTreeMap<K, (Vec<Slice>, Vec<OpenSlice>)> {
    let mut all: BTreeMap<K, (Vec<Slice>, Vec<OpenSlice>)> = before.map(|key| (key, Default::default())).collect();
    ended.into_iter().for_each(|slice| all.entry(of_slice(&slice)).or_default().0.push(slice));
    begun.iter().for_each(|of| all.entry(of_begun(of)).or_default().1.push(*of));
    all
}
