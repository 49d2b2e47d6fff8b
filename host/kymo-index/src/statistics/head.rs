// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where records and times of parts by who wrote and who ran are [spec/index.md 5.6].

use kymo_analyze::compact::{Put, Take};

use crate::file::Piece;
use crate::wakes::head::WakeHead;

/// Where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatisticsHead {
    /// By level; `None` where there was too much, or where records must be read.
    pub levels: WakeHead,
    /// Who wrote and ran, by number; `None`: there is nothing.
    pub names: Option<Piece>,
    /// Records of streams that are not read for states.
    pub programs: Option<Piece>,
}

impl StatisticsHead {
    pub fn put(&self, put: &mut Put) {
        self.levels.put(put);
        put.option(self.names.as_ref(), |put, piece| piece.put(put));
        put.option(self.programs.as_ref(), |put, piece| piece.put(put));
    }

    pub fn take(take: &mut Take<'_>) -> Option<StatisticsHead> {
        let levels = WakeHead::take(take)?;
        Some(StatisticsHead { levels, names: take.option(Piece::take)?, programs: take.option(Piece::take)? })
    }
}
