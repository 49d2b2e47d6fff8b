// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where wake-ups of parts are [spec/index.md 5.4].

use kymo_analyze::compact::{Put, Take};

use crate::file::Piece;

/// Levels at most: 8 to the power of 24 parts.
const LEVELS_MAX: usize = 24;

/// Where wake-ups are, by level; `None` where there was too much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeHead(pub Vec<Vec<Option<Piece>>>);

impl WakeHead {
    /// Adds the next one of a level.
    pub fn add(&mut self, level: usize, piece: Option<Piece>) {
        if self.0.len() <= level {
            self.0.resize(level + 1, Vec::new());
        }
        self.0[level].push(piece);
    }

    pub fn put(&self, put: &mut Put) {
        put.number(self.0.len() as u64);
        for level in &self.0 {
            put.number(level.len() as u64);
            level.iter().for_each(|piece| put.option(piece.as_ref(), |put, piece| piece.put(put)));
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<WakeHead> {
        let mut head = WakeHead::default();
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.0.push((0..count).map(|_| take.option(Piece::take)).collect::<Option<_>>()?);
        }
        Some(head)
    }
}
