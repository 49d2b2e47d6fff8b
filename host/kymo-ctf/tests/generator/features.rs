// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a case may have. A feature is a word that `disagreements.txt` and `spec/conformance-ctf.md` use too; a case
//! notes those that it has.

use std::collections::BTreeSet;

use kymo_testing::Random;

/// Features that kymo does not read yet, or does not show in full. One that is switched on here is generated, and the
/// tests hold kymo to it.
const TABLE: &[(&str, bool)] = &[
    ("integer-wider-than-64", false),
    ("bit-order", false),
    ("location-across-arrays", false),
    ("location-with-null", false),
    ("location-in-an-open-structure", false),
    ("packetized-ctf2", false),
    ("trailing-comma-in-json", false),
    ("all-overlapping-labels", false),
];

/// Whether a feature of [`TABLE`] is switched on; those that are not in it are.
pub fn is_on(name: &str) -> bool {
    TABLE.iter().find(|(known, _)| *known == name).is_none_or(|&(_, on)| on)
}

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

    /// Notes a feature, unless it is avoided or not switched on.
    pub fn note(&mut self, name: &'static str) -> bool {
        let is_allowed = is_on(name) && !self.avoided.contains(name);
        if is_allowed {
            self.used.insert(name);
        }
        is_allowed
    }
}
