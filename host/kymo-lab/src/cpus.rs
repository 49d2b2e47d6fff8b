// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs in the kernel's two spellings: lists (`0-2,5`) and masks (`0000000f,00000003`).

use std::collections::BTreeSet;
use std::fmt;

/// CPUs that a list may name: the kernel's own limit is 8192.
const CPU_MAX: u32 = 8192;

/// A set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<u32>);

impl Cpus {
    /// `0-2,5`; empty text is the empty set. `None` for anything else.
    pub fn from_list(text: &str) -> Option<Cpus> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= CPU_MAX {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Cpus(cpus))
    }

    /// `00000001,80000003`: groups of 32 CPUs, the highest first. `None` for anything else.
    pub fn from_mask(text: &str) -> Option<Cpus> {
        let groups: Option<Vec<u32>> =
            text.trim().split(',').map(|group| u32::from_str_radix(group, 16).ok()).collect();
        let mut cpus = BTreeSet::new();
        for (index, group) in groups?.into_iter().rev().take((CPU_MAX / 32) as usize).enumerate() {
            cpus.extend((0..32).filter(|bit| group >> bit & 1 == 1).map(|bit| index as u32 * 32 + bit));
        }
        Some(Cpus(cpus))
    }

    /// As a mask.
    pub fn mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last / 32 + 1);
        let group =
            |index| (0..32).filter(|bit| self.0.contains(&(index * 32 + bit))).fold(0u32, |mask, bit| mask | 1 << bit);
        (0..groups).rev().map(|index| format!("{:08x}", group(index))).collect::<Vec<_>>().join(",")
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is one of them.
    pub fn has(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Those of both.
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.intersection(&other.0).copied().collect())
    }

    /// Those of this one that are not in the other.
    pub fn without(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.difference(&other.0).copied().collect())
    }

    /// All of either.
    pub fn or(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.union(&other.0).copied().collect())
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Cpus {
        Cpus(cpus.into_iter().collect())
    }
}

/// As a list.
impl fmt::Display for Cpus {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(to, "{comma}{first}")?
            } else {
                write!(to, "{comma}{first}-{last}")?
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Cpus;

    #[test]
    fn lists_and_masks() {
        for (list, mask) in
            [("", "00000000"), ("0", "00000001"), ("0-2,5", "00000027"), ("1,32-33", "00000003,00000002")]
        {
            let cpus = Cpus::from_list(list).unwrap();
            assert_eq!((cpus.to_string(), cpus.mask()), (list.to_owned(), mask.to_owned()));
            assert_eq!(Cpus::from_mask(mask), Some(cpus));
        }
        for wrong in ["a", "3-1", "0-4294967295", "9000", "1;2"] {
            assert_eq!(Cpus::from_list(wrong), None, "{wrong}");
        }
        assert_eq!(Cpus::from_mask("zz"), None);
    }
}
