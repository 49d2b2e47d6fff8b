// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a trace: [`Error`] when it cannot be opened, [`Caveat`] when part of it is damaged.

use std::fmt;

/// Why a trace cannot be opened: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("{path}: cannot be read")]
    Io {
        /// The file or directory.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory has no `metadata`.
    #[error("{dir}: no file `metadata` in it, so it is not a trace{hint}")]
    NotATrace {
        /// The directory.
        dir: String,
        /// Traces nearby, as a clause; or empty.
        hint: String,
    },
    /// The metadata stops before its end.
    #[error(
        "{file}: {what}; the copy is not complete, or the recording stopped before its description was written: copy the \
         trace again, or record again"
    )]
    Torn {
        /// The metadata file.
        file: String,
        /// Where it stops.
        what: String,
    },
    /// The metadata is CTF 1.8 text that makes no sense, or that this reader does not support.
    #[error("{file}:{line}:{column}: {what}")]
    Text {
        /// The metadata file.
        file: String,
        /// Counted from 1.
        line: u32,
        /// Characters, counted from 1.
        column: u32,
        /// What is wrong there.
        what: String,
    },
    /// The metadata is in packets, and one of them cannot be read.
    #[error("{file}: packet {packet}: {what}")]
    Packet {
        /// The metadata file.
        file: String,
        /// From 0.
        packet: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The metadata is CTF 2 and one fragment makes no sense, or is not supported.
    #[error("{file}: fragment {fragment}: {what}")]
    Fragment {
        /// The metadata file.
        file: String,
        /// Counted from 1.
        fragment: usize,
        /// What is wrong there.
        what: String,
    },
}

/// A value and what was wrong on the way to it: damaged traces are normal input.
#[derive(Debug)]
pub struct Decoded<T> {
    /// The value, as good as it could be had.
    pub value: T,
    /// What was wrong.
    pub caveats: Vec<Caveat>,
}

/// One piece of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caveat {
    /// The file, as named in the trace directory.
    pub file: String,
    /// Number of the packet in the file, from 0, damaged ones counted too.
    pub packet: Option<u64>,
    /// Byte in the file.
    pub at: u64,
    /// What was wrong there.
    pub damage: Damage,
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Damage::Remark { line, column, what } = &self.damage {
            return write!(f, "{}:{line}:{column}: {what}", self.file);
        }
        if let Damage::FragmentRemark { fragment, what } = &self.damage {
            return write!(f, "{}: fragment {fragment}: {what}", self.file);
        }
        write!(f, "{}, ", self.file)?;
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}, ")?;
        }
        write!(f, "byte {}: {}", self.at, self.damage)
    }
}

/// Kinds of damage, and what was done about each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// No packet begins here.
    BadMagic {
        /// Bytes that were passed over.
        skipped: u64,
    },
    /// The packet names another trace.
    WrongUuid {
        /// Bytes that were passed over.
        skipped: u64,
    },
    /// The packet names a stream class that the metadata does not have.
    UnknownStream {
        /// Its id.
        id: u64,
        /// Bytes that were passed over.
        skipped: u64,
    },
    /// The file ends inside the packet.
    Truncated {
        /// Bytes of the packet that are there.
        have: u64,
        /// Bytes that it says it has; 0 where the file ends inside its head.
        said: u64,
    },
    /// The file ends inside the packet, and somebody writes the trace, or did so until he was killed.
    Unfinished {
        /// Bytes of the packet that are there.
        have: u64,
        /// Bytes that it says it has; 0 where the file ends inside its head.
        said: u64,
    },
    /// Content and packet size contradict each other or the file.
    Sizes {
        /// Bits, as written.
        content_bits: u64,
        /// Bits, as written.
        packet_bits: u64,
        /// Bytes that were taken as the packet instead.
        used_bytes: u64,
    },
    /// A record with an id that the metadata does not have.
    UnknownEvent {
        /// The id.
        id: u64,
    },
    /// A record runs past the end of its packet.
    PastEnd,
    /// A record that makes no sense: a negative length, a variant without an option for its tag.
    BadRecord {
        /// What is wrong.
        what: &'static str,
    },
    /// The packet's end lies before its begin. Cycles.
    EndBeforeBegin {
        /// As written.
        begin: u64,
        /// As written.
        end: u64,
    },
    /// The packet begins before the previous one ended. Cycles.
    Overlap {
        /// As written.
        begin: u64,
        /// End of the previous packet.
        previous_end: u64,
    },
    /// A record lies outside its packet's begin and end. Cycles. Said once a packet.
    TimeOutside {
        /// Of the record.
        time: u64,
        /// Of the packet.
        begin: u64,
        /// Of the packet.
        end: u64,
    },
    /// A record lies before the one in front of it. Cycles. Said once a packet.
    TimeBackwards {
        /// How far.
        cycles: u64,
    },
    /// The counter of lost records went back.
    LossBackwards {
        /// As written.
        now: u64,
        /// In the previous packet.
        before: u64,
    },
    /// Something in the metadata's text was passed over.
    Remark {
        /// Counted from 1.
        line: u32,
        /// Characters, counted from 1.
        column: u32,
        /// What, and what was done about it.
        what: String,
    },
    /// Something in a fragment of CTF 2's metadata was passed over.
    FragmentRemark {
        /// Counted from 1.
        fragment: usize,
        /// What, and what was done about it.
        what: String,
    },
    /// The metadata ends in the middle; what stands before was used.
    TornMetadata,
    /// The file was cut short, or could not be read, while it was read.
    CutShort,
}

