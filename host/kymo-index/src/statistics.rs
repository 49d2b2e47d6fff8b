// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which records and times by who wrote and who ran a window is made of [spec/index.md 5.6].

pub(crate) mod bytes;
pub(crate) mod head;
pub(crate) mod maker;
pub(crate) mod names;
pub(crate) mod part;
#[cfg(test)]
mod tests;
pub(crate) mod written;
pub(crate) mod written_bytes;

use kymo_analyze::compact::Take;

use crate::file::Piece;
use crate::pictures::Gallery;
use crate::pyramid::units::{UnitLevels, UnitPart};
use crate::pyramid::{DamagedSums, Pyramid};
use crate::statistics::maker::STATISTICS_FAN_OUT;
use crate::statistics::names::WriterNames;
use crate::statistics::part::StatisticsPart;
use crate::statistics::written_bytes::{StreamWriters, take_streams};

/// Records and times of a part, by where it is among all.
pub type StatisticsStretch = UnitPart<Piece>;

impl Pyramid {
    fn statistics_levels(&self) -> UnitLevels<'_, Piece> {
        UnitLevels { levels: &self.statistics.levels.0, fan_out: STATISTICS_FAN_OUT }
    }

    /// Records and times of a window [from, to). `is_from_begin`: the window has all that is before its end.
    /// `Ok(None)`: there are none, or reading the records is the only way.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn statistics(
        &self,
        window: (i64, i64),
        is_from_begin: bool,
    ) -> Result<Option<Gallery<StatisticsStretch>>, DamagedSums> {
        if self.statistics.programs.is_none() {
            return Ok(None);
        }
        self.units(self.statistics_levels(), window, is_from_begin, |_| true)
    }

    /// Who wrote and ran.
    ///
    /// # Errors
    /// They are damaged.
    pub fn writer_names(&self) -> Result<WriterNames, DamagedSums> {
        let Some(piece) = &self.statistics.names else { return Ok(WriterNames::default()) };
        let bytes = self.pieces.read(piece).ok_or(DamagedSums)?;
        let mut take = Take(&bytes);
        WriterNames::take(&mut take).filter(|_| take.is_empty()).ok_or(DamagedSums)
    }

    /// Records of streams that are not read for states.
    ///
    /// # Errors
    /// They are damaged.
    pub fn written_by_programs(&self) -> Result<Vec<StreamWriters>, DamagedSums> {
        let Some(piece) = &self.statistics.programs else { return Ok(Vec::new()) };
        take_streams(&self.pieces.read(piece).ok_or(DamagedSums)?).ok_or(DamagedSums)
    }

    /// Records and times of a part.
    ///
    /// # Errors
    /// They are damaged.
    pub fn statistics_of(&self, of: &StatisticsStretch, names: &WriterNames) -> Result<StatisticsPart, DamagedSums> {
        StatisticsPart::decode(&self.pieces.read(&of.place).ok_or(DamagedSums)?, names).ok_or(DamagedSums)
    }

    /// Looks through all of them.
    pub(crate) fn check_statistics(&self) -> Result<(), DamagedSums> {
        let names = self.writer_names()?;
        self.written_by_programs()?;
        self.statistics_levels().all().try_for_each(|of| self.statistics_of(&of, &names).map(drop))
    }
}
