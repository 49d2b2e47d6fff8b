// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums: of CPU time, of bytes, of durations. Each keeps which part of it is doubtful.

use crate::doubt::Doubt;

/// Marks that say nothing of a sum: that something began before the stretch, or ended after it; that the head of a
/// record says who runs, which holds as long as nothing contradicts it.
const NOT_OF_SUMS: [Doubt; 3] = [Doubt::START, Doubt::END, Doubt::GUESSED];

/// Marks of a span that make its part of a sum doubtful.
pub(super) fn marks(doubt: Doubt) -> Doubt {
    NOT_OF_SUMS.into_iter().fold(doubt, Doubt::without)
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// On a CPU, with the interrupts that came meanwhile, ns.
    pub ns: u64,
    /// Of that in interrupts, softirqs and timer calls, ns.
    pub interrupted_ns: u64,
    /// Times that it ran: from when a CPU switched to it to when that switched away.
    pub runs: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
    /// Of `ns`: with a mark, ns.
    pub doubtful_ns: u64,
    /// The marks.
    pub doubt: Doubt,
}

impl CpuTime {
    /// Adds a stretch of a run.
    #[inline]
    pub(super) fn add(&mut self, ns: u64, is_interrupt: bool, doubt: Doubt) {
        let doubt = marks(doubt);
        self.ns = self.ns.saturating_add(ns);
        let [interrupted_ns, doubtful_ns] = [is_interrupt, !doubt.is_none()].map(|is_it| if is_it { ns } else { 0 });
        self.interrupted_ns = self.interrupted_ns.saturating_add(interrupted_ns);
        self.doubtful_ns = self.doubtful_ns.saturating_add(doubtful_ns);
        self.doubt |= doubt;
    }

    /// Adds that of another one.
    pub fn plus(&mut self, other: &CpuTime) {
        self.ns = self.ns.saturating_add(other.ns);
        self.interrupted_ns = self.interrupted_ns.saturating_add(other.interrupted_ns);
        self.runs = self.runs.saturating_add(other.runs);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.doubtful_ns = self.doubtful_ns.saturating_add(other.doubtful_ns);
        self.doubt |= other.doubt;
    }
}

/// What was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Requests that do neither, such as flushes.
    pub others: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Reads and writes that failed.
    pub errors: u64,
    /// Those with a mark.
    pub doubtful: u64,
    /// The marks.
    pub doubt: Doubt,
}

impl Transfers {
    /// One that wrote, or read, or did neither. `bytes`: none if it failed.
    pub(super) fn add(&mut self, writes: Option<bool>, bytes: Option<u64>, doubt: Doubt) {
        let count = match writes {
            Some(true) => &mut self.writes,
            Some(false) => &mut self.reads,
            None => &mut self.others,
        };
        *count += 1;
        match (writes, bytes) {
            (_, None) => self.errors += 1,
            (Some(true), Some(bytes)) => self.written_bytes = self.written_bytes.saturating_add(bytes),
            (Some(false), Some(bytes)) => self.read_bytes = self.read_bytes.saturating_add(bytes),
            (None, Some(_)) => {}
        }
        self.doubtful += u64::from(!doubt.is_none());
        self.doubt |= doubt;
    }

    /// Adds those of another one.
    pub fn plus(&mut self, other: &Transfers) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.errors += other.errors;
        self.doubtful += other.doubtful;
        self.doubt |= other.doubt;
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

/// Durations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// Those with a mark.
    pub doubtful: u64,
    /// The marks.
    pub doubt: Doubt,
}

impl Durations {
    pub(super) fn add(&mut self, ns: u64, doubt: Doubt) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
        self.doubtful += u64::from(!doubt.is_none());
        self.doubt |= doubt;
    }

    /// The mean, ns; 0 if there is none.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns / self.count.max(1)
    }
}
