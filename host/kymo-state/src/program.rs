// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose maps are told while they run, and why they are looked at.

/// A program that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its number here.
    pub pid: u32,
    /// The number by which it knows itself.
    pub vpid: u32,
    /// Of the program that made it, the number by which that one knows itself; 0 where it is not known.
    pub parent: u32,
}

/// Why a program is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has just begun, by `fork` or `exec`, or was found: all that was told of its number before is over.
    Begin,
    /// Once more.
    Look {
        /// How long ago the look before began, ns.
        since_ns: u64,
    },
    /// It has ended.
    End,
}
