// SPDX-License-Identifier: MIT OR Apache-2.0
//! Field classes: what a trace's metadata says about bits, whichever format it was written in.
//!
//! All classes of a trace lie in one arena, [`Metadata::classes`], and name each other by position. References from
//! a length or a tag to its user are slots: the integer stores its value there while it is decoded.

pub use kymo_abi::desc::Base;
use std::sync::Arc;

use super::clock::Clock;
pub(crate) use super::labels::{Labels, Ranges, within};
use crate::write::EnvValue;

/// Position in [`Metadata::classes`].
pub(crate) type ClassId = u32;

/// Everything the metadata says.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The trace, as its packets name it.
    pub uuid: Option<[u8; 16]>,
    /// The environment, in the order of the file.
    pub env: Vec<(String, EnvValue)>,
    /// Clocks; at least one (an assumed one of 10^9 Hz where the metadata has none).
    pub clocks: Vec<Clock>,
    /// Event types of all stream classes.
    pub events: Vec<EventClass>,
    pub(crate) classes: Vec<Class>,
    /// Number of slots that integers leave their values in.
    pub(crate) slots: u32,
    pub(crate) packet_header: Option<ClassId>,
    /// Member of the packet header that names the trace.
    pub(crate) uuid_member: Option<usize>,
    pub(crate) streams: Vec<StreamClass>,
}

impl Metadata {
    /// Names of the payload fields of an event, without lengths that only say how long the next field is.
    pub fn field_names(&self, event: &EventClass) -> impl Iterator<Item = &str> {
        let members = event.payload.map_or(&[][..], |class| self.members(class));
        members.iter().filter(|member| !member.hidden).map(|member| &*member.name)
    }

    /// The structure that all records of an event's stream have in front of the payload; the event by its position.
    pub(crate) fn context_members(&self, event: usize) -> &[Member] {
        let stream = self.events.get(event).and_then(|event| self.streams.get(event.stream));
        stream.and_then(|stream| stream.common_context).map_or(&[], |class| self.members(class))
    }

    /// Members of a structure.
    #[inline]
    pub(crate) fn members(&self, class: ClassId) -> &[Member] {
        match &self.classes[class as usize].kind {
            ClassKind::Struct { members } => members,
            _ => &[],
        }
    }
}

/// An event type of a trace.
#[derive(Clone, Debug)]
pub struct EventClass {
    /// The id that its records carry.
    pub id: u64,
    /// `provider:name`, or what the tracer chose.
    pub name: String,
    /// Log level, where the tracer writes one.
    pub loglevel: Option<i64>,
    /// Position in [`Metadata::streams`].
    pub(crate) stream: usize,
    pub(crate) context: Option<ClassId>,
    pub(crate) payload: Option<ClassId>,
}

/// A stream class.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamClass {
    pub id: u64,
    pub clock: usize,
    pub packet_context: Option<ClassId>,
    pub event_header: Option<ClassId>,
    pub common_context: Option<ClassId>,
    /// Members of the common context that say where a record was written.
    pub known: Vec<(usize, WriterFact)>,
    pub events: EventTable,
}

/// What a record's context may say about where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterFact {
    Cpu,
    Pid,
    Tid,
    Program,
}

impl WriterFact {
    /// By the name that tracers use.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "cpu_id" => Some(Self::Cpu),
            "pid" | "vpid" => Some(Self::Pid),
            "tid" | "vtid" => Some(Self::Tid),
            "procname" => Some(Self::Program),
            _ => None,
        }
    }

    /// By the names that perf gives to fields of the payload.
    pub fn by_name_of_perf(name: &str) -> Option<Self> {
        match name {
            "perf_cpu" => Some(Self::Cpu),
            "perf_pid" => Some(Self::Pid),
            "perf_tid" => Some(Self::Tid),
            _ => None,
        }
    }
}

/// From an id to a position in [`Metadata::events`].
#[derive(Clone, Debug, Default)]
pub(crate) struct EventTable {
    dense: Vec<u32>,
    sparse: std::collections::HashMap<u64, u32>,
}

impl EventTable {
    const NONE: u32 = u32::MAX;

    /// Entries of the dense tables of all streams of a trace at most: an id that is large costs no memory for itself.
    pub const DENSE_MAX: usize = 1 << 21;

    /// False when the id is there already. `room`: entries that dense tables may still have.
    pub fn insert(&mut self, id: u64, position: u32, room: &mut usize) -> bool {
        if self.get(id).is_some() {
            return false;
        }
        let entries = usize::try_from(id).unwrap_or(usize::MAX).saturating_add(1);
        let grown = entries.saturating_sub(self.dense.len());
        if id < 1 << 16 && grown <= *room {
            *room -= grown;
            self.dense.resize(self.dense.len().max(entries), Self::NONE);
            self.dense[id as usize] = position;
        } else {
            self.sparse.insert(id, position);
        }
        true
    }

    /// All positions in [`Metadata::events`].
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        self.dense.iter().copied().filter(|&position| position != Self::NONE).chain(self.sparse.values().copied())
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<u32> {
        match self.dense.get(usize::try_from(id).ok()?) {
            Some(&position) if position != Self::NONE => Some(position),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }
}

/// In which direction the bits of a byte are read, and where the first one that is read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From the low end of a byte; the first bit is the lowest of the number.
    Little,
    /// From the high end of a byte; the first bit is the highest of the number.
    Big,
    /// Bytes as little endian; the first bit is the highest (CTF 2, `last-to-first`).
    LittleReversed,
    /// Bytes as big endian; the first bit is the lowest (CTF 2, `first-to-last`).
    BigReversed,
}

