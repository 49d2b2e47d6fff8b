// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep spans lie in each other. Spans come part by part, as they end: a trace may have more of them than can be
//! kept at a time. What has begun and not ended at the end of a part gets its place there, so that what lies within it
//! finds it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo_analyze::hash::Map;

/// How deep stretches lie in each other: 0 for those that lie in none.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// By level: until when it is taken.
    ends: Vec<i64>,
}

impl Levels {
    /// The level of the next stretch; in the order of their begins, of those that begin together the longest first.
    pub fn next(&mut self, from: i64, to: i64) -> u16 {
        // The level of each stretch is free again when it ends.
        let free = self.ends.iter().rposition(|end| *end > from).map_or(0, |above| above + 1);
        self.ends.truncate(free);
        self.ends.push(to);
        free.min(usize::from(u16::MAX)) as u16
    }

    /// One whose level is known.
    pub fn hold(&mut self, level: u16, to: i64) {
        let level = usize::from(level);
        if self.ends.len() <= level {
            self.ends.resize(level + 1, i64::MIN);
        }
        self.ends[level] = to;
    }
}

/// A span that has ended.
pub trait NestedSpan {
    /// Number of its pair of events.
    fn span(&self) -> u16;
    /// From when to when, ns.
    fn stretch(&self) -> (i64, i64);
}

/// A span that has begun and not ended: the number of its pair, and its begin, ns.
pub type BegunSpan = (u16, i64);

/// A span of a part, whose place may be known from an earlier one.
pub struct Placed<S, P> {
    /// Number of its pair.
    pub span: u16,
    /// Its begin, ns.
    pub from: i64,
    /// Its end, ns; the last time that there is, where it has not ended.
    pub to: i64,
    /// None where it has not ended.
    pub ended: Option<S>,
    /// Where it is known.
    pub place: Option<P>,
}

/// The spans of one row, or one thread, that have begun and not ended, with their places.
#[derive(Clone, Debug)]
pub struct WaitingPlaces<P>(Vec<(BegunSpan, P)>);

impl<P> Default for WaitingPlaces<P> {
    fn default() -> WaitingPlaces<P> {
        WaitingPlaces(Vec::new())
    }
}

