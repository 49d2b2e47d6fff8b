// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between a program and a collector [spec/session.md 4], one a packet, in the byte order of the machine.
//!
//! Decoding checks everything that a message says about itself; what the numbers mean together is for the caller.
//! Descriptors travel beside the message (SCM_RIGHTS) and are no part of it.

use crate::bytes::{Reader, fixed_text, text_field};
use crate::ring::Layout;
use crate::{ABI_VERSION, Clock, Error, RingKind};

/// No message is longer. Longer lists are sent as several messages.
pub const BYTES_MAX: usize = 32_768;
/// Index of an enumeration in DESCS.
pub const NO_INDEX: u32 = 0xffff_ffff;
/// Bytes of `struct kymo_msg`.
pub const HEAD_BYTES: usize = 8;
/// Bytes of the session's name in ATTACH, terminator included.
pub const SESSION_BYTES: usize = 64;

const HELLO: u32 = 1;
const DESCS: u32 = 2;
const DESCS_END: u32 = 3;
const GONE: u32 = 4;
const ATTACHED: u32 = 5;
const FILTERED: u32 = 6;
const LATE: u32 = 7;

/// Bits of the flags in ATTACHED.
const ATTACHED_LOCKED: u32 = 1;
const ATTACHED_LATE: u32 = 2;
const ATTACH: u32 = 16;
const ENABLE: u32 = 17;
const DISABLE: u32 = 18;
const GO: u32 = 19;
const BYE: u32 = 20;
const FILTER: u32 = 21;
const READY: u32 = 22;

/// Bytes of an instruction of a filter (`abi/filter.h`).
pub const FILTER_INSN_BYTES: usize = 16;
/// Instructions that a filter may have.
pub const FILTER_INSNS_MAX: usize = 250;
/// Bytes of constants that a filter may have.
pub const FILTER_POOL_MAX: usize = 4096;

/// The first message of a program on every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// ABI version of the program; where it is not ours, the other fields may mean something else.
    pub abi: u32,
    /// Process id as the program sees itself.
    pub pid: u32,
    /// `enum kymo_kind`, as a code: see [`RingKind::from_code`].
    pub kind: u32,
    /// `enum kymo_clock`, as a code: see [`Clock::from_code`].
    pub clock: u32,
    /// CPUs that can exist: the lanes of an rseq program, less the spill lane.
    pub cpu_count: u32,
    /// Nonce of the program's own socket, `p.PID.NONCE`; 0 where it has none: then it has no helper thread, and
    /// hears nothing more once its `main` runs.
    pub nonce: u32,
    /// Name of the process, at most 15 bytes.
    pub comm: String,
    /// Path of the executable, may be empty.
    pub exe: String,
}

/// One entry of DESCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescEntry {
    /// Index of the event in this program; `None` for an enumeration.
    pub index: Option<u32>,
    /// Bytes of the description, unchecked: for [`crate::desc::parse`].
    pub desc: Vec<u8>,
}

/// How the program took the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Serial of the memory that is meant.
    pub serial: u64,
    /// An errno value, 0 when the rings are in place.
    pub error: u32,
    /// Whether the rings are locked into memory.
    pub locked: bool,
    /// Whether the program ran before, though the session was there.
    pub late: bool,
    /// Bytes that were touched in advance.
    pub touched_bytes: u64,
}

/// What a program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromProgram {
    /// Who it is.
    Hello(Hello),
    /// Events and enumerations that it has.
    Descs(Vec<DescEntry>),
    /// All descriptions of this generation were sent.
    DescsEnd {
        /// Counts up on each connection.
        generation: u32,
    },
    /// Indices that no longer exist.
    Gone(Vec<u32>),
    /// Answer to ATTACH.
    Attached(Attached),
    /// Answer to a FILTER that was refused: the event is recorded without it.
    Filtered {
        /// Of the event in this program.
        index: u32,
        /// An errno value.
        error: u32,
    },
    /// The program went on without waiting for GO any longer.
    Late {
        /// That of DESCS_END.
        generation: u32,
    },
}

/// Why a collector ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByeReason {
    /// The session is over.
    End,
    /// This session does not want this program.
    Scope,
    /// ABI, ring kind or clock do not match.
    Version,
    /// The session's memory cap is reached.
    Memory,
    /// The program broke the protocol.
    Protocol,
}

