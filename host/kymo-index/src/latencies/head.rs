// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where latencies of parts are [spec/index.md 5.3].

use std::io;

use kymo_analyze::compact::{Put, Take};

use crate::file::{Piece, Pieces, Writer};
use crate::latencies::maker::MadeLatencies;
use crate::latencies::part::LatencyPart;
use crate::latencies::who::{Who, put_all, take_all};
use crate::pictures::part::SHIFT_MAX;

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

/// Where latencies are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatencyHead {
    /// By level; `None` where there was too much.
    pub levels: Vec<Vec<Option<LatencyPlace>>>,
    /// Threads of samples, by number.
    pub who: Vec<Who>,
}

impl LatencyHead {
    /// Writes the next part of a level.
    pub fn write(&mut self, made: MadeLatencies, to: &mut Writer<'_>) -> io::Result<()> {
        let MadeLatencies { level, bytes, who } = made;
        let place = match bytes {
            Some(([sums, cells, longest], shift)) => {
                let (sums, cells, longest) = (to.piece(&sums)?, to.piece(&cells)?, to.piece(&longest)?);
                Some(LatencyPlace { sums, cells, longest, shift })
            }
            None => None,
        };
        self.who.extend(who);
        if self.levels.len() <= level {
            self.levels.resize(level + 1, Vec::new());
        }
        self.levels[level].push(place);
        Ok(())
    }

    /// The latencies of a part, with cells and the longest where they are wanted.
    pub fn read(
        &self,
        place: &LatencyPlace,
        pieces: &Pieces,
        with_cells: bool,
        with_longest: bool,
    ) -> Option<LatencyPart> {
        let mut part = LatencyPart::decode(&pieces.read(&place.sums)?, &self.who)?;
        if with_cells {
            part.decode_cells(&pieces.read(&place.cells)?)?;
        }
        if with_longest {
            part.decode_longest(&pieces.read(&place.longest)?, &self.who)?;
        }
        (part.shift == place.shift).then_some(part)
    }

    pub fn put(&self, put: &mut Put) {
        put.number(self.levels.len() as u64);
        for level in &self.levels {
            put.number(level.len() as u64);
            for place in level {
                put.option(place.as_ref(), |put, place| {
                    [place.sums, place.cells, place.longest].iter().for_each(|piece| piece.put(put));
                    put.number(place.shift.into());
                });
            }
        }
        put_all(put, &self.who);
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
            head.levels.push((0..count).map(|_| take.option(place)).collect::<Option<_>>()?);
        }
        head.who = take_all(take)?;
        Some(head)
    }
}