/// What a caveat means for who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something could not be read.
    Unread,
    /// Times, or counters of losses, do not fit each other: all was read, and is as it was written.
    OddTime,
    /// Something was not understood, or is not written yet, and what was read does not depend on it.
    Remark,
}

impl Damage {
    /// What it means.
    pub fn severity(&self) -> Severity {
        match self {
            Self::EndBeforeBegin { .. }
            | Self::Overlap { .. }
            | Self::TimeOutside { .. }
            | Self::TimeBackwards { .. }
            | Self::LossBackwards { .. } => Severity::OddTime,
            Self::Remark { .. } | Self::FragmentRemark { .. } | Self::Unfinished { .. } => Severity::Remark,
            _ => Severity::Unread,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMagic { skipped } => write!(f, "no packet begins here; {skipped} bytes skipped"),
            Self::WrongUuid { skipped } => write!(
                f,
                "the packet's UUID is not that of the metadata, so it may belong to another trace; {skipped} bytes skipped \
                 (--ignore-uuid reads it)"
            ),
            Self::UnknownStream { id, skipped } => {
                write!(f, "stream class {id} is not in the metadata; {skipped} bytes skipped")
            }
            Self::Truncated { have, said: 0 } => {
                write!(f, "the file ends inside the packet's head, after {have} bytes")
            }
            Self::Truncated { have, said } => {
                write!(f, "the file ends inside the packet, which has {have} of {said} bytes; whole records kept")
            }
            Self::Unfinished { have, said: 0 } => {
                write!(f, "the packet is unfinished: {have} bytes of its head are written")
            }
            Self::Unfinished { have, said } => {
                write!(f, "the packet is unfinished: {have} of {said} bytes are written; whole records kept")
            }
            Self::Sizes { content_bits, packet_bits, used_bytes } => write!(
                f,
                "content of {content_bits} bits in a packet of {packet_bits} bits cannot be; {used_bytes} bytes taken as the packet"
            ),
            Self::UnknownEvent { id } => write!(f, "event id {id} is not in the metadata; rest of the packet skipped"),
            Self::PastEnd => write!(f, "a record runs past the end of the packet; rest of the packet skipped"),
            Self::BadRecord { what } => write!(f, "{what}; rest of the packet skipped"),
            Self::EndBeforeBegin { begin, end } => {
                write!(f, "the packet ends at cycle {end}, before it begins at {begin}")
            }
            Self::Overlap { begin, previous_end } => {
                write!(f, "the packet begins at cycle {begin}, before the previous one ended at {previous_end}")
            }
            Self::TimeOutside { time, begin, end } => {
                write!(f, "a record at cycle {time} lies outside its packet, {begin} to {end}")
            }
            Self::TimeBackwards { cycles } => write!(f, "a record lies {cycles} cycles before the one in front of it"),
            Self::LossBackwards { now, before } => {
                write!(
                    f,
                    "the counter of lost records went from {before} back to {now}: how many were lost is not known, and none is counted"
                )
            }
            Self::Remark { what, .. } | Self::FragmentRemark { what, .. } => f.write_str(what),
            Self::CutShort => {
                write!(f, "the file was cut short, or could not be read, while it was read; the rest of it is missing")
            }
            Self::TornMetadata => write!(f, "the metadata ends in the middle of a packet; what stands before was used"),
        }
    }
}
