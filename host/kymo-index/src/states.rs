// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checkpoints: the state of the machine at times of a trace, and where each stream goes on from there [spec/index.md
//! 5].

use std::io;
use std::sync::Arc;

use kymo_analyze::compact::{Put, Take};
use kymo_ctf::read::{Inside, PacketMark, PacketPlace, Reader, Start, Trace};
use kymo_feed::{Classes, Walker};

use crate::counts::account::{put_mark, take_mark};
use crate::counts::buckets::Buckets;
use crate::file::{Piece, Pieces, Writer};
use crate::pyramid::Pyramid;
use crate::spans::IndexedSpans;

/// How far checkpoints are apart at least.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Records: what a look at a moment has to read at most, where states are small.
    pub records: u64,
    /// Times the bytes of the checkpoint before, in bytes of trace: so much smaller is all of them than the trace.
    pub share: u64,
}

impl Default for Spacing {
    fn default() -> Spacing {
        Spacing { records: 1 << 15, share: 64 }
    }
}

/// A checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Newest time of what was passed, ns.
    pub newest: i64,
    pub(crate) piece: Piece,
}

/// Decides when a checkpoint is due, and writes it.
pub(crate) struct Keeper {
    /// Those that were written.
    pub checkpoints: Vec<Checkpoint>,
    spacing: Spacing,
    /// Streams that are read.
    is_read: Vec<bool>,
    newest: i64,
    records: u64,
    trace_bytes: u64,
    trace_bytes_min: u64,
}

impl Keeper {
    /// Of streams that are read, or not.
    pub fn new(is_read: Vec<bool>, spacing: Spacing) -> Keeper {
        Keeper {
            checkpoints: Vec::new(),
            spacing,
            is_read,
            newest: i64::MIN,
            records: 0,
            trace_bytes: 0,
            trace_bytes_min: 0,
        }
    }

    /// So many bytes of packets were begun.
    pub fn note_bytes(&mut self, bytes: u64) {
        self.trace_bytes += bytes;
    }

    /// An item of that time was passed.
    #[inline]
    pub fn note(&mut self, ns: i64) {
        self.newest = self.newest.max(ns);
        self.records += 1;
    }

    /// Whether it is time for a checkpoint.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.records >= self.spacing.records && self.trace_bytes >= self.trace_bytes_min
    }

    /// Writes a checkpoint in front of what the reader passed last.
    pub fn keep(&mut self, walker: &Walker<'_>, reader: &Reader<'_>, to: &mut Writer<'_>) -> io::Result<()> {
        let mut put = Put::default();
        put.number(self.is_read.len() as u64);
        for (place, is_read) in reader.places().iter().zip(&self.is_read) {
            put.option(is_read.then_some(place), put_place);
        }
        walker.encode(&mut put);
        let piece = to.piece(&put.0)?;
        self.checkpoints.push(Checkpoint { newest: self.newest, piece });
        (self.records, self.trace_bytes, self.trace_bytes_min) = (0, 0, piece.bytes.saturating_mul(self.spacing.share));
        Ok(())
    }
}

fn put_place(put: &mut Put, place: &PacketPlace) {
    put_mark(put, &place.packet, &PacketMark::default());
    put.option(place.inside, |put, inside| {
        put.number(inside.bits);
        put.number(inside.time);
        let has_thread = u8::from(inside.thread.is_some());
        put.byte(u8::from(inside.said[0]) | u8::from(inside.said[1]) << 1 | has_thread << 2);
        if let Some(thread) = inside.thread {
            put.number(thread.into());
        }
    });
}

fn take_place(take: &mut Take<'_>) -> Option<PacketPlace> {
    let packet = take_mark(take, &PacketMark::default())?;
    let inside = take.option(|take| {
        let (bits, time, said) = (take.number()?, take.number()?, take.byte().filter(|said| *said < 8)?);
        let thread = if said & 4 == 0 { None } else { Some(u32::try_from(take.number()?).ok()?) };
        Some(Inside { bits, time, said: [said & 1 != 0, said & 2 != 0], thread })
    })?;
    Some(PacketPlace { packet, inside })
}

/// The checkpoints of a trace, or of all parts of one that was cut.
#[derive(Debug)]
pub struct States {
    pub(crate) pieces: Arc<Pieces>,
    /// In the order of time.
    pub checkpoints: Vec<Checkpoint>,
    pub(crate) cpus: Piece,
    /// Where the time of threads went.
    pub pyramid: Pyramid,
    /// Spans of a program's own events.
    pub spans: Option<IndexedSpans>,
}

impl States {
    /// The newest checkpoint before `from`: where each stream goes on, and the state. `None` where there is none
    /// before, or its bytes are not what they were.
    pub fn before<'c>(&self, from: i64, traces: &[Trace], classes: &'c Classes) -> Option<(Vec<Start>, Walker<'c>)> {
        let behind = self.checkpoints.partition_point(|checkpoint| checkpoint.newest < from);
        let bytes = self.pieces.read(&self.checkpoints.get(behind.checked_sub(1)?)?.piece)?;
        let streams: usize = traces.iter().map(|trace| trace.streams().count()).sum();
        decode(&bytes, streams, classes)
    }

    /// Time of each CPU by what it did, ns: of CPU n the rows from n * [`crate::CPU_PARTS`] on.
    pub fn cpus(&self) -> Option<Buckets> {
        Buckets::take(&mut Take(&self.pieces.read(&self.cpus)?))
    }
}

/// A checkpoint of its bytes.
pub(crate) fn decode<'c>(bytes: &[u8], streams: usize, classes: &'c Classes) -> Option<(Vec<Start>, Walker<'c>)> {
    let mut take = Take(bytes);
    if take.count()? != streams {
        return None;
    }
    let mut start = || Some(take.option(take_place)?.map_or(Start::Skip, Start::At));
    let starts = (0..streams).map(|_| start()).collect::<Option<_>>()?;
    Walker::decode(take, classes).map(|walker| (starts, walker))
}

/// Checkpoints as part of a piece.
pub(crate) fn put_checkpoints(put: &mut Put, checkpoints: &[Checkpoint]) {
    put.number(checkpoints.len() as u64);
    let mut before = 0i64;
    for checkpoint in checkpoints {
        put.signed(checkpoint.newest.wrapping_sub(before));
        checkpoint.piece.put(put);
        before = checkpoint.newest;
    }
}

/// The same again.
pub(crate) fn take_checkpoints(take: &mut Take<'_>) -> Option<Vec<Checkpoint>> {
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    let mut before = 0i64;
    for _ in 0..take.count()? {
        before = before.wrapping_add(take.signed()?);
        checkpoints.push(Checkpoint { newest: before, piece: Piece::take(take)? });
    }
    checkpoints.is_sorted_by_key(|checkpoint| checkpoint.newest).then_some(checkpoints)
}
