// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels of enumerations: which of them a value has, and which values a label has. Ranges may overlap, so that a
//! value may have several labels.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Ranges of integers, both ends included.
pub(crate) type Ranges = Arc<[(i128, i128)]>;

#[inline]
pub(crate) fn within(ranges: &[(i128, i128)], value: i128) -> bool {
    ranges.iter().any(|&(low, high)| low <= value && value <= high)
}

/// Labels of an enumeration.
#[derive(Debug)]
pub(crate) struct Labels {
    list: Vec<(Box<str>, i128, i128)>,
    /// Positions in `list` by lower end, where no two ranges overlap.
    sorted: Option<Vec<u32>>,
    /// Made when a variant asks for it: one enumeration may be the tag of many variants.
    by_name: OnceLock<HashMap<Box<str>, Ranges>>,
}

impl Labels {
    pub fn new(list: Vec<(Box<str>, i128, i128)>) -> Self {
        let mut order: Vec<u32> = (0..list.len() as u32).collect();
        order.sort_by_key(|&i| list[i as usize].1);
        let apart = order.windows(2).all(|w| list[w[0] as usize].2 < list[w[1] as usize].1);
        Self { sorted: apart.then_some(order), list, by_name: OnceLock::new() }
    }

    /// The labels that `value` has.
    #[inline]
    pub fn find(&self, value: i128) -> EnumLabels<'_> {
        EnumLabels { set: self, first: self.position(value).unwrap_or(EnumLabels::NONE) }
    }

    /// Position of the first label whose range has `value`.
    #[inline]
    fn position(&self, value: i128) -> Option<u32> {
        let index = match &self.sorted {
            Some(order) => {
                let after = order.partition_point(|&i| self.list[i as usize].1 <= value);
                *order.get(after.checked_sub(1)?)?
            }
            None => self.list.iter().position(|&(_, low, high)| low <= value && value <= high)? as u32,
        };
        let (_, low, high) = self.list[index as usize];
        (low <= value && value <= high).then_some(index)
    }

    /// Each label with a range of its values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i128, i128)> {
        self.list.iter().map(|(label, low, high)| (&**label, *low, *high))
    }

    /// All ranges of a label.
    pub fn ranges(&self, label: &str) -> Option<Ranges> {
        let by_name = self.by_name.get_or_init(|| {
            let mut all: HashMap<&str, Vec<(i128, i128)>> = HashMap::new();
            for (label, low, high) in self.iter() {
                all.entry(label).or_default().push((low, high));
            }
            all.into_iter().map(|(label, ranges)| (label.into(), Arc::from(ranges))).collect()
        });
        by_name.get(label).cloned()
    }
}

/// The labels that a value of an enumeration has: mostly one, none where no range has it, several where ranges
/// overlap.
#[derive(Clone, Copy)]
pub struct EnumLabels<'a> {
    set: &'a Labels,
    /// Position of the first one.
    first: u32,
}

impl std::fmt::Debug for EnumLabels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.first().fmt(f)
    }
}

impl<'a> EnumLabels<'a> {
    const NONE: u32 = u32::MAX;

    /// Which enumeration they are of: differs between those of traces that are open at a time.
    #[inline]
    pub fn id(self) -> usize {
        std::ptr::from_ref(self.set) as usize
    }

    /// The first one, in the order of the metadata.
    #[inline]
    pub fn first(self) -> Option<&'a str> {
        self.set.list.get(self.first as usize).map(|(label, ..)| &**label)
    }

    /// Those behind the first one, each once, in the order of the metadata: mostly none. `number`: the value.
    #[inline]
    pub fn others(self, number: impl Into<i128>) -> Vec<&'a str> {
        match self.set.sorted {
            Some(_) => Vec::new(),
            None => self.search_others(number.into()),
        }
    }

    #[cold]
    fn search_others(self, number: i128) -> Vec<&'a str> {
        let Some(first) = self.first() else { return Vec::new() };
        let mut others = Vec::new();
        for (label, low, high) in self.set.iter().skip(self.first as usize + 1) {
            if low <= number && number <= high && label != first && !others.contains(&label) {
                others.push(label);
            }
        }
        others
    }

    /// All of them, each once, in the order of the metadata. `number`: the value.
    pub fn all(self, number: impl Into<i128>) -> Vec<&'a str> {
        self.first().into_iter().chain(self.others(number)).collect()
    }

    /// All of them as one text, with `|` between them. `number`: the value.
    #[inline]
    pub fn joined(self, number: impl Into<i128>) -> Option<Cow<'a, str>> {
        if self.set.sorted.is_some() {
            return self.first().map(Cow::Borrowed);
        }
        match &self.all(number)[..] {
            [] => None,
            [one] => Some(Cow::Borrowed(one)),
            several => Some(Cow::Owned(several.join("|"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(list: &[(&str, i128, i128)]) -> Labels {
        Labels::new(list.iter().map(|&(label, low, high)| (label.into(), low, high)).collect())
    }

    #[test]
    fn labels_are_found_whether_or_not_ranges_overlap() {
        let apart = labels(&[("b", 5, 9), ("a", -3, 0), ("c", i128::from(u64::MAX), i128::from(u64::MAX))]);
        assert!(apart.sorted.is_some());
        let over = labels(&[("wide", 0, 9), ("narrow", 3, 4), ("wide", 4, 4), ("end", 4, 12)]);
        assert!(over.sorted.is_none());
        for (set, value, expect) in [
            (&apart, -4, None),
            (&apart, -3, Some("a")),
            (&apart, 0, Some("a")),
            (&apart, 1, None),
            (&apart, 9, Some("b")),
            (&apart, 10, None),
            (&apart, i128::from(u64::MAX), Some("c")),
            (&over, 3, Some("wide|narrow")),
            (&over, 4, Some("wide|narrow|end")),
            (&over, 10, Some("end")),
            (&over, 13, None),
        ] {
            assert_eq!(set.find(value).joined(value).as_deref(), expect, "{value}");
        }
        assert_eq!(over.find(3).first(), Some("wide"));
        assert_eq!(over.ranges("wide").as_deref(), Some(&[(0, 9), (4, 4)][..]));
        assert_eq!(over.ranges("none"), None);
    }
}