impl<P: Copy> WaitingPlaces<P> {
    /// The spans of the next part, in the order of their begins, of those that begin together the longest first.
    pub fn next<S: NestedSpan>(&mut self, ended: Vec<S>, begun: &[BegunSpan]) -> Vec<Placed<S, P>> {
        let mut known: Map<BegunSpan, P> = self.0.drain(..).collect();
        let mut all: Vec<Placed<S, P>> = Vec::with_capacity(ended.len() + begun.len());
        for one in ended {
            let (span, (from, to)) = (one.span(), one.stretch());
            all.push(Placed { span, from, to, ended: Some(one), place: None });
        }
        let open =
            |(span, from): &BegunSpan| Placed { span: *span, from: *from, to: i64::MAX, ended: None, place: None };
        all.extend(begun.iter().map(open));
        all.sort_by_key(|of| (of.from, Reverse(of.to)));
        if !known.is_empty() {
            all.iter_mut().for_each(|of| of.place = known.remove(&(of.span, of.from)));
        }
        all
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (BegunSpan, P)> {
        self.0.iter().copied()
    }

    /// Gives each its new place; those that have none are not waited for any more.
    pub fn move_to(&mut self, place: impl Fn(P) -> Option<P>) {
        self.0 = self.0.drain(..).filter_map(|(of, old)| Some((of, place(old)?))).collect();
    }

    /// One that has not ended has this place.
    pub fn keep(&mut self, of: BegunSpan, place: P) {
        self.0.push((of, place));
    }
}

/// A span whose place is asked for: one of a part, or a pair whose spans contain another one.
pub type Asked<'p, S, P> = Option<&'p Placed<S, P>>;

/// Gives the spans of a thread their places, in the order of their begins. What lies within the same ones, by pairs,
/// has the same place: `place` gives that of a pair within another one's. A span contains another one if it begins
/// before it, or with it and is longer, and ends no earlier. `is_own`: one that has not ended has a place of its own
/// from then on, for those within it too. Spans without a place are not there for others.
pub fn within<S, P: Copy>(
    all: &[Placed<S, P>],
    is_own: bool,
    mut place: impl FnMut(Option<P>, u16, Asked<'_, S, P>) -> Option<P>,
) -> Vec<Option<P>> {
    // Those that are open: their ends, pairs, and own places.
    let mut open: Vec<(i64, u16, Option<P>)> = Vec::new();
    let mut places = Vec::with_capacity(all.len());
    for of in all {
        open.retain(|(to, ..)| *to > of.from);
        let mut parent = None;
        let containing = open.iter().filter(|(to, ..)| *to >= of.to);
        for (_, span, own) in containing.filter(|_| of.place.is_none()) {
            parent = own.or_else(|| place(parent, *span, None)).or(parent);
        }
        let found = of.place.or_else(|| place(parent, of.span, Some(of)));
        if found.is_some() {
            open.push((of.to, of.span, found.filter(|_| is_own && (of.ended.is_none() || of.place.is_some()))));
        }
        places.push(found);
    }
    places
}

/// The spans of a part by what they are of, with an entry for each of `before`.
pub fn divided<K: Ord + Copy, S, B>(
    ended: impl IntoIterator<Item = (K, S)>,
    begun: impl IntoIterator<Item = (K, B)>,
    before: impl IntoIterator<Item = K>,
) -> BTreeMap<K, (Vec<S>, Vec<B>)> {
    let mut all: BTreeMap<K, (Vec<S>, Vec<B>)> = BTreeMap::new();
    all.extend(before.into_iter().map(|key| (key, Default::default())));
    ended.into_iter().for_each(|(key, one)| all.entry(key).or_default().0.push(one));
    begun.into_iter().for_each(|(key, one)| all.entry(key).or_default().1.push(one));
    all
}

/// The levels of spans in rows.
#[derive(Clone, Debug)]
pub struct Nesting<K>(BTreeMap<K, WaitingPlaces<u16>>);

impl<K> Default for Nesting<K> {
    fn default() -> Nesting<K> {
        Nesting(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Nesting<K> {
    /// Takes the spans of a row that ended since the last part, and all that have begun and not ended. Each that ended
    /// is handed on with its level, in the order of their begins.
    pub fn part<S: NestedSpan>(
        &mut self,
        ended: impl IntoIterator<Item = (K, S)>,
        begun: impl IntoIterator<Item = (K, BegunSpan)>,
        mut take: impl FnMut(K, S, u16),
    ) {
        let mut rows = std::mem::take(&mut self.0);
        let parts = divided(ended, begun, rows.keys().copied());
        for (key, (ended, begun)) in parts {
            let mut waiting = rows.remove(&key).unwrap_or_default();
            let mut levels = Levels::default();
            for of in waiting.next(ended, &begun) {
                let level = match of.place {
                    Some(level) => {
                        levels.hold(level, of.to);
                        level
                    }
                    None => levels.next(of.from, of.to),
                };
                match of.ended {
                    Some(one) => take(key, one, level),
                    None => waiting.keep((of.span, of.from), level),
                }
            }
            if !waiting.is_empty() {
                self.0.insert(key, waiting);
            }
        }
    }

    /// One that has begun and not ended has this level.
    pub fn resume(&mut self, key: K, of: BegunSpan, level: u16) {
        self.0.entry(key).or_default().keep(of, level);
    }

    /// Those that have begun and not ended, with their levels.
    pub fn waiting(&self) -> impl Iterator<Item = (K, BegunSpan, u16)> {
        self.0.iter().flat_map(|(key, row)| row.iter().map(|(of, level)| (*key, of, level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_another_is_deeper() {
        let mut levels = Levels::default();
        let found = [(0, 10), (1, 4), (2, 3), (5, 9), (10, 12), (11, 15)].map(|(from, to)| levels.next(from, to));
        assert_eq!(found, [0, 1, 2, 1, 0, 1]);
    }
}
