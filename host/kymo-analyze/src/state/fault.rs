// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a thread that goes to sleep does so in a page fault [spec/analyze.md 3.2]. The one place that decides it:
//! states of rows and causes have it from here.

use crate::CallId;
use crate::names::Vocabulary;

/// The last thing that a thread began by itself, since it has its CPU, is a page fault. Where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// From user space: the thread was in no system call.
    User,
    /// From the kernel, which mostly copies to or from the program's memory.
    Kernel,
}

/// System calls that fill memory of the program from a file. Between the faults of new memory they wait for the disk,
/// and no record tells the two apart.
const READS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];

/// What a trace lets be known of sleeps in page faults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FaultRule {
    /// Without system calls a thread may have begun one behind its fault.
    has_calls: bool,
    reads: Vec<CallId>,
}

impl FaultRule {
    pub fn new(vocabulary: &Vocabulary) -> FaultRule {
        FaultRule {
            has_calls: vocabulary.facts().calls,
            reads: READS.iter().flat_map(|name| vocabulary.call_ids(name)).collect(),
        }
    }

    /// Whether a thread that leaves its CPU in a state, by the kernel's letter, sleeps in its fault. Nearly all faults
    /// sleep in D; in S the thread has mostly gone on, and waits in its call.
    pub fn sleeps(&self, fault: Option<Fault>, state: u8, call: Option<CallId>) -> bool {
        state == b'D'
            && match fault {
                Some(Fault::User) => self.has_calls,
                Some(Fault::Kernel) => call.is_some_and(|call| !self.reads.contains(&call)),
                None => false,
            }
    }
}
