// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted of blocks: by stack, by process, in all, and over time.

use std::iter::Sum;
use std::ops::{Add, AddAssign, SubAssign};

/// Blocks, and the bytes that were asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes as asked for: without what an allocator adds.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Amount {
    /// One block.
    pub fn of(bytes: u64) -> Amount {
        Amount { bytes, blocks: 1 }
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        // A trace may say any size.
        Amount { bytes: self.bytes.saturating_add(other.bytes), blocks: self.blocks.saturating_add(other.blocks) }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Amount) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.blocks = self.blocks.saturating_sub(other.blocks);
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Amount>>(all: I) -> Amount {
        all.fold(Amount::default(), Add::add)
    }
}

/// All processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// At the end of the range, of programs that go on.
    pub live: Amount,
    /// When it was most.
    pub peak: Amount,
    /// The time of that, ns.
    pub peak_time: i64,
    /// Allocated in the range and never freed: until the end of the process, or of the records.
    pub leaked: Amount,
    /// Allocated in the range and not freed when the program became another one.
    pub at_exec: Amount,
    /// All that was allocated in the range; a block that was resized counts once more.
    pub allocated: Amount,
    /// All that was let go in the range.
    pub freed: Amount,
    /// Frees of blocks that nobody was seen to allocate.
    pub unknown_frees: u64,
    /// Calls that returned no memory.
    pub failed: u64,
    /// Blocks that were handed out again although nobody was seen to free them.
    pub replaced: u64,
}

/// The heap of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSums {
    /// As in [`Totals`].
    pub live: Amount,
    /// When its own heap was largest.
    pub peak: Amount,
    /// The time of that, ns.
    pub peak_time: i64,
    /// As in [`Totals`].
    pub leaked: Amount,
    /// As in [`Totals`].
    pub at_exec: Amount,
    /// As in [`Totals`].
    pub allocated: Amount,
    /// As in [`Totals`].
    pub freed: Amount,
    /// As in [`Totals`].
    pub unknown_frees: u64,
    /// As in [`Totals`].
    pub failed: u64,
    /// Blocks of its parent, at the fork. They count for the parent alone.
    pub inherited: Amount,
    /// Those of them that this process has freed.
    pub inherited_freed: Amount,
}

/// What was allocated by one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSums {
    /// As in [`Totals`].
    pub live: Amount,
    /// When the heap of all was largest.
    pub peak: Amount,
    /// As in [`Totals`].
    pub leaked: Amount,
    /// As in [`Totals`].
    pub allocated: Amount,
    /// Which peak `peak` is of.
    peak_number: u64,
}

impl StackSums {
    /// Notes what was live at the newest peak, if nothing has changed since. To be called before each change.
    pub(super) fn touch(&mut self, peak: &Peak) {
        if self.peak_number != peak.number {
            self.peak_number = peak.number;
            self.peak = self.live;
        }
    }
}

/// The largest heap so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    pub amount: Amount,
    pub time: i64,
    number: u64,
}

impl Peak {
    /// It is larger than ever.
    pub(super) fn rise(&mut self, amount: Amount, time: i64) {
        *self = Peak { amount, time, number: self.number + 1 };
    }
}

/// A part of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStep {
    /// Where it ends, ns.
    pub end: i64,
    /// At its end.
    pub live: Amount,
    /// The most in it.
    pub peak_bytes: u64,
    /// Blocks that were allocated in it.
    pub allocations: u64,
    /// Blocks that were let go in it.
    pub frees: u64,
}
