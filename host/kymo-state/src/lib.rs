//! The state of the machine at one moment, as events [spec/kernel.md 6].
//!
//! A trace of changes can only be understood from a known beginning: which threads exist, what they are called, how
//! they are scheduled, which files they have open, where code is mapped, which device an interrupt belongs to. [`dump`]
//! reads that from /proc and /sys and hands each fact on as one packed record of a class from [`classes`].
//!
//! Nothing here has a clock, opens a socket, starts a thread, or writes anything.
//!
//! What cannot be told from /proc: whether a runnable thread is running at this instant. As in LTTng's dump, every
//! runnable thread has status 2 (waits for a CPU) and mode 5 (unknown); the first `sched_switch` tells. The dump takes
//! time, so two records may show different moments; whoever reads it lets a kernel event that came in between win.

mod access;
mod build_id;
mod class;
mod cpu;
mod device;
mod dump;
mod interrupt;
mod kernel;
mod maps;
mod process;
mod record;
mod text;

use std::path::PathBuf;

pub use class::{CLASSES, classes};
pub use maps::Maps;

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

/// One record of the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The id of its class.
    pub id: u16,
    /// The thread that it is about; the process for files and maps; 0 for what belongs to the machine.
    pub tid: u32,
    /// The fields of the class one behind the other, little endian, without padding.
    pub payload: &'a [u8],
}

/// What a dump found, and what it could not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Processes whose main thread was dumped.
    pub processes: u64,
    /// Threads, without the idle threads.
    pub threads: u64,
    /// Open files.
    pub files: u64,
    /// Memory maps.
    pub maps: u64,
    /// What is missing, why, and what would help; whole sentences. Processes that ended meanwhile are not missing.
    pub caveats: Vec<String>,
}

/// Dumps the state of the machine: `lttng_statedump_start`, the records, `lttng_statedump_end`.
///
/// `first_id` is the id of the first of the [`CLASSES`] classes, as given to [`classes`]. `put` is called once per
/// record, from this thread; the payload is valid during the call only.
pub fn dump(options: &Options, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> Report {
    dump::run(options, first_id, put)
}
