// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program and a collector share: shared memory, socket messages, event descriptions.
//!
//! The mirror of `emit/include/kymo/abi`, and the only crate that knows a byte offset. It opens nothing, maps
//! nothing and has no clock. The authority for every layout is `spec/`; `tests/layout.rs` holds this crate against
//! the C compiler.

mod bytes;
pub mod desc;
mod error;
mod record;
pub mod ring;
pub mod wire;

pub use error::Error;
pub use record::{COMPACT_HEAD_MAX, CompactHead, THREAD_RECORD_ID, compact_head, head_word, record_head, split_head};

/// The version of everything in this crate. Any change of a layout or of a meaning raises it.
pub const ABI_VERSION: u32 = 3;

/// How a program's rings are written [spec/ring.md 5 and 6].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingKind {
    /// One lane per CPU, then one spill lane.
    Rseq,
    /// Lanes are claimed by threads.
    Portable,
}

impl RingKind {
    /// The code on the wire and in shared memory.
    pub const fn code(self) -> u32 {
        match self {
            RingKind::Rseq => 1,
            RingKind::Portable => 2,
        }
    }

    /// The kind with this code, if there is one.
    pub const fn from_code(code: u32) -> Option<RingKind> {
        match code {
            1 => Some(RingKind::Rseq),
            2 => Some(RingKind::Portable),
            _ => None,
        }
    }

    /// The word that users see.
    pub const fn name(self) -> &'static str {
        match self {
            RingKind::Rseq => "rseq",
            RingKind::Portable => "portable",
        }
    }
}

/// What a time stamp counts [spec/trace.md 3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The raw invariant TSC, in cycles.
    Tsc,
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic,
    /// The raw count of the Arm generic timer, in its ticks.
    Cntvct,
}

impl Clock {
    /// The code on the wire and in shared memory.
    pub const fn code(self) -> u32 {
        match self {
            Clock::Tsc => 1,
            Clock::Monotonic => 2,
            Clock::Cntvct => 3,
        }
    }

    /// The clock with this code, if there is one.
    pub const fn from_code(code: u32) -> Option<Clock> {
        match code {
            1 => Some(Clock::Tsc),
            2 => Some(Clock::Monotonic),
            3 => Some(Clock::Cntvct),
            _ => None,
        }
    }

    /// The word that users and traces see.
    pub const fn name(self) -> &'static str {
        match self {
            Clock::Tsc => "tsc",
            Clock::Monotonic => "monotonic",
            Clock::Cntvct => "cntvct",
        }
    }
}
