// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where pictures of parts are [spec/index.md 5.2].

use kymo_analyze::compact::{Put, Take};

use crate::file::Piece;
use crate::pictures::part::SHIFT_MAX;

/// Levels at most: 4 to the power of 24 parts.
const LEVELS_MAX: usize = 24;

/// Where the picture of a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PicturePlace {
    pub(crate) threads: Piece,
    pub(crate) cpus: Piece,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
}

/// Where pictures are, by level; `None` where there was too much for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PictureHead(pub Vec<Vec<Option<PicturePlace>>>);

impl PictureHead {
    /// Adds the next one of a level.
    pub fn add(&mut self, (level, place): (usize, Option<PicturePlace>)) {
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
                    place.threads.put(put);
                    place.cpus.put(put);
                    put.number(place.shift.into());
                });
            }
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<PictureHead> {
        let place = |take: &mut Take<'_>| {
            let (threads, cpus) = (Piece::take(take)?, Piece::take(take)?);
            let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
            Some(PicturePlace { threads, cpus, shift })
        };
        let mut head = PictureHead::default();
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.0.push((0..count).map(|_| take.option(place)).collect::<Option<_>>()?);
        }
        Some(head)
    }
}
