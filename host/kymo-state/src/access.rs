// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening and reading files of /proc and /sys, relative to a folder that is open: bounded, without waiting for
//! anyone. Tells apart what is gone, what is hidden, and what is broken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::text::number;

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not there, or no more: a process ended, a kernel lacks the file.
    Gone,
    /// Permissions hide it.
    Hidden,
    /// Anything else.
    Failed(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        match errno {
            Errno::NOENT | Errno::SRCH | Errno::NOTDIR => Fault::Gone,
            Errno::ACCESS | Errno::PERM => Fault::Hidden,
            other => Fault::Failed(other),
        }
    }
}

/// Whether a text was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// There was more than the limit.
    Cut,
}

/// Opens a folder below `base`.
pub(crate) fn folder(base: impl AsFd, path: &str) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(base, path, flags, Mode::empty())?)
}

/// Reads at most `limit` bytes of a file below `base` into `out`, whose memory is used again.
pub(crate) fn read(base: BorrowedFd<'_>, path: &str, limit: usize, out: &mut Vec<u8>) -> Result<Extent, Fault> {
    out.clear();
    // A made-up tree may hold a FIFO or a terminal where the kernel has a file.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat(base, path, flags, Mode::empty())?;
    loop {
        if out.len() >= limit {
            out.truncate(limit);
            return Ok(Extent::Cut);
        }
        out.reserve(4096);
        match rustix::io::read(&file, spare_capacity(out)) {
            Ok(0) => return Ok(Extent::Whole),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The names in a folder, except `.` and `..`, in order.
pub(crate) fn names(folder: impl AsFd) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        // No name that the kernel chooses in /proc and /sys is anything but ASCII.
        if let Ok(name) = entry.file_name().to_str() {
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The names in a folder that are numbers, ascending.
pub(crate) fn numbers(folder: impl AsFd, out: &mut Vec<u32>) -> Result<(), Fault> {
    out.clear();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        out.extend(number::<u32>(entry.file_name().to_bytes()));
    }
    out.sort_unstable();
    Ok(())
}

/// The two trees, each open, or absent.
pub(crate) struct Trees {
    pub proc: Option<OwnedFd>,
    pub sys: Option<OwnedFd>,
}

impl Trees {
    /// A small text of /proc as it stands; empty where there is none.
    pub(crate) fn proc_bytes(&self, path: &str) -> Vec<u8> {
        small(&self.proc, path)
    }

    /// A small text of /sys as it stands; empty where there is none.
    pub(crate) fn sys_bytes(&self, path: &str) -> Vec<u8> {
        small(&self.sys, path)
    }

    /// The names in a folder of /sys; none where there is no such folder.
    pub(crate) fn sys_names(&self, path: &str) -> Vec<String> {
        let Some(sys) = &self.sys else { return Vec::new() };
        folder(sys, path).and_then(names).unwrap_or_default()
    }
}

/// /proc/interrupts and /proc/cpuinfo of the largest machines stay below this.
const SMALL_BYTES: usize = 16 << 20;

fn small(tree: &Option<OwnedFd>, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(tree) = tree {
        if read(tree.as_fd(), path, SMALL_BYTES, &mut out).is_err() {
            out.clear();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_process_gives_is_gone() {
        // Opening after the end, reading after the end, listing after the end.
        for errno in [Errno::NOENT, Errno::SRCH, Errno::NOTDIR] {
            assert_eq!(Fault::from(errno), Fault::Gone);
        }
        for errno in [Errno::ACCESS, Errno::PERM] {
            assert_eq!(Fault::from(errno), Fault::Hidden);
        }
        assert_eq!(Fault::from(Errno::MFILE), Fault::Failed(Errno::MFILE));
    }

    #[test]
    fn reads_are_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("x"), vec![7; 10_000]).expect("a file");
        let open = rustix::fs::open(folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opens");
        let mut out = vec![1; 3];
        for (limit, expect) in [(9_999, Extent::Cut), (10_001, Extent::Whole), (1, Extent::Cut)] {
            assert_eq!(read(open.as_fd(), "x", limit, &mut out), Ok(expect));
            assert_eq!(out, vec![7; limit.min(10_000)]);
        }
        assert_eq!(read(open.as_fd(), "y", 9, &mut out), Err(Fault::Gone));
        assert!(out.is_empty());
    }
}
