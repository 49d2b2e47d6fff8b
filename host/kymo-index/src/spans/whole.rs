// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of parts one by one, as bytes [spec/view.md 6.1]: those that end in a part, the threads that began them, and
//! what has begun and not ended.

use std::collections::BTreeMap;

use kymo_analyze::compact::{Put, Take};

use crate::file::{Piece, Pieces};
use crate::spans::bytes::{in_range, put_int, take_int};
use crate::spans::nesting::Nesting;
use crate::spans::part::{SpanItem, SpanPart, SpanRow};
use crate::spans::parts::{OpenSpan, RowSpan};

/// Spans in a part, one by one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WholeSpans {
    /// That end in it, in the order of their ends.
    pub ended: Vec<RowSpan>,
    /// That have begun by its end, and not ended.
    pub begun: Vec<OpenSpan>,
}

/// Where spans are one by one.
#[derive(Debug, Default)]
pub(crate) struct WholePieces {
    /// By part: spans, and which threads began them.
    pub parts: Vec<(Piece, Piece)>,
    /// What has begun at the end of the last part.
    pub end: Piece,
    /// Some end in another thread than they began in.
    pub is_across: bool,
}

impl WholePieces {
    /// Those that end in a part, in the order of their ends.
    pub fn ended(&self, part: usize, pieces: &Pieces) -> Option<Vec<RowSpan>> {
        let (spans, begun_by) = self.parts.get(part)?;
        let all = SpanPart::decode(&pieces.read(spans)?, |_| true)?;
        let bytes = pieces.read(begun_by)?;
        let mut take = Some(Take(&bytes)).filter(|_| !bytes.is_empty());
        let mut ended = Vec::new();
        for ((row, _), items) in all.rows {
            for item in items.0 {
                let SpanItem::Whole(span) = item else { return None };
                let begun_by = take.as_mut().map_or(Some(span.tid), take_int)?;
                ended.push(RowSpan { row, begun_by, span });
            }
        }
        ended.sort_by_key(|of| of.span.to);
        Some(ended)
    }
}

/// Bytes of the threads that began spans; none where they are those that ended them.
pub(crate) fn put_begun_by(whole: &[RowSpan]) -> Vec<u8> {
    let mut put = Put::default();
    if whole.iter().all(|of| of.begun_by == of.span.tid) {
        return put.0;
    }
    // In the order of rows, as the spans.
    let mut all: Vec<&RowSpan> = whole.iter().collect();
    all.sort_by_key(|of| of.row);
    all.iter().for_each(|of| put_int(&mut put, of.begun_by));
    put.0
}

/// Bytes of what has begun and not ended, with how deep it lies.
pub(crate) fn put_open(at: i64, begun: &[OpenSpan], nesting: &Nesting<SpanRow>) -> Vec<u8> {
    let levels: BTreeMap<_, u16> = nesting.waiting().map(|(row, of, level)| ((row, of), level)).collect();
    let mut put = Put::default();
    put.number(begun.len() as u64);
    for open in begun {
        let (span, from) = open.of;
        [open.row, open.tid].iter().for_each(|number| put_int(&mut put, *number));
        put.number(span.into());
        put.signed(at.wrapping_sub(from));
        put.number(levels.get(&(open.row, open.of)).copied().unwrap_or_default().into());
    }
    put.0
}

/// The same again.
pub(crate) fn take_open(at: i64, bytes: &[u8]) -> Option<Vec<(OpenSpan, u16)>> {
    let mut take = Take(bytes);
    let one = |take: &mut Take<'_>| {
        let (row, tid) = (take_int(take)?, take_int(take)?);
        let of = (take.small()?, in_range(at.checked_sub(take.signed()?)?)?);
        Some((OpenSpan { row, tid, of }, take.small()?))
    };
    let count = take.count()?;
    let all = (0..count).map(|_| one(&mut take)).collect::<Option<_>>()?;
    take.is_empty().then_some(all)
}
