// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was wrong with a stream so far.

use super::super::error::{Caveat, Severity};

/// Caveats of one file that are kept one by one; the rest is counted.
pub(crate) const CAVEATS_MAX: usize = 100;

/// The caveats of one file.
#[derive(Debug, Default)]
pub(crate) struct Caveats {
    /// The first ones.
    pub listed: Vec<Caveat>,
    /// How many there are beyond those.
    beyond: u64,
    /// How many of all are damage, not odd times.
    pub damaged: u64,
}

impl Caveats {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.listed.len() as u64 + self.beyond
    }

    pub fn push(&mut self, caveat: Caveat) {
        self.damaged += u64::from(caveat.damage.severity() == Severity::Unread);
        self.keep(caveat);
    }

    /// Lists it, if there is room; there is for a remark, of which a file has one at most.
    fn keep(&mut self, caveat: Caveat) {
        match self.listed.len() < CAVEATS_MAX || caveat.damage.severity() == Severity::Remark {
            true => self.listed.push(caveat),
            false => self.beyond += 1,
        }
    }

    pub fn clear(&mut self) {
        self.listed.clear();
        (self.beyond, self.damaged) = (0, 0);
    }

    /// Takes over all that `later` has.
    pub fn take_from(&mut self, later: &mut Self) {
        self.beyond += later.beyond;
        self.damaged += later.damaged;
        later.listed.drain(..).for_each(|caveat| self.keep(caveat));
        later.clear();
    }
}

/// Which of a stream's caveats are those of a slice: the packets behind a cut are opened by the slices on both sides of
/// it.
#[derive(Debug)]
pub(crate) struct Held {
    /// Caveats of this packet and of those behind it are held until it is known that their item is in front of the cut.
    pub from_packet: u64,
    pub caveats: Caveats,
}

impl Default for Held {
    fn default() -> Self {
        Self { from_packet: u64::MAX, caveats: Caveats::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::error::Damage;
    use super::*;

    fn caveat(at: u64, damage: Damage) -> Caveat {
        Caveat { file: "s".into(), packet: Some(0), at, damage }
    }

    #[test]
    fn all_are_counted_and_the_first_are_kept() {
        let (mut first, mut second) = (Caveats::default(), Caveats::default());
        (0..CAVEATS_MAX as u64 - 1).for_each(|at| first.push(caveat(at, Damage::PastEnd)));
        (0..3).for_each(|at| second.push(caveat(at, Damage::TimeBackwards { cycles: 1 })));
        second.push(caveat(3, Damage::PastEnd));
        first.take_from(&mut second);
        assert_eq!((first.count(), first.listed.len(), first.damaged), (103, 100, 100));
        assert_eq!((second.count(), second.damaged), (0, 0));
        assert_eq!(first.listed[99], caveat(0, Damage::TimeBackwards { cycles: 1 }));
        // What is not written yet is listed always, and is no damage.
        second.push(caveat(9, Damage::Unfinished { have: 1, said: 2 }));
        first.take_from(&mut second);
        assert_eq!((first.count(), first.listed.len(), first.damaged), (104, 101, 100));
        first.clear();
        assert_eq!((first.count(), first.damaged), (0, 0));
    }
}
