// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of messages: bytes to values. No message refers to another one.

/// What a viewer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Connect = 1,
    ListSessions = 2,
    AttachSession = 3,
    GetNextIndex = 4,
    GetPacket = 5,
    GetMetadata = 6,
    GetNewStreams = 7,
    CreateSession = 8,
}

impl Command {
    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Command::Connect => "CONNECT",
            Command::ListSessions => "LIST_SESSIONS",
            Command::AttachSession => "ATTACH_SESSION",
            Command::GetNextIndex => "GET_NEXT_INDEX",
            Command::GetPacket => "GET_PACKET",
            Command::GetMetadata => "GET_METADATA",
            Command::GetNewStreams => "GET_NEW_STREAMS",
            Command::CreateSession => "CREATE_SESSION",
        }
    }

    /// The message: size of what follows, command, version of the command, and what follows.
    pub fn encode(self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + payload.len());
        bytes.extend((payload.len() as u64).to_be_bytes());
        bytes.extend((self as u32).to_be_bytes());
        bytes.extend(0u32.to_be_bytes());
        bytes.extend(payload);
        bytes
    }
}

/// Takes numbers off the front of an answer of known size: what is not there is 0.
pub(crate) struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    pub fn u32(&mut self) -> u32 {
        self.bytes(4).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    pub fn u64(&mut self) -> u64 {
        self.bytes(8).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Text in a field of `count` bytes: up to the first NUL, without control characters.
    fn text(&mut self, count: usize) -> String {
        let bytes = self.bytes(count);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect()
    }
}

const HOST_BYTES: usize = 64;
const NAME_BYTES: usize = 255;
const PATH_BYTES: usize = 4096;

/// A session that a relay daemon has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The relay daemon's number for it.
    pub id: u64,
    /// Period after which data are sent at the latest, microseconds; 0: the session is not live.
    pub timer_us: u32,
    /// Viewers that are attached.
    pub clients: u32,
    /// Its streams, those of metadata too.
    pub streams: u32,
    /// The host that is traced.
    pub host: String,
    /// Its name.
    pub name: String,
}

impl Session {
    pub(crate) const BYTES: usize = 20 + HOST_BYTES + NAME_BYTES;

    pub(crate) fn decode(bytes: &[u8]) -> Session {
        let mut take = Take(bytes);
        let (id, timer_us, clients, streams) = (take.u64(), take.u32(), take.u32(), take.u32());
        Session { id, timer_us, clients, streams, host: take.text(HOST_BYTES), name: take.text(NAME_BYTES) }
    }
}

/// A stream of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The relay daemon's number for it.
    pub id: u64,
    /// The trace that it is of: streams of one number have one metadata.
    pub trace: u64,
    /// It is that metadata.
    pub is_metadata: bool,
    /// Directory of its file.
    pub path: String,
    /// Name of its file.
    pub channel: String,
}

impl Stream {
    pub(crate) const BYTES: usize = 20 + PATH_BYTES + NAME_BYTES;

    pub(crate) fn decode(bytes: &[u8]) -> Stream {
        let mut take = Take(bytes);
        let (id, trace, is_metadata) = (take.u64(), take.u64(), take.u32() != 0);
        Stream { id, trace, is_metadata, path: take.text(PATH_BYTES), channel: take.text(NAME_BYTES) }
    }
}

/// What there is to be fetched before an answer can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// New metadata.
    pub metadata: bool,
    /// New streams.
    pub streams: bool,
}

impl Flags {
    pub(crate) fn of(bits: u32) -> Flags {
        Flags { metadata: bits & 1 != 0, streams: bits & 2 != 0 }
    }
}

/// Where the next packet of a stream is, and what it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketIndex {
    /// Byte in the relay daemon's file.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// Its begin, cycles.
    pub begin: u64,
    /// Its end, cycles.
    pub end: u64,
}

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// A packet.
    Packet(PacketIndex),
    /// Nothing yet.
    Retry,
    /// Nothing happened up to this time, cycles, and nothing older comes.
    Inactive(u64),
    /// Nothing more: the stream is over.
    Over,
    /// The relay daemon has lost the stream.
    Failed,
}

impl Index {
    pub(crate) const BYTES: usize = 64;

    /// The text: why it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Index, Flags), String> {
        let mut take = Take(bytes);
        let (offset, packet_bits, _content_bits, begin, end) =
            (take.u64(), take.u64(), take.u64(), take.u64(), take.u64());
        let (_discarded, _class, status, flags) = (take.u64(), take.u64(), take.u32(), take.u32());
        let index = match status {
            1 if packet_bits == 0 || packet_bits % 8 != 0 => {
                return Err(format!("a packet of {packet_bits} bits"));
            }
            1 => Index::Packet(PacketIndex { offset, bytes: packet_bits / 8, begin, end }),
            2 => Index::Retry,
            3 | 6 => Index::Over,
            4 => Index::Failed,
            5 => Index::Inactive(end),
            other => return Err(format!("status {other}")),
        };
        Ok((index, Flags::of(flags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_protocol() {
        assert_eq!((Session::BYTES, Stream::BYTES, Index::BYTES), (339, 4371, 64));
        assert_eq!(Command::GetPacket.encode(&[1, 2]), [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn texts_end_at_their_nul_and_move_no_cursor() {
        let mut bytes = vec![0; Session::BYTES];
        bytes[7] = 3;
        bytes[20..27].copy_from_slice(b"a\x1b[2J\0x");
        bytes[84..87].copy_from_slice(b"\xffs1");
        let session = Session::decode(&bytes);
        assert_eq!((session.id, session.host.as_str(), session.name.as_str()), (3, "a[2J", "\u{fffd}s1"));
        // A name without a NUL ends with its field.
        let full = Session::decode(&[b'z'; Session::BYTES]);
        assert_eq!((full.host.len(), full.name.len()), (HOST_BYTES, NAME_BYTES));
    }

    #[test]
    fn an_index_is_a_packet_or_says_why_not() {
        let of = |bits: u64, status: u32| {
            let mut bytes = vec![0; Index::BYTES];
            bytes[8..16].copy_from_slice(&bits.to_be_bytes());
            bytes[24..32].copy_from_slice(&66u64.to_be_bytes());
            bytes[32..40].copy_from_slice(&77u64.to_be_bytes());
            bytes[56..60].copy_from_slice(&status.to_be_bytes());
            bytes[63] = 3;
            Index::decode(&bytes)
        };
        let flags = Flags { metadata: true, streams: true };
        let packet = PacketIndex { offset: 0, bytes: 100, begin: 66, end: 77 };
        assert_eq!(of(800, 1), Ok((Index::Packet(packet), flags)));
        assert_eq!(of(0, 5), Ok((Index::Inactive(77), flags)));
        for (status, index) in [(2, Index::Retry), (3, Index::Over), (4, Index::Failed), (6, Index::Over)] {
            assert_eq!(of(0, status), Ok((index, flags)));
        }
        for (bits, status) in [(0, 1), (801, 1), (800, 0), (800, 7)] {
            assert!(of(bits, status).is_err(), "{bits} {status}");
        }
    }
}
