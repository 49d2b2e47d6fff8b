// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of any trace, written again as CTF 1.8 that every reader reads [spec/exchange.md 2.1].
//!
//! Whatever the source has (bits, big endian, compact heads, CTF 2) becomes whole bytes, little endian: integers of 8,
//! 16, 32 and 64 bits, floats of 32 and 64, text up to a NUL character, lengths and tags of 32 bits. Nothing here opens
//! a file; which records make a packet is for others.

mod classes;
mod encode;
mod layout;
mod text;

use crate::read::{Fields, Loss, Metadata, Record, Trace};
use crate::write::{EnvValue, PACKET_MAGIC};
use classes::Classes;

/// A record that is not what its metadata says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} of {of} has no value that its class can have")]
pub struct Unfit {
    /// The event, or `a packet`.
    pub of: String,
    /// The field, as it would be written.
    pub field: String,
}

/// Writes records of one trace again.
pub struct Transcoder<'t> {
    metadata: &'t Metadata,
    classes: Classes,
    /// Texts so far that had bytes that are not text, which were replaced by U+FFFD.
    pub replaced_texts: u64,
}

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The trace.
    pub uuid: [u8; 16],
    /// Position of the stream class, as of [`Transcoder::stream_of`].
    pub stream: usize,
    /// The stream file: distinct in its stream class.
    pub instance: u64,
    /// Clock: its first record or earlier.
    pub begin: u64,
    /// Clock: its last record or later.
    pub end: u64,
    /// Number of the packet in the file, missing ones counted.
    pub seq: u64,
    /// Records lost up to `end`, cumulative over the file.
    pub discarded: u64,
}

impl Packet {
    /// Bytes in front of the source's own fields.
    const BYTES: usize = 32 + 6 * 8;

    /// Everything in front of the records: `context` is what [`Transcoder::packet_context`] gave, `content_bytes` what
    /// the records have.
    pub fn encode(&self, context: &[u8], content_bytes: usize) -> Vec<u8> {
        let bits = (Self::BYTES + context.len() + content_bytes) as u64 * 8;
        let mut out = Vec::with_capacity(Self::BYTES + context.len());
        out.extend_from_slice(&PACKET_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&(self.stream as u32).to_le_bytes());
        for word in [self.instance, self.begin, self.end, bits, bits, self.seq, self.discarded] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(context);
        out
    }
}

impl<'t> Transcoder<'t> {
    /// For records of `trace`. `learns`: records are given with threads and processes that they do not have themselves,
    /// but that somebody has found out.
    pub fn new(trace: &'t Trace, learns: bool) -> Self {
        Self { metadata: &trace.metadata, classes: Classes::new(&trace.metadata, learns), replaced_texts: 0 }
    }

    /// How many fields have another name than in the source, because CTF 1.8 cannot have that one, or it is there
    /// twice.
    pub fn renamed(&self) -> u64 {
        self.classes.renamed
    }

    /// The file `metadata`. Keys of the environment are distinct.
    pub fn metadata(&self, uuid: &[u8; 16], env: &[(String, EnvValue)]) -> String {
        text::metadata(self.metadata, &self.classes, uuid, env)
    }

    /// Position of the stream class of an event, which is given by its position.
    pub fn stream_of(&self, event: usize) -> usize {
        self.classes.events.get(event).map_or(0, |event| event.stream)
    }

    /// Position of the stream class of a loss.
    pub fn stream_of_loss(&self, loss: &Loss<'_>) -> usize {
        let class = loss.packet_context.class();
        self.metadata.streams.iter().position(|stream| stream.packet_context == class).unwrap_or(0)
    }

    /// Appends the fields of a packet's context that the source's tracer has put there.
    ///
    /// # Errors
    /// The fields are of another stream class.
    pub fn packet_context(&mut self, stream: usize, fields: &Fields<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let Some(layout) = self.classes.streams.get(stream) else { return Ok(()) };
        let replaced =
            encode::fields(&layout.packet, fields, out).map_err(|field| Unfit { of: "a packet".into(), field })?;
        self.replaced_texts += replaced;
        Ok(())
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The record is of another trace.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let unfit = |field| Unfit { of: record.event.name.clone(), field };
        let Some(event) = self.classes.events.get(record.event_position) else { return Err(unfit(String::new())) };
        let Some(stream) = self.classes.streams.get(event.stream) else { return Err(unfit(String::new())) };
        out.extend_from_slice(&event.id.to_le_bytes()[..stream.id_bytes]);
        out.extend_from_slice(&record.cycles.to_le_bytes());
        let mut replaced = encode::fields(&stream.common, &record.common_context, out).map_err(unfit)?;
        stream.added.iter().for_each(|writer| writer.encode(record, out));
        replaced += encode::fields(&event.context, &record.context, out).map_err(unfit)?;
        replaced += encode::fields(&event.payload, &record.payload, out).map_err(unfit)?;
        self.replaced_texts += replaced;
        Ok(())
    }
}
