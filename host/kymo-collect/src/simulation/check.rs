// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must hold of a session that is over: the small model of what is in the trace and what is told of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::packets::{self, FoundRecords, Written};
use super::program::MissedProgram;
use super::rings::Books;
use super::session::Simulated;
use crate::summary::{Lost, Outcome, ProcessSummary, Summary};

/// A session, its trace, its summary, and the truth.
pub(super) struct Case<'a> {
    pub number: usize,
    pub books: &'a Books,
    pub streams: Vec<(PathBuf, Vec<u8>)>,
    pub summary: &'a Summary,
    /// Programs whose event 0 happened and was not recorded, though it was wanted.
    pub missed: Vec<&'a MissedProgram>,
    /// Programs that ended before the session could know of them.
    pub unheard: Vec<&'a str>,
    /// Nothing, or no new file, could be written when the session ended.
    pub disk_fails_at_the_end: bool,
    pub asked: u64,
    pub ended: u64,
    /// Rings were overwritten, and read for snapshots only.
    pub is_flight: bool,
    /// Marks that it was given.
    pub marks: u64,
    /// Filters that programs refused long before the end.
    pub refused_filters: u64,
    /// Times that its trigger fired, and records that triggers did not see.
    pub fired: u64,
    pub unseen: u64,
    /// Records that the trigger waited for when it was told to look for the last time.
    pub settled: Option<u64>,
}

/// A refusal of a filter is reported by now.
const REPORTED_NS: u64 = 20_000_000_000;

impl<'a> Case<'a> {
    /// A session that is over, of which no program was missed, and its summary.
    pub(super) fn of(session: &'a Simulated, books: &'a Books, summary: &'a Summary) -> Case<'a> {
        let asked = session.asked.unwrap_or(summary.end);
        Case {
            number: session.number,
            books,
            streams: session.disk.streams(),
            summary,
            missed: Vec::new(),
            unheard: Vec::new(),
            disk_fails_at_the_end: session.disk_failed,
            asked,
            ended: summary.end,
            is_flight: session.traits.is_flight,
            marks: session.marks,
            refused_filters: session.refused_filters.iter().filter(|at| **at + REPORTED_NS < asked).count() as u64,
            fired: session.fired,
            unseen: session.unseen,
            settled: session.settled,
        }
    }
}

impl Case<'_> {
    pub(super) fn check(&self, dir: &Path) {
        let who = format!("session {} in {}", self.number, dir.display());
        assert!(self.summary.complete, "{who}");
        // It ends when its programs have left, or soon after; it may stand still for five seconds.
        let took = self.ended.saturating_sub(self.asked);
        assert!(took < 12_000_000_000, "{who} took {took} ns to end");
        let written = Written::of(self.books);
        let mut found = written.found();
        let (mut discarded, mut marks) = (0, 0);
        for (path, bytes) in &self.streams {
            let content = packets::read(path, bytes, &written, &mut found, &who);
            discarded += content.discarded;
            marks += content.marks;
        }
        self.check_counts(&found, &who);
        self.check_missed(&who);
        self.check_list(&who);
        // Packets tell of everything that the summary counts, where the last of them could be written.
        let lost = self.summary.lost_counted.total();
        assert!(discarded <= lost, "{who}: packets tell of {discarded} lost records, the summary of {lost}");
        if !self.disk_fails_at_the_end {
            assert_eq!(
                discarded, lost,
                "{who}: lost records in packets, and in the summary: {:?}",
                self.summary.lost_counted
            );
        }
        self.check_marks(marks, &who);
        self.check_triggers(&who);
        let refused = self.refused_filters.min(100);
        let told = self.summary.unfiltered_count;
        assert!(told >= refused, "{who}: {refused} filters were refused, the summary tells of {told}");
    }

    /// Marks are in the trace, or counted as lost; a flight recorder has them for its snapshots.
    fn check_marks(&self, in_trace: u64, who: &str) {
        let of_programs: u64 = self.summary.processes.iter().map(|process| process.lost_counted.not_written).sum();
        let lost = self.summary.lost_counted.not_written - of_programs;
        let (marks, given) = (self.summary.marks, self.marks);
        assert_eq!(marks + lost, given, "{who}: {given} marks were given, {marks} taken, {lost} lost");
        if !self.is_flight {
            assert_eq!(in_trace, marks, "{who}: {in_trace} marks are in the trace");
        }
    }

    /// Each record that a trigger waits for made it fire, or was overwritten before it was looked at.
    fn check_triggers(&self, who: &str) {
        let all: u64 = self.books.values().map(|book| book.triggering).sum();
        // It looked for the last time before the end.
        let wanted = self.settled.unwrap_or(all);
        let (fired, unseen) = (self.fired, self.unseen);
        if self.is_flight {
            let what = format!("{who}: a trigger fired {fired} of {wanted} times, {unseen} records were not seen");
            assert!(fired <= all && wanted <= fired + unseen, "{what}");
        }
    }

    /// Each program is refused once.
    fn check_list(&self, who: &str) {
        let is_refused = |process: &&ProcessSummary| matches!(process.outcome, Outcome::Refused(_));
        let mut names = BTreeSet::new();
        for process in self.summary.processes.iter().filter(is_refused) {
            assert!(names.insert(&process.comm), "{who}: {} is listed twice: {:?}", process.comm, process.outcome);
        }
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
    fn check_counts(&self, found: &FoundRecords, who: &str) {
        let unknown = self.unknown();
        let is_bounded = self.summary.unknown_count as usize == self.summary.unknown.len();
        let mut truth: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for (serial, book) in self.books {
            let of = truth.entry(&book.comm).or_default();
            let published = book.published.values().map(|tokens| tokens.len() as u64).sum::<u64>();
            of[0] += published;
            of[2] += book.lost_full;
            // What is overwritten goes nowhere without a snapshot, and is counted as it was written.
            of[1] += if book.is_overwritten { published } else { found.of_memory(*serial) };
        }
        for (comm, [published, taken, full]) in truth {
            if unknown.contains(comm) || !is_bounded {
                continue;
            }
            let of = || self.summary.processes.iter().filter(|process| process.comm == comm);
            let mut lost = Lost::default();
            of().for_each(|process| lost.add(&process.lost_counted));
            let what =
                format!("{who}: {comm} wrote {published}, {taken} are in the trace, {full} had no room; {lost:?}");
            assert_eq!(lost.full, full, "{what}");
            assert_eq!(published, taken + lost.not_written + lost.damaged, "{what}");
            let records: u64 = of().filter_map(|process| process.records).sum();
            assert_eq!(records, taken, "{what}: its entry says {records}");
        }
    }

    /// A program that was to be recorded and was not, or not from its beginning, is told of.
    fn check_missed(&self, who: &str) {
        if self.summary.unknown_count as usize != self.summary.unknown.len() {
            return;
        }
        let unknown = self.unknown();
        for MissedProgram { pid, comm, parents, hits, .. } in &self.missed {
            let is_told = unknown.contains(comm)
                || parents.iter().any(|parent| unknown.contains(parent))
                || self.unheard.contains(&comm.as_str())
                || self.summary.unknown.iter().any(|entry| entry.comm.is_empty() && [0, *pid].contains(&entry.pid));
            assert!(
                is_told,
                "{who}: {comm} (process {pid}, of {parents:?}) was not recorded {hits} times, and nobody says so: {:#?}",
                self.summary.unknown
            );
        }
    }
}
