// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that somebody chose, in parts as those of an index, in a file that only this process has [spec/view.md 6.1].
//! Of what the index has no records are needed: each part of the lowest level has its spans one by one, too.

use std::fs::File;
use std::io;
use std::sync::Arc;

use kymo_analyze::Recorders;

use crate::file::{Pieces, Writer};
use crate::latencies::samples::TIME_MAX;
use crate::spans::IndexedSpans;
use crate::spans::head::{SpansHead, put_made};
use crate::spans::part::SpanPart;
use crate::spans::parts::{MadeSpans, OpenSpan, RowSpan, SpanParts};
use crate::spans::whole::{WholePieces, put_begun_by, put_open};

/// How spans are kept.
#[derive(Clone, Copy, Debug)]
pub struct KeepHow {
    /// Spans of a part, at least.
    pub spans: usize,
    /// The file has so many bytes at most.
    pub bytes_max: u64,
}

/// Why spans cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The file.
    #[error("cannot write them: {0}")]
    Io(#[from] io::Error),
    /// As [`KeepHow`] has it.
    #[error("they are more than {0} bytes")]
    Bytes(u64),
    /// Nothing can be said of parts then.
    #[error("times go back")]
    Times,
}

/// Keeps spans, as they end.
pub struct SpanKeeper<'f> {
    how: KeepHow,
    parts: SpanParts,
    head: SpansHead,
    whole: WholePieces,
    to: Writer<'f>,
    refused: Option<NotKept>,
}

impl SpanKeeper<'_> {
    /// Whether a part is over in front of a record of this time. `open`: how many have begun and not ended.
    pub fn is_over(&mut self, time: i64, open: impl FnOnce() -> usize) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let is_over = self.parts.is_over(time, open).filter(|_| (-TIME_MAX..TIME_MAX).contains(&time));
        if is_over.is_none() {
            self.refused = Some(NotKept::Times);
        }
        is_over == Some(true)
    }

    /// Ends a part that is over in front of a record of this time. `begun`: what has begun and not ended.
    pub fn end_part(&mut self, time: i64, begun: &[OpenSpan]) {
        self.refused = self.write_part(time, begun).err();
    }

    /// A record of this time comes, that may end some.
    pub fn reach(&mut self, time: i64) {
        self.parts.reach(time);
    }

    /// A span ends with that record.
    pub fn end(&mut self, of: RowSpan) {
        self.whole.is_across |= of.begun_by != of.span.tid;
        match of.span.from >= -TIME_MAX && of.span.from <= of.span.to {
            true => self.parts.end(of),
            false => self.refused = Some(NotKept::Times),
        }
    }

    /// Nothing can come of it any more.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    fn write_part(&mut self, at: i64, begun: &[OpenSpan]) -> Result<(), NotKept> {
        let SpanKeeper { parts, head, to, .. } = self;
        let mut written = Ok(());
        let whole = parts.end_part(at, begun, |made| {
            if written.is_ok() {
                written = put_made(head, made, to);
            }
        });
        written?;
        head.over.push((at, to.piece(&put_open(at, begun, &parts.nesting))?));
        self.write_whole(&whole)?;
        match self.to.bytes() > self.how.bytes_max {
            true => Err(NotKept::Bytes(self.how.bytes_max)),
            false => Ok(()),
        }
    }

    fn write_whole(&mut self, whole: &[RowSpan]) -> io::Result<()> {
        let part = SpanPart::whole(whole.iter().map(|of| (of.row, of.span)));
        let pieces = (self.to.piece(&part.encode())?, self.to.piece(&put_begun_by(whole))?);
        self.whole.parts.push(pieces);
        Ok(())
    }

    /// What comes behind the last part is one, too.
    fn finish(mut self, begun: &[OpenSpan]) -> Result<(SpansHead, WholePieces, u64), NotKept> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let whole = self.parts.rest(begun);
        self.write_whole(&whole)?;
        self.whole.end = self.to.piece(&put_open(0, begun, &self.parts.nesting))?;
        put_made(&mut self.head, MadeSpans::Paths(self.parts.paths()), &mut self.to)?;
        let bytes = self.to.finish(&[])?;
        Ok((self.head, self.whole, bytes))
    }
}

impl IndexedSpans {
    /// Keeps spans in an empty file. `fill` hands them on as they end, in the order of time, and says what has begun by
    /// the end and not ended.
    ///
    /// # Errors
    /// That of `fill`. `Ok(Err(_))`: they cannot be kept.
    pub fn keep<E>(
        (file, texts): (File, &[String]),
        how: KeepHow,
        recorders: Recorders,
        fill: impl FnOnce(&mut SpanKeeper<'_>) -> Result<Vec<OpenSpan>, E>,
    ) -> Result<Result<IndexedSpans, NotKept>, E> {
        let to = match Writer::new(&file) {
            Ok(to) => to,
            Err(error) => return Ok(Err(error.into())),
        };
        let head = SpansHead { texts: texts.to_vec(), ..SpansHead::default() };
        let parts = SpanParts::new(how.spans, recorders);
        let mut keeper = SpanKeeper { how, parts, head, whole: WholePieces::default(), to, refused: None };
        let begun = fill(&mut keeper)?;
        Ok(keeper.finish(&begun).map(|(head, whole, bytes)| {
            let pieces = Arc::new(Pieces { file, bytes });
            IndexedSpans { pieces, head, whole: Some(whole) }
        }))
    }
}
