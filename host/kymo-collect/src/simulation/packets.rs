// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream files as they must be: whole packets in the order of time, each of one lane.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_abi::split_head;
use kymo_ctf::write::PacketHead;

use super::rings::{Books, RECORD_BYTES};

/// Where a record was written: serial of the memory, lane.
pub(super) type Origin = (u64, u32);

/// Places of all records, by their numbers, which are counted from 1; serial 0 is none.
pub(super) struct Written(Vec<Origin>);

impl Written {
    pub(super) fn of(books: &Books) -> Written {
        let all = || books.values().flat_map(|book| book.published.values()).flatten();
        let mut places = vec![(0, 0); all().max().map_or(0, |most| *most as usize + 1)];
        for (serial, book) in books {
            for (lane, tokens) in &book.published {
                tokens.iter().for_each(|token| places[*token as usize] = (*serial, *lane));
            }
        }
        Written(places)
    }

    fn place(&self, token: u64) -> Option<Origin> {
        self.0.get(token as usize).copied().filter(|(serial, _)| *serial != 0)
    }

    /// Nothing found yet.
    pub(super) fn found(&self) -> FoundRecords {
        FoundRecords { seen: vec![false; self.0.len()], counts: BTreeMap::new() }
    }
}

/// What was found in the trace.
pub(super) struct FoundRecords {
    /// Records, by their numbers, that were found.
    seen: Vec<bool>,
    pub counts: BTreeMap<Origin, u64>,
}

impl FoundRecords {
    /// Records of one memory.
    pub(super) fn of_memory(&self, serial: u64) -> u64 {
        self.counts.range((serial, 0)..=(serial, u32::MAX)).map(|(_, count)| count).sum()
    }
}

/// A packet with records.
pub(super) struct FoundPacket {
    pub origin: Origin,
    /// Numbers of its first and its last record.
    pub first: u64,
    pub last: u64,
    pub records: u64,
    /// Records that it says were lost.
    pub lost: u64,
}

/// What a file came to.
#[derive(Default)]
pub(super) struct FileContent {
    pub packets: Vec<FoundPacket>,
    /// Records that its packets say were lost.
    pub discarded: u64,
    /// Packets without a program: each has one mark, or none where it tells of losses only.
    pub marks: u64,
    pub is_of_programs: bool,
}

/// Reads a stream file.
pub(super) fn read(path: &Path, bytes: &[u8], written: &Written, found: &mut FoundRecords, who: &str) -> FileContent {
    let who = format!("{who}, {}", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut content = FileContent { is_of_programs: name.starts_with("user_"), ..FileContent::default() };
    let (mut at, mut newest, mut seq) = (0, 0, 0);
    let mut last = BTreeMap::new();
    while at < bytes.len() {
        let (head, head_bytes) = head(&bytes[at..], content.is_of_programs, &who);
        let records = bytes[at + head_bytes..].get(..head.content_bytes as usize);
        let records = records.unwrap_or_else(|| panic!("{who}: a torn packet at {at}: {head:?}"));
        assert!(newest <= head.begin && head.begin <= head.end, "{who}: packets run backwards at {at}: {head:?}");
        assert_eq!(head.seq, seq, "{who}: a packet is missing at {at}");
        assert!(head.discarded >= content.discarded, "{who}: the count of lost records shrinks at {at}");
        let lost = head.discarded - content.discarded;
        (newest, seq, content.discarded) = (head.end, seq + 1, head.discarded);
        at += head_bytes + records.len();
        if !content.is_of_programs {
            content.marks += u64::from(!records.is_empty());
        } else if let Some(packet) = read_records(records, &head, lost, written, found, &who) {
            let before = last.insert(packet.origin, packet.last).unwrap_or(0);
            let (first, origin) = (packet.first, packet.origin);
            assert!(before < first, "{who}: record {first} of {origin:?} comes after {before}");
            content.packets.push(packet);
        }
    }
    content
}

/// The head of a packet, and its bytes. Heads of the kernel's class lack what stands at the end.
fn head(bytes: &[u8], is_of_programs: bool, who: &str) -> (PacketHead, usize) {
    let size = if is_of_programs { PacketHead::USER_BYTES } else { PacketHead::KERNEL_BYTES };
    let there = bytes.get(..size).unwrap_or_else(|| panic!("{who}: a torn head"));
    let mut whole = [0; PacketHead::USER_BYTES];
    whole[..size].copy_from_slice(there);
    let mut head = PacketHead::decode_user(&whole);
    let bits = u64::from_le_bytes(whole[48..56].try_into().unwrap());
    head.content_bytes = bits / 8 - size as u64;
    (head, size)
}

/// The records of one packet: all of one lane, in order, within the packet's time, and nowhere else.
fn read_records(
    content: &[u8],
    head: &PacketHead,
    lost: u64,
    written: &Written,
    found: &mut FoundRecords,
    who: &str,
) -> Option<FoundPacket> {
    let mut packet: Option<FoundPacket> = None;
    assert_eq!(content.len() % RECORD_BYTES as usize, 0, "{who}: a torn record: {head:?}");
    for record in content.chunks_exact(RECORD_BYTES as usize) {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        let (time, token) = (split_head(word(0)).1, word(12));
        assert!((head.begin..=head.end).contains(&time), "{who}: a record of {time} in {head:?}");
        let origin = written.place(token).unwrap_or_else(|| panic!("{who}: record {token} was never written"));
        let packet = packet.get_or_insert(FoundPacket { origin, first: token, last: 0, records: 0, lost });
        assert_eq!(packet.origin, origin, "{who}: records of two lanes in {head:?}");
        assert!(packet.last < token, "{who}: record {token} of {origin:?} comes after {}", packet.last);
        (packet.last, packet.records) = (token, packet.records + 1);
        let was_seen = std::mem::replace(&mut found.seen[token as usize], true);
        assert!(!was_seen, "{who}: record {token} of {origin:?} is there twice");
    }
    if let Some(packet) = &packet {
        *found.counts.entry(packet.origin).or_default() += packet.records;
    }
    packet
}
