// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must hold of a session that is over: the small model of what is in the trace and what is told of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use kymo_abi::split_head;
use kymo_ctf::write::PacketHead;

use super::program::{Books, RECORD_BYTES};
use crate::summary::Summary;

/// A session, its trace, its summary, and the truth.
pub(super) struct Case<'a> {
    pub number: usize,
    pub books: &'a Books,
    pub streams: Vec<(PathBuf, Vec<u8>)>,
    pub summary: &'a Summary,
    /// Programs whose event 0 happened and was not recorded, though it was wanted: process, name, its parents' names,
    /// how often.
    pub missed: Vec<(u32, &'a str, &'a [String], u64)>,
    /// Programs that ended before the session could know of them.
    pub unheard: Vec<&'a str>,
    /// Nothing, or no new file, could be written when the session ended.
    pub disk_fails_at_the_end: bool,
    pub asked: u64,
    pub ended: u64,
}

/// Where a record was written: serial of the memory, lane.
type Place = (u64, u32);

/// Places of all records, by their numbers, which are counted from 1; serial 0 is none.
struct Written(Vec<Place>);

impl Written {
    fn of(books: &Books) -> Written {
        let all = || books.values().flat_map(|book| book.published.values()).flatten();
        let mut places = vec![(0, 0); all().max().map_or(0, |most| *most as usize + 1)];
        for (serial, book) in books {
            for (lane, tokens) in &book.published {
                tokens.iter().for_each(|token| places[*token as usize] = (*serial, *lane));
            }
        }
        Written(places)
    }

    fn place(&self, token: u64) -> Option<Place> {
        self.0.get(token as usize).copied().filter(|(serial, _)| *serial != 0)
    }
}

/// What was found in the trace.
struct InTrace {
    /// Records, by their numbers, that were found.
    seen: Vec<bool>,
    counts: BTreeMap<Place, u64>,
}

