// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many threads read a table.

/// Records of a part, about. Of these 32,768 at most are read twice, and what was read before it is its turn waits in
/// memory.
const PART_RECORDS: u64 = 1 << 19;
/// Threads at most: so many parts may wait in memory.
const THREADS_MAX: usize = 4;

/// How many threads read a table, and how long their parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub(crate) threads: usize,
    pub(crate) records: u64,
    /// It is such a part itself: all its rows may wait to be taken.
    pub(crate) is_part: bool,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead::threads(1)
    }
}

impl Ahead {
    /// So many threads, 4 at most.
    pub fn threads(threads: usize) -> Ahead {
        Ahead { threads: threads.min(THREADS_MAX), records: PART_RECORDS, is_part: false }
    }

    /// As many as there are CPUs.
    pub fn of_machine() -> Ahead {
        Ahead::threads(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Of one part, which one thread reads.
    pub(crate) fn part() -> Ahead {
        Ahead { is_part: true, ..Ahead::default() }
    }

    /// The same in parts of about so many records.
    #[must_use]
    pub fn in_parts_of(self, records: u64) -> Ahead {
        Ahead { records: records.max(1), ..self }
    }
}
