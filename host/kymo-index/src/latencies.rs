// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which latencies of parts a window is made of [spec/index.md 5.3].

pub(crate) mod bytes;
pub(crate) mod head;
pub(crate) mod maker;
pub(crate) mod measuring;
pub(crate) mod part;
pub(crate) mod samples;
pub(crate) mod samples_taken;
pub(crate) mod who;

use crate::latencies::head::LatencyPlace;
use crate::latencies::maker::LATENCY_FAN_OUT;
use crate::latencies::part::LatencyPart;
use crate::pictures::Gallery;
use crate::pyramid::units::{UnitContent, UnitLevels, UnitPart};
use crate::pyramid::{DamagedSums, Pyramid};

/// Latencies of a part, by where it is among all.
pub type LatencyStretch = UnitPart<LatencyPlace>;

impl Pyramid {
    fn latency_levels(&self) -> UnitLevels<'_, LatencyPlace> {
        UnitLevels { levels: &self.latencies.levels, fan_out: LATENCY_FAN_OUT }
    }

    /// Latencies of a window [from, to), with columns of 2 to the power of `shift` ns at most. `is_from_begin`: the
    /// window has all that is before its end. `Ok(None)`: there are none, or reading the records is the only way.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn latencies(
        &self,
        window: (i64, i64),
        is_from_begin: bool,
        shift: u32,
    ) -> Result<Option<Gallery<LatencyStretch>>, DamagedSums> {
        self.units(self.latency_levels(), window, is_from_begin, |place| place.shift <= shift)
    }

    /// The latencies of a part, with cells and the longest where they are wanted.
    ///
    /// # Errors
    /// They are damaged.
    pub fn latencies_of(
        &self,
        stretch: &LatencyStretch,
        with_cells: bool,
        with_longest: bool,
    ) -> Result<LatencyPart, DamagedSums> {
        self.latencies.read(&stretch.place, &self.pieces, with_cells, with_longest).ok_or(DamagedSums)
    }

    /// What a part is made of. `None`: of records that no time divides from those around them, or what it is made of
    /// had too much.
    pub fn within(&self, of: &LatencyStretch) -> Option<UnitContent<LatencyPlace>> {
        self.unit_content(self.latency_levels(), of)
    }

    /// Looks through all of them.
    pub(crate) fn check_latencies(&self) -> Result<(), DamagedSums> {
        self.latency_levels().all().try_for_each(|of| self.latencies_of(&of, true, true).map(drop))
    }
}
