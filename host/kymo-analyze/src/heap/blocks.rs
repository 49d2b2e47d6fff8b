// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of one process that are live.

use crate::hash::Map;

/// A call of the allocator: who and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it was recorded, ns: an allocation after the call, a free before it.
    pub time: i64,
    /// Number of the process.
    pub process: usize,
    /// The thread.
    pub thread: u32,
    /// Number of the stack that the caller gave it; `None`: not asked for, and so only followed.
    pub stack: Option<u32>,
}

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new block.
    Allocate {
        /// Where.
        address: u64,
        /// As asked for.
        bytes: u64,
    },
    /// A block is let go.
    Free {
        /// Where.
        address: u64,
    },
    /// `realloc`: lets one block go and allocates another one, in one step.
    Resize {
        /// The block until then; 0: none.
        from: u64,
        /// The new block; 0: none.
        to: u64,
        /// Of the new block.
        bytes: u64,
    },
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub bytes: u64,
    pub stack: Option<u32>,
    pub thread: u32,
    pub is_in_range: bool,
}

/// The blocks of a process, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    pub live: Map<u64, Block>,
    /// Of the parent, when this process was made.
    pub inherited: Map<u64, Block>,
    /// Blocks that were handed out again before their end was recorded: by which thread, and how many.
    let_go: Map<u64, (u32, u64)>,
    /// Of ended programs.
    replaced: u64,
}

impl Blocks {
    /// What a forked child has.
    pub fn inherit(&self) -> Map<u64, Block> {
        let mut all = self.live.clone();
        all.extend(self.inherited.iter().filter(|(address, _)| !self.live.contains_key(*address)));
        all
    }

    /// Puts a block there. Returns the one that was there: a `realloc` of another thread that moves it has let it go,
    /// and is recorded a moment later; or the record of its end is missing.
    pub fn put(&mut self, address: u64, block: Block) -> Option<Block> {
        self.inherited.remove(&address);
        let before = self.live.insert(address, block);
        if before.is_some() {
            let (thread, count) = self.let_go.entry(address).or_default();
            (*thread, *count) = (block.thread, *count + 1);
        }
        before
    }

    /// Whether a `realloc` by this thread is the one that had let go of a block before it was handed out again.
    pub fn was_let_go(&mut self, address: u64, thread: u32) -> bool {
        let Some((taker, count)) = self.let_go.get_mut(&address) else { return false };
        if *taker == thread {
            return false;
        }
        *count -= 1;
        if *count == 0 {
            self.let_go.remove(&address);
        }
        true
    }

    /// The end of a program: all that is live.
    pub fn take(&mut self) -> Vec<Block> {
        self.replaced = self.replaced();
        self.let_go.clear();
        self.inherited.clear();
        self.live.drain().map(|(_, block)| block).collect()
    }

    /// Blocks that were handed out again without an end.
    pub fn replaced(&self) -> u64 {
        self.replaced + self.let_go.values().map(|(_, count)| count).sum::<u64>()
    }
}
