// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU: its pages as they are, and the kernel's own counts [spec/kernel.md 4, 5].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, MappedRing};

/// Longer than any `stats` file.
const STATS_BYTES_MAX: usize = 1024;

/// Reads one CPU's ring. The instance cannot be removed while one of these is open.
/// As a file descriptor it is for `poll`: readable when the kernel has data (see `buffer_percent`).
#[derive(Debug)]
pub struct CpuReader {
    pages: File,
    stats: File,
    stats_path: PathBuf,
    page_bytes: usize,
}

/// The kernel's counts of one CPU's ring, since the instance was made or cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events in the ring now.
    pub entries: u64,
    /// Events that newer ones overwrote before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt filled the whole ring while an event was written.
    pub commit_overrun: u64,
    /// Bytes in the ring now.
    pub bytes: u64,
    /// Events dropped because the ring was full and may not overwrite.
    pub dropped: u64,
    /// Events that were read.
    pub read: u64,
}

impl CpuReader {
    /// `directory` is the instance's `per_cpu/cpuN`.
    pub(crate) fn open(directory: &Path, page_bytes: usize) -> Result<CpuReader, Error> {
        let (pages_path, stats_path) = (directory.join("trace_pipe_raw"), directory.join("stats"));
        let open = |path: &Path| {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::open(path, flags, Mode::empty());
            file.map(File::from).map_err(|error| Error::file("read the ring", path, error.into()))
        };
        Ok(CpuReader { pages: open(&pages_path)?, stats: open(&stats_path)?, stats_path, page_bytes })
    }

    /// Takes one sub-buffer out of the ring and gives its bytes; 0 if the ring is empty. Never waits.
    /// `page` has room for at least one sub-buffer, else `InvalidInput`: a part of one could not be told from a whole.
    pub fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        if page.len() < self.page_bytes {
            let why = format!("{} bytes of room for a sub-buffer of {}", page.len(), self.page_bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.pages, &mut page[..self.page_bytes])) {
            Err(Errno::AGAIN) => Ok(0),
            result => result.map_err(io::Error::from),
        }
    }

    /// Maps the ring, as far as the kernel does that (Linux 6.10). `head_bytes`: what a sub-buffer has in front of its
    /// records. Who reads the mapped ring does not call [`CpuReader::read`].
    pub fn map(&self, head_bytes: usize) -> io::Result<MappedRing> {
        MappedRing::map(self.pages.try_clone()?, self.page_bytes, head_bytes)
    }

    /// The kernel's counts now.
    pub fn stats(&mut self) -> Result<Stats, Error> {
        let mut bytes = [0; STATS_BYTES_MAX];
        // The kernel writes the text anew for each read, so one open file gives them again and again.
        let length = rustix::io::retry_on_intr(|| rustix::io::pread(&self.stats, &mut bytes, 0))
            .map_err(|error| Error::file("count events", &self.stats_path, error.into()))?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        Stats::parse(&text).ok_or_else(|| Error::strange(&self.stats_path, &text, "a count is missing"))
    }
}

impl AsFd for CpuReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pages.as_fd()
    }
}

impl Stats {
    /// From the text of a `stats` file, which has a `name: number` per line. `None` if a count is missing.
    pub fn parse(text: &str) -> Option<Stats> {
        let count = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse().ok()
        };
        Some(Stats {
            entries: count("entries")?,
            overrun: count("overrun")?,
            commit_overrun: count("commit overrun")?,
            bytes: count("bytes")?,
            dropped: count("dropped events")?,
            read: count("read events")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 480\noldest event ts:    65.020369\n\
                        now ts: 12065.020369\ndropped events: 7\nread events: 100\n";

    #[test]
    fn counts_by_their_names() {
        let expect = Stats { entries: 12, overrun: 3, commit_overrun: 1, bytes: 480, dropped: 7, read: 100 };
        assert_eq!(Stats::parse(TEXT), Some(expect));
    }

    #[test]
    fn a_missing_or_wrong_count_is_not_zero() {
        for name in ["entries", "overrun", "commit overrun", "bytes", "dropped events", "read events"] {
            let damaged = TEXT.replacen(&format!("{name}:"), "other:", 1);
            assert_eq!(Stats::parse(&damaged), None, "{name}");
        }
        assert_eq!(Stats::parse(&TEXT.replace("480", "-1")), None);
    }
}