/// What an integer in a head means to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    Magic,
    StreamId,
    StreamInstance,
    Begin,
    End,
    ContentSize,
    PacketSize,
    Sequence,
    Discarded,
    EventId,
    Time,
}

impl Role {
    pub const COUNT: usize = 11;
}

#[derive(Clone, Debug)]
pub(crate) struct Int {
    /// 1 to 64; 0 is LEB128. Wider ones are a [`WideClass`].
    pub bits: u8,
    pub signed: bool,
    pub order: Order,
    pub base: Base,
    pub view: View,
    /// Slot that takes the value, for a length or a tag.
    pub save: Option<u32>,
    pub role: Option<Role>,
    pub labels: Option<Arc<Labels>>,
    /// The text that an array of this integer is in, CTF 1.8.
    pub encoding: Option<Encoding>,
    /// Clock that the integer is mapped to, CTF 1.8: position in `Metadata::clocks`.
    pub clock: Option<usize>,
}

/// An integer of more than 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct WideClass {
    pub bits: u32,
    pub signed: bool,
    pub order: Order,
    pub base: Base,
    pub view: View,
    pub labels: Option<Arc<Labels>>,
}

/// How an integer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Number,
    /// Not zero is true.
    Bool,
    /// 0 is false, 1 is true, and other values are themselves (`enum kymo_bool`).
    StrictBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8 or ASCII: bytes.
    Utf8,
    /// 2 or 4 bytes a character.
    Wide { bytes: u8, order: Order },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Len {
    Fixed(u64),
    Saved(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub kind: ClassKind,
    /// Bits, a power of two.
    pub align: u32,
    /// Size, where all values have the same: bits from an aligned begin to the end, without padding behind it.
    pub bits: Option<u32>,
}

impl Class {
    /// Bits from one element of an array to the next.
    pub fn stride_bits(&self) -> Option<u64> {
        Some(u64::from(self.bits?).next_multiple_of(u64::from(self.align)))
    }
}

/// The size that all values of `kind` have, if it is one that a plan can count with.
pub(crate) fn constant_bits(classes: &[Class], kind: &ClassKind) -> Option<u32> {
    let bits = match kind {
        ClassKind::Int(int) => u64::from(int.bits),
        ClassKind::Float { bits, .. } => u64::from(*bits),
        ClassKind::Wide(WideClass { bits, .. }) | ClassKind::WideFloat { bits, .. } => u64::from(*bits),
        ClassKind::Text { len: Len::Fixed(bytes), .. } | ClassKind::Bytes { len: Len::Fixed(bytes) } => {
            bytes.checked_mul(8)?
        }
        ClassKind::Array { len: Len::Fixed(0), .. } => 0,
        ClassKind::Array { len: Len::Fixed(count), element } => {
            let element = &classes[*element as usize];
            // Elements without bits would cost time and no data; they are left to the tape, which bounds them.
            let bits = u64::from(element.bits.filter(|&bits| bits > 0)?);
            element.stride_bits()?.checked_mul(count - 1)?.checked_add(bits)?
        }
        ClassKind::Struct { members } => {
            let mut at = 0u64;
            for member in members {
                let class = &classes[member.class as usize];
                at = at.next_multiple_of(u64::from(class.align)) + u64::from(class.bits?);
            }
            return u32::try_from(at).ok();
        }
        ClassKind::NulText(_) | ClassKind::Text { .. } | ClassKind::Bytes { .. } | ClassKind::Array { .. } => {
            return None;
        }
        ClassKind::Variant { .. } | ClassKind::Optional { .. } => return None,
    };
    // An integer of 0 bits is one of variable length.
    let is_variable = matches!(kind, ClassKind::Int(Int { bits: 0, .. }));
    u32::try_from(bits).ok().filter(|_| !is_variable)
}

#[derive(Clone, Debug)]
pub(crate) enum ClassKind {
    Int(Int),
    Float {
        bits: u8,
        order: Order,
    },
    /// An integer of more than 64 bits.
    Wide(WideClass),
    /// A float of more than 64 bits, whose nearest one of 64 is given.
    WideFloat {
        bits: u32,
        order: Order,
    },
    /// Up to a NUL character, from a byte boundary.
    NulText(Encoding),
    /// A number of bytes, up to the first NUL character in them.
    Text {
        len: Len,
        encoding: Encoding,
    },
    Bytes {
        len: Len,
    },
    Array {
        len: Len,
        element: ClassId,
    },
    Struct {
        members: Vec<Member>,
    },
    Variant {
        slot: u32,
        options: Vec<Choice>,
        /// Slots that fields in the options fill: not every option does.
        clears: Vec<u32>,
    },
    Optional {
        slot: u32,
        ranges: Ranges,
        element: ClassId,
        /// Slots that fields in the element fill, where it is there.
        clears: Vec<u32>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub ranges: Ranges,
    pub class: ClassId,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// As shown.
    pub name: Box<str>,
    /// As other classes refer to it.
    pub raw: Box<str>,
    /// A length that only says what the next member shows anyway.
    pub hidden: bool,
    pub class: ClassId,
}
