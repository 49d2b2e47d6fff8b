// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wait of a thread that can run: for which CPU, since when, and what is known of that CPU meanwhile. What it waits
//! for is the matter of `ready` and `beside_idle`.

/// No idle state takes so long to leave, ns. A CPU that writes nothing for so long idles, or stands still.
pub(super) const LONG_IDLE_NS: i64 = 1_000_000;

/// A wait until groups get their quota anew is of that for so long at least, ns.
pub(super) const QUOTA_WAIT_NS: i64 = 10_000_000;

/// What a thread that can run waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub cpu: u32,
    /// Since when it is in the queue of that CPU.
    pub arrived: i64,
    /// When it runs, or does something else.
    pub until: i64,
    /// It ran there, and had to leave.
    pub has_left: bool,
    /// Whether `arrived` is what a record says.
    pub is_exact: bool,
    /// Whether it runs on that CPU. Else it was moved, and no record says when.
    pub is_here: bool,
    /// Its CPU itself woke it: it was not in an idle state then.
    pub is_woken_here: bool,
    /// The wait as a whole.
    pub wait: WholeWait,
}

impl Ready {
    /// Whether what its CPU does since a time was chosen when it could run.
    pub fn is_behind(&self, since: i64) -> bool {
        // Of a thread that ran and had to leave, who came in its place was chosen then.
        since > self.arrived || (self.has_left && since == self.arrived)
    }

    /// Whether a CPU that has chosen to idle for so long knows of the thread: it may not have been told yet.
    pub fn is_in_queue(&self, idle_ns: i64) -> bool {
        self.is_exact || (self.is_woken_here && idle_ns >= LONG_IDLE_NS)
    }

    /// Whether the CPU idled by its own choice from a time on, in that wait.
    pub fn idled(&self, since: i64) -> bool {
        self.wait.choice.until.is_some_and(|until| until > since)
    }

    /// Of which wait it is.
    pub fn is_same(&self, other: &Ready) -> bool {
        (self.cpu, self.arrived, self.until) == (other.cpu, other.arrived, other.until)
    }
}

/// What a wait shows as a whole. It is looked up once: a wait has many pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WholeWait {
    /// The lowest of the real-time priorities that the CPU's threads had meanwhile.
    pub lowest: Option<i16>,
    /// What its CPU does when it idles.
    pub choice: IdleChoice,
}

/// What shows in a wait that the CPU idles by its own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IdleChoice {
    /// It went to an idle state again.
    pub is_seen: bool,
    /// It must have chosen to, whenever it idled in that wait.
    pub is_inferred: bool,
    /// The end of the last idle time that it chose.
    pub until: Option<i64>,
    /// How long it idled in that wait at most.
    pub idle_ns: i64,
}