impl Case<'_> {
    pub(super) fn check(&self, dir: &Path) {
        let who = format!("session {} in {}", self.number, dir.display());
        assert!(self.summary.complete, "{who}");
        // It ends when its programs have left, or soon after; it may stand still for five seconds.
        let took = self.ended.saturating_sub(self.asked);
        assert!(took < 12_000_000_000, "{who} took {took} ns to end");
        let written = Written::of(self.books);
        let mut found = InTrace { seen: vec![false; written.0.len()], counts: BTreeMap::new() };
        let mut discarded = 0;
        for (path, bytes) in &self.streams {
            discarded += self.read(path, bytes, &written, &mut found);
        }
        self.check_counts(&found, &who);
        self.check_missed(&who);
        // Packets tell of everything that the summary counts, where the last of them could be written.
        let lost = self.summary.lost_counted.total();
        assert!(discarded <= lost, "{who}: packets tell of {discarded} lost records, the summary of {lost}");
        if !self.disk_fails_at_the_end {
            assert_eq!(discarded, lost, "{who}: lost records in packets, and in the summary");
        }
    }

    /// Reads a stream file. Returns the records that its packets say were lost.
    fn read(&self, path: &Path, bytes: &[u8], written: &Written, found: &mut InTrace) -> u64 {
        let who = format!("session {}, {}", self.number, path.display());
        let (mut at, mut newest, mut seq, mut discarded) = (0, 0, 0, 0);
        let mut last = BTreeMap::new();
        while at < bytes.len() {
            let Some((head, rest)) = bytes[at..].split_first_chunk() else { panic!("{who}: a torn packet at {at}") };
            let head = PacketHead::decode_user(head);
            let content = rest.get(..head.content_bytes as usize);
            let content = content.unwrap_or_else(|| panic!("{who}: a torn packet at {at}"));
            assert!(newest <= head.begin && head.begin <= head.end, "{who}: packets run backwards at {at}: {head:?}");
            assert_eq!(head.seq, seq, "{who}: a packet is missing at {at}");
            assert!(head.discarded >= discarded, "{who}: the count of lost records shrinks at {at}");
            (newest, seq, discarded) = (head.end, seq + 1, head.discarded);
            if let Some((place, token)) = read_records(content, &head, written, found, &who) {
                let before = last.insert(place, token.end).unwrap_or(0);
                assert!(before < token.start, "{who}: record {} of {place:?} comes after {before}", token.start);
            }
            at += PacketHead::USER_BYTES + content.len();
        }
        discarded
    }

    /// Programs of which the session says that it cannot count them.
    fn unknown(&self) -> BTreeSet<String> {
        let mut unknown = BTreeSet::new();
        for entry in &self.summary.unknown {
            unknown.insert(entry.comm.clone());
            let process = entry.process.and_then(|process| self.summary.processes.get(process));
            unknown.extend(process.map(|process| process.comm.clone()));
        }
        unknown
    }

    /// What is not in the trace was counted.
    fn check_counts(&self, found: &InTrace, who: &str) {
        let unknown = self.unknown();
        let is_bounded = self.summary.unknown_count as usize == self.summary.unknown.len();
        let mut truth: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for (serial, book) in self.books {
            let of = truth.entry(&book.comm).or_default();
            of[0] += book.published.values().map(|tokens| tokens.len() as u64).sum::<u64>();
            of[2] += book.lost_full;
            let of_memory = found.counts.range((*serial, 0)..=(*serial, u32::MAX));
            of[1] += of_memory.map(|(_, count)| count).sum::<u64>();
        }
        for (comm, [published, in_trace, full]) in truth {
            if unknown.contains(comm) || !is_bounded {
                continue;
            }
            let of = || self.summary.processes.iter().filter(|process| process.comm == comm);
            let mut lost = crate::summary::Lost::default();
            of().for_each(|process| lost.add(&process.lost_counted));
            let what =
                format!("{who}: {comm} wrote {published}, {in_trace} are in the trace, {full} had no room; {lost:?}");
            assert_eq!(lost.full, full, "{what}");
            assert_eq!(published, in_trace + lost.not_written + lost.damaged, "{what}");
            let records: u64 = of().filter_map(|process| process.records).sum();
            assert_eq!(records, in_trace, "{what}: its entry says {records}");
        }
    }

    /// A program that was to be recorded and was not, or not from its beginning, is told of.
    fn check_missed(&self, who: &str) {
        if self.summary.unknown_count as usize != self.summary.unknown.len() {
            return;
        }
        let unknown = self.unknown();
        for (pid, comm, parents, hits) in &self.missed {
            let is_told = unknown.contains(*comm)
                || parents.iter().any(|parent| unknown.contains(parent))
                || self.unheard.contains(comm)
                || self.summary.unknown.iter().any(|entry| entry.comm.is_empty() && [0, *pid].contains(&entry.pid));
            assert!(
                is_told,
                "{who}: {comm} (process {pid}, of {parents:?}) was not recorded {hits} times, and nobody says so: {:#?}",
                self.summary.unknown
            );
        }
    }
}

/// The records of one packet: all of one lane, in order, within the packet's time, and nowhere else. Returns the lane,
/// and the numbers of the first and the last.
fn read_records(
    content: &[u8],
    head: &PacketHead,
    written: &Written,
    found: &mut InTrace,
    who: &str,
) -> Option<(Place, Range<u64>)> {
    let (mut of_packet, mut newest) = (None, 0);
    assert_eq!(content.len() % RECORD_BYTES as usize, 0, "{who}: a torn record: {head:?}");
    for record in content.chunks_exact(RECORD_BYTES as usize) {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        let (time, token) = (split_head(word(0)).1, word(12));
        assert!((head.begin..=head.end).contains(&time), "{who}: a record of {time} in {head:?}");
        let place = written.place(token).unwrap_or_else(|| panic!("{who}: record {token} was never written"));
        let (first, _) = *of_packet.get_or_insert((token, place));
        assert_eq!(of_packet, Some((first, place)), "{who}: records of two lanes in {head:?}");
        assert!(newest < token, "{who}: record {token} of {place:?} comes after {newest}");
        newest = token;
        let was_seen = std::mem::replace(&mut found.seen[token as usize], true);
        assert!(!was_seen, "{who}: record {token} of {place:?} is there twice");
        *found.counts.entry(place).or_default() += 1;
    }
    of_packet.map(|(first, place)| (place, first..newest))
}