impl ByeReason {
    const ALL: [ByeReason; 5] =
        [ByeReason::End, ByeReason::Scope, ByeReason::Version, ByeReason::Memory, ByeReason::Protocol];

    /// The code on the wire.
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }
}

/// A filter of one event, as bytes: what they mean, and whether they may be run, is spec/filter.md 6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Of the event in this program.
    pub index: u32,
    /// Instructions, [`FILTER_INSN_BYTES`] each; none takes the event's filter away.
    pub insns: Vec<[u8; FILTER_INSN_BYTES]>,
    /// Constants.
    pub pool: Vec<u8>,
    /// Bytes that every payload of the event has.
    pub payload_min_bytes: u16,
}

/// What a collector says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromCollector {
    /// Here is memory; its descriptor comes with the message.
    Attach {
        /// Sizes and offsets.
        layout: Layout,
        /// Identity of the memory, unique on the collector.
        serial: u64,
        /// Name of the session.
        session: String,
    },
    /// (index, id) pairs: switch these events on.
    Enable(Vec<(u32, u16)>),
    /// Indices: switch these events off.
    Disable(Vec<u32>),
    /// What records of an event are wanted.
    Filter(Filter),
    /// Lanes whose pages shall be there: records come on their CPUs, or may.
    Ready(Vec<u32>),
    /// All answers to this generation were sent; start-up may go on.
    Go {
        /// That of DESCS_END.
        generation: u32,
    },
    /// Switch off, fence, close.
    Bye {
        /// Why.
        reason: ByeReason,
        /// The same for people.
        text: String,
    },
}

/// A message under construction.
struct Writer(Vec<u8>);

impl Writer {
    fn new(ty: u32) -> Writer {
        let mut writer = Writer(Vec::with_capacity(64));
        writer.u32(ty).u32(0);
        writer
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Writer {
        self.bytes(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Writer {
        self.bytes(&value.to_ne_bytes())
    }

    /// NUL-terminated text that fills the rest of the message, cut to what fits.
    fn tail_text(&mut self, text: &str) -> &mut Writer {
        let mut end = text.len().min(BYTES_MAX - self.0.len() - 1).min(4095);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end]).bytes(&[0])
    }

    fn finish(&mut self) -> Vec<u8> {
        let bytes = self.0.len() as u32;
        self.0[4..8].copy_from_slice(&bytes.to_ne_bytes());
        std::mem::take(&mut self.0)
    }
}

/// The head of a packet: its type, and a reader of what follows.
fn open(packet: &[u8]) -> Result<(u32, Reader<'_>), Error> {
    let mut reader = Reader::new("message", packet);
    let (ty, said) = (reader.u32()?, reader.u32()?);
    if packet.len() > BYTES_MAX {
        return Err(Error::TooMany { what: "bytes of a message", value: packet.len() as u64, max: BYTES_MAX as u64 });
    }
    if said as usize != packet.len() {
        return Err(Error::Length { what: "message", said: said.into(), got: packet.len() as u64 });
    }
    Ok((ty, reader))
}

/// Entries of `size` bytes that fill the rest of a message.
fn entries<'a, T>(
    reader: &mut Reader<'a>,
    size: usize,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let bytes = reader.rest().len();
    if bytes % size != 0 {
        return Err(Error::Length { what: "list in a message", said: bytes as u64, got: (bytes / size * size) as u64 });
    }
    (0..bytes / size).map(|_| read(reader)).collect()
}

impl FromProgram {
    /// Decodes one packet.
    pub fn decode(packet: &[u8]) -> Result<FromProgram, Error> {
        let (ty, mut reader) = open(packet)?;
        Ok(match ty {
            HELLO => FromProgram::Hello(Hello::decode(&mut reader)?),
            DESCS => FromProgram::Descs(decode_descs(&mut reader)?),
            DESCS_END => FromProgram::DescsEnd { generation: generation(&mut reader)? },
            GONE => FromProgram::Gone(entries(&mut reader, 4, Reader::u32)?),
            ATTACHED => {
                let (serial, error, flags) = (reader.u64()?, reader.u32()?, reader.u32()?);
                let (locked, late) = (flags & ATTACHED_LOCKED != 0, flags & ATTACHED_LATE != 0);
                FromProgram::Attached(Attached { serial, error, locked, late, touched_bytes: reader.u64()? })
            }
            LATE => FromProgram::Late { generation: generation(&mut reader)? },
            FILTERED => FromProgram::Filtered { index: reader.u32()?, error: reader.u32()? },
            _ => return Err(Error::Value { what: "type of a program's message", value: ty.into() }),
        })
    }

