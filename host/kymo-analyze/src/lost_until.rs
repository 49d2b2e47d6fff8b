// SPDX-License-Identifier: MIT OR Apache-2.0
//! Up to when records are missing, for what ends with a record.

use std::collections::VecDeque;

/// Losses that begin before a time. One that begins at the same time as a record comes behind it, in whatever order
/// their streams are read.
#[derive(Clone, Debug)]
pub struct LostUntil {
    until: i64,
    /// In the order of time.
    coming: VecDeque<(i64, i64)>,
}

impl Default for LostUntil {
    fn default() -> Self {
        LostUntil { until: i64::MIN, coming: VecDeque::new() }
    }
}

impl LostUntil {
    /// Records are missing from a time to another one, ns.
    pub fn lose(&mut self, from: i64, to: i64) {
        self.coming.push_back((from, to));
    }

    /// Before this time records are missing, as is known at the time of a record; ns.
    pub fn at(&mut self, time: i64) -> i64 {
        while let Some((_, to)) = self.coming.front().filter(|(from, _)| *from < time) {
            self.until = self.until.max(*to);
            self.coming.pop_front();
        }
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_counts_from_behind_its_begin_on() {
        let mut lost = LostUntil::default();
        assert_eq!(lost.at(0), i64::MIN);
        [(5, 20), (7, 9)].into_iter().for_each(|(from, to)| lost.lose(from, to));
        assert_eq!([5, 6, 7, 8, 30].map(|time| lost.at(time)), [i64::MIN, 20, 20, 20, 20]);
    }
}
