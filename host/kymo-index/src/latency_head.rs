// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where latencies of parts are [spec/index.md 5.3].

use std::io;

use kymo_analyze::compact::{Put, Take};

use crate::file::{Piece, Pieces, Writer};
use crate::latency_maker::MadeLatencies;
use crate::latency_part::LatencyPart;
use crate::picture::SHIFT_MAX;

/// Levels at most: 4 to the power of 24 parts.
const LEVELS_MAX: usize = 24;

/// Where the latencies of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyPlace {
    pub(crate) sums: Piece,
    pub(crate) cells: Piece,
    pub(crate) longest: Piece,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
}

impl LatencyPlace {
    /// Writes what was made.
    pub(crate) fn write(made: MadeLatencies, to: &mut Writer<'_>) -> io::Result<Option<LatencyPlace>> {
        let Some(([sums, cells, longest], shift)) = made.bytes else { return Ok(None) };
        let (sums, cells, longest) = (to.piece(&sums)?, to.piece(&cells)?, to.piece(&longest)?);
        Ok(Some(LatencyPlace { sums, cells, longest, shift }))
    }

    /// The latencies of the part, with cells and the longest where they are wanted.
    pub(crate) fn read(&self, pieces: &Pieces, with_cells: bool, with_longest: bool) -> Option<LatencyPart> {
        let mut part = LatencyPart::decode(&pieces.read(&self.sums)?)?;
        if with_cells {
            part.decode_cells(&pieces.read(&self.cells)?)?;
        }
        if with_longest {
            part.decode_longest(&pieces.read(&self.longest)?)?;
        }
        (part.shift == self.shift).then_some(part)
    }
}

/// Where latencies are, by level; `None` where there was too much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatencyHead(pub Vec<Vec<Option<LatencyPlace>>>);

impl LatencyHead {
    /// Adds the next one of a level.
    pub fn add(&mut self, level: usize, place: Option<LatencyPlace>) {
        if self.0.len() <= level {
            self.0.resize(level + 1, Vec::new());
        }
        self.0[level].push(place);
    }

    pub fn put(&self, put: &mut Put) {
        put.number(self.0.len() as u64);
        for level in &self.0 {
            put.number(level.len() as u64);
            for place in level {
                put.option(place.as_ref(), |put, place| {
                    [place.sums, place.cells, place.longest].iter().for_each(|piece| piece.put(put));
                    put.number(place.shift.into());
                });
            }
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<LatencyHead> {
        let place = |take: &mut Take<'_>| {
            let (sums, cells, longest) = (Piece::take(take)?, Piece::take(take)?, Piece::take(take)?);
            let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
            Some(LatencyPlace { sums, cells, longest, shift })
        };
        let mut head = LatencyHead::default();
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.0.push((0..count).map(|_| take.option(place)).collect::<Option<_>>()?);
        }
        Some(head)
    }
}