    /// Encodes one packet. DESCS and GONE that would be longer than [`BYTES_MAX`] must be split by the caller.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromProgram::Hello(hello) => Writer::new(HELLO)
                .u32(hello.abi)
                .u32(hello.pid)
                .u32(hello.kind)
                .u32(hello.clock)
                .u32(hello.cpu_count)
                .u32(hello.nonce)
                .bytes(&text_field::<16>(&hello.comm))
                .tail_text(&hello.exe)
                .finish(),
            FromProgram::Descs(list) => {
                let mut writer = Writer::new(DESCS);
                for entry in list {
                    writer.u32(entry.index.unwrap_or(NO_INDEX)).u32(entry.desc.len() as u32).bytes(&entry.desc);
                    writer.0.resize(writer.0.len().next_multiple_of(8), 0);
                }
                writer.finish()
            }
            FromProgram::DescsEnd { generation } => Writer::new(DESCS_END).u32(*generation).u32(0).finish(),
            FromProgram::Late { generation } => Writer::new(LATE).u32(*generation).u32(0).finish(),
            FromProgram::Gone(indices) => encode_indices(GONE, indices),
            FromProgram::Attached(attached) => Writer::new(ATTACHED)
                .u64(attached.serial)
                .u32(attached.error)
                .u32(u32::from(attached.locked) * ATTACHED_LOCKED + u32::from(attached.late) * ATTACHED_LATE)
                .u64(attached.touched_bytes)
                .finish(),
            FromProgram::Filtered { index, error } => Writer::new(FILTERED).u32(*index).u32(*error).finish(),
        }
    }
}

impl Hello {
    fn decode(reader: &mut Reader<'_>) -> Result<Hello, Error> {
        let (abi, pid, kind) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (clock, cpu_count, nonce) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let comm = fixed_text(reader.take(16)?);
        let exe = fixed_text(reader.rest());
        Ok(Hello { abi, pid, kind, clock, cpu_count, nonce, comm, exe })
    }
}

fn generation(reader: &mut Reader<'_>) -> Result<u32, Error> {
    let generation = reader.u32()?;
    reader.u32()?;
    Ok(generation)
}

fn decode_descs(reader: &mut Reader<'_>) -> Result<Vec<DescEntry>, Error> {
    let mut list = Vec::new();
    while !reader.rest().is_empty() {
        let (index, bytes) = (reader.u32()?, reader.u32()? as usize);
        let desc = reader.take(bytes)?.to_vec();
        reader.take((bytes.next_multiple_of(8) - bytes).min(reader.rest().len()))?;
        list.push(DescEntry { index: (index != NO_INDEX).then_some(index), desc });
    }
    Ok(list)
}

fn encode_indices(ty: u32, indices: &[u32]) -> Vec<u8> {
    let mut writer = Writer::new(ty);
    for index in indices {
        writer.u32(*index);
    }
    writer.finish()
}

impl FromCollector {
    /// Pairs that fit into one ENABLE.
    pub const ENABLE_PAIRS_MAX: usize = (BYTES_MAX - HEAD_BYTES) / 8;

    /// Decodes one packet.
    pub fn decode(packet: &[u8]) -> Result<FromCollector, Error> {
        let (ty, mut reader) = open(packet)?;
        Ok(match ty {
            ATTACH => decode_attach(&mut reader)?,
            ENABLE => FromCollector::Enable(entries(&mut reader, 8, |reader| {
                let (index, id) = (reader.u32()?, reader.u32()?);
                match u16::try_from(id) {
                    Ok(id) if id != 0 => Ok((index, id)),
                    _ => Err(Error::Value { what: "id of an event", value: id.into() }),
                }
            })?),
            DISABLE => FromCollector::Disable(entries(&mut reader, 4, Reader::u32)?),
            FILTER => FromCollector::Filter(Filter::decode(&mut reader)?),
            READY => FromCollector::Ready(entries(&mut reader, 4, Reader::u32)?),
            GO => FromCollector::Go { generation: generation(&mut reader)? },
            BYE => {
                let (code, _) = (reader.u32()?, reader.u32()?);
                let reason = ByeReason::ALL.into_iter().find(|reason| reason.code() == code);
                let reason = reason.ok_or(Error::Value { what: "reason of BYE", value: code.into() })?;
                FromCollector::Bye { reason, text: fixed_text(reader.rest()) }
            }
            _ => return Err(Error::Value { what: "type of a collector's message", value: ty.into() }),
        })
    }

