// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes a result doubtful [spec/analyze.md 4]. Marks travel with spans into every finding made of them.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use serde::{Serialize, Serializer};

/// A set of marks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Doubt(u16);

impl Doubt {
    /// Nothing is doubtful.
    pub const NONE: Doubt = Doubt(0);
    /// Records were lost meanwhile.
    pub const LOST: Doubt = Doubt(1);
    /// Began before the trace told.
    pub const START: Doubt = Doubt(2);
    /// The trace ended in it.
    pub const END: Doubt = Doubt(4);
    /// Time went back.
    pub const CLOCK: Doubt = Doubt(8);
    /// An event that must have happened is not in the trace.
    pub const MISSED: Doubt = Doubt(16);
    /// Who ran is known from the heads of records only.
    pub const GUESSED: Doubt = Doubt(32);
    /// The CPU idled.
    pub const IDLE: Doubt = Doubt(64);
    /// Two clocks that are not one.
    pub const MIXED: Doubt = Doubt(128);
    /// Another span with the same key began in it: which begin is of its end follows from nesting alone. Of samples
    /// only.
    pub const NESTED: Doubt = Doubt(256);
    /// Who waits for whom was not followed further. Of critical paths and causes only.
    pub const CUT: Doubt = Doubt(512);

    /// All marks, with their names.
    pub const ALL: [(Doubt, &'static str); 10] = [
        (Doubt::LOST, "lost"),
        (Doubt::START, "start"),
        (Doubt::END, "end"),
        (Doubt::CLOCK, "clock"),
        (Doubt::MISSED, "missed"),
        (Doubt::GUESSED, "guessed"),
        (Doubt::IDLE, "idle"),
        (Doubt::MIXED, "mixed"),
        (Doubt::NESTED, "nested"),
        (Doubt::CUT, "cut"),
    ];

    /// As bits that do not change. A state has none of the marks of samples and paths.
    pub fn bits(self) -> u8 {
        self.0 as u8
    }

    /// Of such bits.
    pub fn from_bits(bits: u8) -> Doubt {
        Doubt(bits.into())
    }

    /// The same, with the marks of samples.
    pub fn sample_bits(self) -> u16 {
        self.0
    }

    /// Of such bits.
    pub fn from_sample_bits(bits: u16) -> Doubt {
        Doubt(bits)
    }

    /// Whether there are no marks.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether all marks of `other` are in it.
    #[inline]
    pub fn has(self, other: Doubt) -> bool {
        self.0 & other.0 == other.0
    }

    /// These marks where `holds`, else none.
    #[must_use]
    #[inline]
    pub fn when(self, holds: bool) -> Doubt {
        if holds { self } else { Doubt::NONE }
    }

    /// All but these marks.
    #[must_use]
    pub fn without(self, other: Doubt) -> Doubt {
        Doubt(self.0 & !other.0)
    }

    /// Names of the marks.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Doubt::ALL.into_iter().filter(move |(mark, _)| self.has(*mark)).map(|(_, name)| name)
    }
}

impl BitOr for Doubt {
    type Output = Doubt;

    #[inline]
    fn bitor(self, other: Doubt) -> Doubt {
        Doubt(self.0 | other.0)
    }
}

impl BitOrAssign for Doubt {
    #[inline]
    fn bitor_assign(&mut self, other: Doubt) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names().enumerate() {
            write!(f, "{}{name}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// As a list of names.
impl Serialize for Doubt {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}
