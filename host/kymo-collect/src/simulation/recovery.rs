// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions whose collector dies: what their ring files hold goes into the trace, once, and what was lost is told.
//!
//! The ring files are real, for their own sake: who still writes into them is the kernel's word. A dead process removes
//! none of them, so each has a second name while its collector may die.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::packets::{self, Written};
use super::rings::Books;
use super::snapshots;
use crate::chunks::is_chunk_dir;
use crate::memory::FILE_PREFIX;
use crate::recover;

/// The real directories of a session.
#[derive(Debug)]
pub(super) struct RingDir(tempfile::TempDir);

impl RingDir {
    pub(super) fn new() -> RingDir {
        let dir = RingDir(tempfile::tempdir().expect("a directory"));
        for path in [dir.rings(), dir.left()] {
            std::fs::create_dir(path).expect("a directory");
        }
        dir
    }

    /// Of the collector.
    pub(super) fn rings(&self) -> PathBuf {
        self.0.path().join("rings")
    }

    fn left(&self) -> PathBuf {
        self.0.path().join("left")
    }

    /// From here on the collector may die: its files stay.
    pub(super) fn keep(&self) {
        for entry in std::fs::read_dir(self.rings()).expect("a directory").flatten() {
            if entry.file_name().to_string_lossy().starts_with(FILE_PREFIX) {
                match std::fs::hard_link(entry.path(), self.left().join(entry.file_name())) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("another name: {error}"),
                    _ => {}
                }
            }
        }
    }

    /// It has not died.
    pub(super) fn keep_no_longer(&self) {
        for entry in std::fs::read_dir(self.left()).expect("a directory").flatten() {
            std::fs::remove_file(entry.path()).expect("a name of ours");
        }
    }

    /// Recovers the trace in `dir` of the disk. Returns its files.
    fn recover(&self, disk: &Disk, dir: &Path, are_all_kept: bool) -> Vec<(PathBuf, Vec<u8>)> {
        let trace = self.0.path().join("trace");
        disk.bring(dir, &trace).expect("room for a trace");
        let recovered = recover::recover(&self.left(), &trace).expect("a trace that can be recovered");
        let is_said = are_all_kept && !recovered.caveats.is_empty();
        assert!(!is_said, "{}: {:?}", dir.display(), recovered.caveats);
        let mut files = Vec::new();
        let mut dirs = vec![trace];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                if is_chunk_dir(&name) {
                    dirs.push(path);
                } else if name.starts_with("user_") {
                    let bytes = std::fs::read(&path).expect("a file of ours");
                    files.push((path, bytes));
                }
            }
        }
        files.sort();
        files
    }
}

/// A session whose collector died, and its trace.
pub(super) struct Dead<'a> {
    pub number: usize,
    pub books: &'a Books,
    pub disk: &'a Disk,
    pub dir: &'a Path,
    pub rings: &'a RingDir,
    pub is_flight: bool,
    /// The session's own user: rings of others' programs are no files.
    pub uid: u32,
    /// Everything could be written at any time.
    pub disk_was_good: bool,
}

impl Dead<'_> {
    /// Recovers the trace and checks it. Returns the records that it has.
    pub(super) fn check(&self) -> u64 {
        let who = format!("session {}, whose collector died", self.number);
        let are_all_kept = self.books.values().all(|book| book.uid == self.uid);
        let files = self.rings.recover(self.disk, self.dir, are_all_kept);
        if self.is_flight {
            snapshots::check_left(self.books, &files, &who);
        }
        let written = Written::of(self.books);
        let mut found = written.found();
        let contents = files.iter().map(|(path, bytes)| packets::read(path, bytes, &written, &mut found, &who));
        let discarded: u64 = contents.map(|content| content.discarded).sum();
        let records = found.counts.values().sum();
        if self.is_flight {
            return records;
        }
        let (mut missing, mut full) = (0, 0);
        let mut is_exact = self.disk_was_good;
        for (serial, book) in self.books {
            let published: u64 = book.published.values().map(|tokens| tokens.len() as u64).sum();
            let there = found.of_memory(*serial);
            let what = format!("{who}: {} wrote {published}, {there} are in the trace", book.comm);
            (missing, full) = (missing + published - there, full + book.lost_full);
            if book.uid != self.uid {
                is_exact = false;
            } else if self.disk_was_good {
                assert_eq!(published, there, "{what}");
            }
        }
        let what = format!("{who}: {missing} are missing, {full} had no room, packets tell of {discarded}");
        assert!(discarded <= missing + full, "{what}");
        assert!(!is_exact || discarded == full, "{what}");
        records
    }
}