    /// Encodes one packet. ENABLE takes at most [`Self::ENABLE_PAIRS_MAX`] pairs; FILTER is within its limits.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromCollector::Attach { layout, serial, session } => Writer::new(ATTACH)
                .u32(ABI_VERSION)
                .u32(layout.kind.code())
                .u32(layout.clock.code())
                .u32(layout.lane_count)
                .u32(layout.ring_bytes)
                .u32(layout.rings_offset)
                .u64(layout.data_offset)
                .u64(layout.mem_bytes)
                .u64(*serial)
                .bytes(&text_field::<SESSION_BYTES>(session))
                .finish(),
            FromCollector::Enable(pairs) => {
                let mut writer = Writer::new(ENABLE);
                for (index, id) in pairs {
                    writer.u32(*index).u32(u32::from(*id));
                }
                writer.finish()
            }
            FromCollector::Disable(indices) => encode_indices(DISABLE, indices),
            FromCollector::Ready(lanes) => encode_indices(READY, lanes),
            FromCollector::Filter(filter) => filter.encode(),
            FromCollector::Go { generation } => Writer::new(GO).u32(*generation).u32(0).finish(),
            FromCollector::Bye { reason, text } => Writer::new(BYE).u32(reason.code()).u32(0).tail_text(text).finish(),
        }
    }
}

impl Filter {
    fn decode(reader: &mut Reader<'_>) -> Result<Filter, Error> {
        let (index, insn_count, pool_bytes) = (reader.u32()?, reader.u16()?.into(), reader.u16()?.into());
        let payload_min_bytes = reader.u16()?;
        reader.take(6)?;
        for (what, value, max) in [
            ("instructions of a filter", insn_count, FILTER_INSNS_MAX),
            ("bytes of a filter's constants", pool_bytes, FILTER_POOL_MAX),
        ] {
            if value > max {
                return Err(Error::TooMany { what, value: value as u64, max: max as u64 });
            }
        }
        let insns = (0..insn_count).map(|_| reader.array()).collect::<Result<_, _>>()?;
        let pool = reader.take(pool_bytes)?.to_vec();
        match reader.rest().len() {
            0 => Ok(Filter { index, insns, pool, payload_min_bytes }),
            more => Err(Error::Length { what: "filter", said: pool_bytes as u64, got: (pool_bytes + more) as u64 }),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(FILTER);
        writer.u32(self.index);
        for count in [self.insns.len() as u16, self.pool.len() as u16, self.payload_min_bytes, 0, 0, 0] {
            writer.bytes(&count.to_ne_bytes());
        }
        for insn in &self.insns {
            writer.bytes(insn);
        }
        writer.bytes(&self.pool).finish()
    }
}

fn decode_attach(reader: &mut Reader<'_>) -> Result<FromCollector, Error> {
    let (abi, kind, clock) = (reader.u32()?, reader.u32()?, reader.u32()?);
    if abi != ABI_VERSION {
        return Err(Error::Value { what: "ABI version", value: abi.into() });
    }
    let layout = Layout {
        kind: RingKind::from_code(kind).ok_or(Error::Value { what: "ring kind", value: kind.into() })?,
        clock: Clock::from_code(clock).ok_or(Error::Value { what: "clock", value: clock.into() })?,
        lane_count: reader.u32()?,
        ring_bytes: reader.u32()?,
        rings_offset: reader.u32()?,
        marks_offset: 0,
        data_offset: reader.u64()?,
        mem_bytes: reader.u64()?,
        is_compact: false,
    };
    let serial = reader.u64()?;
    let session = fixed_text(reader.take(SESSION_BYTES)?);
    layout.check()?;
    Ok(FromCollector::Attach { layout, serial, session })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
