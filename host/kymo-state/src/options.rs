// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a dump holds, and where it is read.

use std::path::PathBuf;

/// Where the two trees of the kernel are. Others than the default are made-up trees in tests, or another mount of
/// /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A procfs; `/proc` by default.
    pub proc: PathBuf,
    /// A sysfs; `/sys` by default.
    pub sys: PathBuf,
}

impl Default for Root {
    fn default() -> Root {
        Root { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// What a dump holds. Threads, CPUs, interrupts, devices and the kernel are always in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Open files, one record per descriptor of a process.
    pub files: bool,
    /// Executable memory maps with build ids, one record per file and process.
    pub maps: bool,
    /// Only these processes' files and maps; `None`: all. Threads are dumped of every process in any case, because any
    /// of them can be the other side of a `sched_switch`.
    pub pids: Option<Vec<u32>>,
    /// Where to read.
    pub root: Root,
}
