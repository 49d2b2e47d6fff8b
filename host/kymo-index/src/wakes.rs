// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which wake-ups of parts a window is made of [spec/index.md 5.4].

pub(crate) mod bytes;
pub(crate) mod head;
pub(crate) mod maker;
pub(crate) mod part;
pub(crate) mod waking;

use crate::file::Piece;
use crate::pictures::Gallery;
use crate::pyramid::units::{UnitContent, UnitLevels, UnitPart};
use crate::pyramid::{DamagedSums, Pyramid};
use crate::wakes::maker::WAKE_FAN_OUT;
use crate::wakes::part::WakePart;

/// Wake-ups of a part, by where it is among all.
pub type WakeStretch = UnitPart<Piece>;

impl Pyramid {
    fn wake_levels(&self) -> UnitLevels<'_, Piece> {
        UnitLevels { levels: &self.wakes.0, fan_out: WAKE_FAN_OUT }
    }

    /// Wake-ups of a window [from, to). `is_from_begin`: the window has all that is before its end. `Ok(None)`: there
    /// are none, or reading the records is the only way.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn wakes(&self, window: (i64, i64), is_from_begin: bool) -> Result<Option<Gallery<WakeStretch>>, DamagedSums> {
        self.units(self.wake_levels(), window, is_from_begin, |_| true)
    }

    /// The wake-ups of a part. `is_of_all`: the list ends where it has no longer all of all threads.
    ///
    /// # Errors
    /// They are damaged.
    pub fn wakes_of(&self, of: &WakeStretch, is_of_all: bool) -> Result<WakePart, DamagedSums> {
        let bytes = self.pieces.read(&of.place).ok_or(DamagedSums)?;
        if is_of_all { WakePart::decode_of_all(&bytes) } else { WakePart::decode(&bytes) }.ok_or(DamagedSums)
    }

    /// What a part is made of. `None`: of records that no time divides from those around them, or what it is made of
    /// had too much.
    pub fn within_wakes(&self, of: &WakeStretch) -> Option<UnitContent<Piece>> {
        self.unit_content(self.wake_levels(), of)
    }

    /// Looks through all of them.
    pub(crate) fn check_wakes(&self) -> Result<(), DamagedSums> {
        self.wake_levels().all().try_for_each(|of| self.wakes_of(&of, false).map(drop))
    }
}
