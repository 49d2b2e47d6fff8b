// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the spans of parts are [spec/index.md 5.5].

use std::io;
use std::sync::mpsc::Receiver;

use kymo_analyze::compact::{Put, Take};

use crate::file::{Piece, Writer};
use crate::latencies::head::LatencyHead;
use crate::pictures::part::SHIFT_MAX;
use crate::spans::flame::{FlamePath, PATHS_MAX};
use crate::spans::parts::MadeSpans;

/// Levels at most: 4 to the power of 24 parts.
const LEVELS_MAX: usize = 24;

/// Where the spans of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanPiece {
    pub piece: Piece,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
}

/// Which spans these are, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpansHead {
    /// Pairs of events, as `kymo latency --span` has them.
    pub texts: Vec<String>,
    /// Where parts of the lowest level are over, ns, with what has begun by then.
    pub over: Vec<(i64, Piece)>,
    /// By level; `None` where there was too much.
    pub levels: Vec<Vec<Option<SpanPiece>>>,
    /// The same of where their time went.
    pub flames: Vec<Vec<Option<Piece>>>,
    /// How long they took, by level.
    pub latencies: LatencyHead,
    /// What spans lie within, by number.
    pub paths: Vec<FlamePath>,
}

impl SpansHead {
    pub fn put(&self, put: &mut Put) {
        put.number(self.texts.len() as u64);
        self.texts.iter().for_each(|text| put.text(text));
        put.number(self.over.len() as u64);
        let mut before = 0i64;
        for (at, piece) in &self.over {
            put.signed(at.wrapping_sub(before));
            piece.put(put);
            before = *at;
        }
        put.number(self.levels.len() as u64);
        for level in &self.levels {
            put.number(level.len() as u64);
            for part in level {
                put.option(part.as_ref(), |put, part| {
                    part.piece.put(put);
                    put.number(part.shift.into());
                });
            }
        }
        put.number(self.flames.len() as u64);
        for level in &self.flames {
            put.number(level.len() as u64);
            level.iter().for_each(|part| put.option(part.as_ref(), |put, part| part.put(put)));
        }
        self.latencies.put(put);
        put.number(self.paths.len() as u64);
        for (parent, span) in &self.paths {
            put.option(*parent, |put, parent| put.number(parent.into()));
            put.number((*span).into());
        }
    }

    pub fn take(take: &mut Take<'_>) -> Option<SpansHead> {
        let count = take.count()?;
        let texts = (0..count).map(|_| take.text().map(str::to_owned)).collect::<Option<_>>()?;
        let mut head = SpansHead { texts, ..SpansHead::default() };
        let mut before = 0i64;
        for _ in 0..take.count()? {
            before = before.wrapping_add(take.signed()?);
            head.over.push((before, Piece::take(take)?));
        }
        let part = |take: &mut Take<'_>| {
            let piece = Piece::take(take)?;
            Some(SpanPiece { piece, shift: take.small().filter(|shift| *shift <= SHIFT_MAX)? })
        };
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.levels.push((0..count).map(|_| take.option(part)).collect::<Option<_>>()?);
        }
        for _ in 0..take.count().filter(|levels| *levels <= LEVELS_MAX)? {
            let count = take.count()?;
            head.flames.push((0..count).map(|_| take.option(Piece::take)).collect::<Option<_>>()?);
        }
        head.latencies = LatencyHead::take(take)?;
        for number in 0..take.count().filter(|paths| *paths <= PATHS_MAX)? {
            // A path comes behind that which it goes on.
            let parent = take.option(|take| take.small::<u32>().filter(|parent| (*parent as usize) < number))?;
            head.paths.push((parent, take.small()?));
        }
        head.over.is_sorted_by(|a, b| a.0 < b.0).then_some(head)
    }
}

/// Writes what another thread makes.
pub(crate) struct SpanSink {
    pub head: SpansHead,
    pub made: Receiver<MadeSpans>,
}

impl SpanSink {
    /// Of pairs of events.
    pub fn new(texts: &[String], made: Receiver<MadeSpans>) -> SpanSink {
        SpanSink { head: SpansHead { texts: texts.to_vec(), ..SpansHead::default() }, made }
    }

    /// Writes what is made by now.
    pub fn poll(&mut self, to: &mut Writer<'_>) -> io::Result<()> {
        while let Ok(made) = self.made.try_recv() {
            put_made(&mut self.head, made, to)?;
        }
        Ok(())
    }

    /// Waits for all, and writes it.
    pub fn finish(mut self, to: &mut Writer<'_>) -> io::Result<SpansHead> {
        while let Ok(made) = self.made.recv() {
            put_made(&mut self.head, made, to)?;
        }
        Ok(self.head)
    }
}

/// Writes what was made.
pub(crate) fn put_made(head: &mut SpansHead, made: MadeSpans, to: &mut Writer<'_>) -> io::Result<()> {
    match made {
        MadeSpans::Part(level, part) => {
            let levels = &mut head.levels;
            levels.resize(levels.len().max(level + 1), Vec::new());
            let part = part.map(|(bytes, shift)| io::Result::Ok(SpanPiece { piece: to.piece(&bytes)?, shift }));
            levels[level].push(part.transpose()?);
        }
        MadeSpans::Flame(level, part) => {
            let levels = &mut head.flames;
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(part.map(|bytes| to.piece(&bytes)).transpose()?);
        }
        MadeSpans::Latencies(made) => head.latencies.write(made, to)?,
        MadeSpans::Paths(paths) => head.paths = paths,
        MadeSpans::Over(at, waiting) => head.over.push((at, to.piece(&waiting)?)),
    }
    Ok(())
}
