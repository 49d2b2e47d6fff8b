// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a case may have. A feature is a word that `disagreements.txt` and `spec/conformance-ctf.md` use too; a case
//! notes those that it has.

use std::collections::BTreeSet;

use kymo_testing::Random;

/// Features that kymo alone is held to: other readers do not have them, or nobody has yet looked at what they do.
pub const OF_KYMO_ALONE: [&str; 8] = [
    "integer-wider-than-64",
    "bit-order",
    "location-with-null",
    "location-in-an-open-structure",
    "packetized-ctf2",
    "trailing-comma-in-json",
    "short-times-of-packets",
    "counters-of-8-bits",
];

/// What one case has, and what it must not have.
#[derive(Clone, Debug, Default)]
pub struct Features {
    pub used: BTreeSet<&'static str>,
    pub avoided: BTreeSet<String>,
}

impl Features {
    /// Decides whether the case gets `name`, one time in `one_in`, and notes it. The random number is taken in any
    /// case, so that what is avoided changes nothing else.
    pub fn take(&mut self, random: &mut Random, name: &'static str, one_in: u64) -> bool {
        let is_wanted = random.below(one_in) == 0;
        is_wanted && self.note(name)
    }

    /// The same for one of [`OF_KYMO_ALONE`]: where it is avoided no random number is taken, so that what other readers
    /// are held to does not change with it.
    pub fn take_alone(&mut self, random: &mut Random, name: &'static str, one_in: u64) -> bool {
        !self.avoided.contains(name) && self.take(random, name, one_in)
    }

    /// Notes a feature, unless it is avoided.
    pub fn note(&mut self, name: &'static str) -> bool {
        let is_allowed = !self.avoided.contains(name);
        if is_allowed {
            self.used.insert(name);
        }
        is_allowed
    }
}
