// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must be in the snapshot of a flight recorder: the newest records of every ring, as many as the ring holds but
//! for two chunks, and the exact number of those that no snapshot has [spec/ring.md 10, spec/flight.md 2].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kymo_abi::ring::CHUNKS;

use super::disk::Disk;
use super::packets::{self, FoundPacket, Origin, Written};
use super::rings::{Book, Books, RECORD_BYTES};
use crate::snapshot::SnapshotPart;

/// Memories of programs that have ended which a flight recorder keeps.
const ENDED_KEPT: u64 = 8;

/// Snapshots of one session so far.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Records of each lane up to the end of the newest snapshot of it.
    ends: BTreeMap<Origin, usize>,
}

/// A snapshot that was just taken: nothing was recorded since.
pub(super) struct Snapshot<'a> {
    pub books: &'a mut Books,
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub part: SnapshotPart,
    pub since: Option<u64>,
    /// The session's own directory, in which rare events are.
    pub disk: &'a Disk,
    pub dir: &'a Path,
    /// Something could not be written at some time.
    pub disk_was_bad: bool,
    /// Memories that the session has made so far.
    pub made: u64,
}

impl Snapshot<'_> {
    /// Rare events are in files of the session's directory, of which the snapshot has what was there.
    fn check_rare(&self, rare: u64, written: &Written, who: &str) {
        let of_rare = self.books.values().filter(|book| !book.is_overwritten);
        let published: u64 = of_rare.flat_map(|book| book.published.values()).map(|tokens| tokens.len() as u64).sum();
        assert!(rare <= published, "{who}: {rare} rare records, {published} were written");
        let mut found = written.found();
        let mut in_files = 0;
        for (name, bytes) in &self.part.rare {
            let path = self.dir.join(name);
            let front = self.disk.front(&path, *bytes);
            let front = front.unwrap_or_else(|| panic!("{who}: {name} has less than {bytes} bytes"));
            in_files +=
                packets::read(&path, &front, written, &mut found, who).packets.iter().map(|of| of.records).sum::<u64>();
        }
        if !self.disk_was_bad && !self.disk.fails() {
            assert_eq!(in_files, rare, "{who}: rare records in {:?}", self.part.rare);
        }
    }
}

impl Taken {
    /// Checks a snapshot. Returns its records.
    pub(super) fn check(&mut self, mut snapshot: Snapshot<'_>, now: u64, who: &str) -> u64 {
        let written = Written::of(snapshot.books);
        let mut found = written.found();
        let mut lanes: BTreeMap<Origin, FoundPacket> = BTreeMap::new();
        let mut marks = 0;
        for (path, bytes) in &snapshot.files {
            let content = packets::read(path, bytes, &written, &mut found, who);
            marks += content.marks;
            for packet in content.packets {
                let origin = packet.origin;
                assert!(lanes.insert(origin, packet).is_none(), "{who}: two packets of {origin:?}");
            }
        }
        let records: u64 = lanes.values().map(|packet| packet.records).sum();
        let rare = snapshot.part.records.checked_sub(records + marks);
        let rare = rare.unwrap_or_else(|| panic!("{who}: {records} records, {marks} marks, {:?}", snapshot.part));
        snapshot.check_rare(rare, &written, who);
        let gone: u64 = lanes.values().map(|packet| packet.lost).sum();
        assert_eq!(snapshot.part.overwritten, gone, "{who}: overwritten records");
        let is_complete = !snapshot.disk.fails() && snapshot.part.error.is_none();
        // Some were never mapped.
        let held = snapshot.books.values().filter(|book| book.is_held()).count() as u64;
        let ended = snapshot.made - held;
        for (serial, book) in snapshot.books.iter_mut().filter(|(_, book)| book.is_overwritten) {
            if !book.is_held() {
                book.free_since.get_or_insert(now);
            }
            let must_be = is_complete && (book.is_held() || ended <= ENDED_KEPT);
            for lane in book.published.keys() {
                let origin = (*serial, *lane);
                match lanes.get(&origin) {
                    Some(packet) => self.check_lane(book, packet, snapshot.since, who),
                    None => assert!(
                        !must_be,
                        "{who}: nothing of {} is there, lane {lane}, {} records; held: {}, {ended} ended",
                        book.comm,
                        book.published[lane].len(),
                        book.is_held(),
                    ),
                }
            }
        }
        snapshot.files.clear();
        records
    }

    fn check_lane(&mut self, book: &Book, packet: &FoundPacket, since: Option<u64>, who: &str) {
        let origin = packet.origin;
        let (tokens, times) = (&book.published[&origin.1], &book.times[&origin.1]);
        let who = format!("{who}: {} {origin:?}", book.comm);
        let first = tokens.partition_point(|token| *token < packet.first);
        assert_eq!(tokens.last(), Some(&packet.last), "{who}: the newest record is missing");
        assert_eq!(packet.records as usize, tokens.len() - first, "{who}: records between others are missing");
        let chunk = book.ring_bytes / CHUNKS;
        let held = held_at_least(book.ring_bytes);
        let wanted = since.map_or(0, |since| times.partition_point(|time| *time < since));
        let latest = tokens.len().saturating_sub(held as usize).max(wanted);
        assert!(first <= latest, "{who}: it begins with record {first} of {}, not at {latest}", tokens.len());
        let too_early = wanted.saturating_sub(first) as u32 * RECORD_BYTES;
        assert!(
            since.is_none() || too_early <= 2 * chunk + 4 * RECORD_BYTES,
            "{who}: {too_early} bytes are older than what was wanted"
        );
        let before = self.ends.insert(origin, tokens.len()).unwrap_or(0);
        let most = first.saturating_sub(before) as u64;
        let is_right = if since.is_some() { packet.lost <= most } else { packet.lost == most };
        assert!(is_right, "{who}: {} are said to be overwritten since the snapshot before, not {most}", packet.lost);
    }
}

/// Records that a ring holds at least: a chunk is given up at a time, a mark may lie a chunk further on, and records
/// lie across their ends.
fn held_at_least(ring_bytes: u32) -> u32 {
    (ring_bytes - 3 * (ring_bytes / CHUNKS) - RECORD_BYTES) / RECORD_BYTES
}

/// What a dead flight recorder left: as a snapshot that was taken at its programs' end.
pub(super) fn check_left(books: &Books, files: &[(PathBuf, Vec<u8>)], who: &str) {
    let written = Written::of(books);
    let mut found = written.found();
    for (path, bytes) in files {
        for packet in packets::read(path, bytes, &written, &mut found, who).packets {
            Taken::default().check_lane(&books[&packet.origin.0], &packet, None, who);
        }
    }
    for (serial, book) in books.iter().filter(|(_, book)| book.is_left) {
        let (there, held) = (found.of_memory(*serial), held_at_least(book.ring_bytes) as usize);
        let wrote: usize = book.published.values().map(|tokens| tokens.len().min(held)).sum();
        assert!(there >= wrote as u64, "{who}: {} left {wrote} records, {there} are there", book.comm);
    }
}
