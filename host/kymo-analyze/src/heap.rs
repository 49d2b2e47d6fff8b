// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap of processes over time, from the calls of an allocator [spec/analyze.md 13]: how much is live, when it was
//! most, what was never freed, and by whom it was allocated.
//!
//! Who calls knows records, stacks and processes; here they are numbers. Calls come in the order of time. State is
//! proportional to the blocks that are live, and to the stacks.
//!
//! ```
//! use kymo_analyze::heap::{Call, Heap, Operation};
//!
//! let mut heap = Heap::new((0, 100), 2);
//! let process = heap.process();
//! let mut call = Call { time: 10, process, thread: 1, stack: Some(7) };
//! heap.call(&call, Operation::Allocate { address: 0x1000, bytes: 64 });
//! heap.call(&call, Operation::Allocate { address: 0x2000, bytes: 36 });
//! call.time = 60;
//! heap.call(&call, Operation::Free { address: 0x1000 });
//! heap.finish();
//! assert_eq!((heap.total().peak.bytes, heap.total().leaked.bytes), (100, 36));
//! assert_eq!(heap.stacks()[7].peak.bytes, 100);
//! assert_eq!(heap.steps().iter().map(|step| step.live.bytes).collect::<Vec<_>>(), [100, 36]);
//! ```

mod blocks;
mod sums;

pub use blocks::{Call, Operation};
pub use sums::{Amount, HeapStep, ProcessSums, StackSums, Totals};

use blocks::{Block, Blocks};
use sums::Peak;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process has ended: what it has not freed is leaked.
    Exit,
    /// It became another program: its heap is gone.
    Exec,
}

/// The heap of processes.
#[derive(Clone, Debug)]
pub struct Heap {
    /// [from, to): what is counted.
    range: (i64, i64),
    steps_max: u32,
    processes: Vec<(Blocks, ProcessSums)>,
    stacks: Vec<StackSums>,
    total: Totals,
    peak: Peak,
    steps: Vec<HeapStep>,
    step: HeapStep,
    /// The range has begun, and ended.
    has_begun: bool,
    is_closed: bool,
}

impl Heap {
    /// Counts what happens in [from, to), ns, in so many steps of equal length. Calls before that only make the heap
    /// what it is at `from`; calls behind it only tell what is leaked.
    pub fn new(range: (i64, i64), steps: u32) -> Heap {
        Heap {
            range,
            steps_max: steps,
            processes: Vec::new(),
            stacks: Vec::new(),
            total: Totals::default(),
            peak: Peak::default(),
            steps: Vec::new(),
            step: HeapStep::default(),
            has_begun: false,
            is_closed: false,
        }
    }

    /// A further process, with an empty heap. Its number.
    pub fn process(&mut self) -> usize {
        self.processes.push(Default::default());
        self.processes.len() - 1
    }

    /// A further process, made by `fork`: it can free what its parent had then.
    pub fn fork(&mut self, parent: usize) -> usize {
        let child = self.process();
        if let Some((of_parent, _)) = self.processes.get(parent) {
            let inherited = of_parent.inherit();
            let (blocks, sums) = &mut self.processes[child];
            sums.inherited = inherited.values().map(|block| Amount::of(block.bytes)).sum();
            blocks.inherited = inherited;
        }
        child
    }

    /// Takes a call that succeeded.
    pub fn call(&mut self, call: &Call, operation: Operation) {
        self.advance(call.time);
        if call.process >= self.processes.len() {
            return;
        }
        match operation {
            Operation::Allocate { address, bytes } => self.allocate(call, address, bytes),
            Operation::Free { address } => self.free(call, address),
            Operation::Resize { from, to, bytes } => {
                let blocks = &mut self.processes[call.process].0;
                if from != 0 && (from == to || !blocks.was_let_go(from, call.thread)) {
                    self.free(call, from);
                }
                if to != 0 {
                    self.allocate(call, to, bytes);
                }
            }
        }
        self.note_peaks(call);
    }

    /// Takes a call that returned no memory.
    pub fn failed(&mut self, call: &Call) {
        self.advance(call.time);
        if self.is_counted() && call.stack.is_some() {
            self.total.failed += 1;
            self.processes.get_mut(call.process).into_iter().for_each(|(_, sums)| sums.failed += 1);
        }
    }

    /// A program ends.
    pub fn end(&mut self, process: usize, time: i64, end: End) {
        self.advance(time);
        let Some((blocks, _)) = self.processes.get_mut(process) else { return };
        let live = blocks.take();
        live.iter().for_each(|block| self.gone(process, block, end));
    }

    /// The records end: what is live is not freed. To be called once, after all others.
    pub fn finish(&mut self) {
        self.close();
        for process in 0..self.processes.len() {
            let live = self.processes[process].0.take();
            live.iter().for_each(|block| self.leak(process, block));
        }
        self.total.replaced = self.processes.iter().map(|(blocks, _)| blocks.replaced()).sum();
    }

    /// All processes together.
    pub fn total(&self) -> &Totals {
        &self.total
    }

    /// By number of the process.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessSums> {
        self.processes.iter().map(|(_, sums)| sums)
    }

    /// By number of the stack.
    pub fn stacks(&self) -> &[StackSums] {
        &self.stacks
    }

    /// The range in equal steps.
    pub fn steps(&self) -> &[HeapStep] {
        &self.steps
    }

    fn is_counted(&self) -> bool {
        self.has_begun && !self.is_closed
    }

    /// Goes on to a time.
    fn advance(&mut self, time: i64) {
        if !self.has_begun && time >= self.range.0 {
            self.begin();
        }
        while self.is_counted() && self.steps.len() < self.steps_max as usize && self.step.end <= time {
            self.end_step();
        }
        if time >= self.range.1 {
            self.close();
        }
    }

    /// The heap as it is at the begin is the largest so far.
    fn begin(&mut self) {
        self.has_begun = true;
        self.peak.rise(self.total.live, self.range.0);
        for (_, sums) in &mut self.processes {
            sums.peak = sums.live;
            sums.peak_time = self.range.0;
        }
        self.step = self.next_step();
    }

    fn next_step(&self) -> HeapStep {
        let (from, to) = (i128::from(self.range.0), i128::from(self.range.1));
        let number = self.steps.len() as i128 + 1;
        let end = from + (to - from) * number / i128::from(self.steps_max.max(1));
        HeapStep { end: end as i64, live: self.total.live, peak_bytes: self.total.live.bytes, ..HeapStep::default() }
    }

    fn end_step(&mut self) {
        self.step.live = self.total.live;
        self.steps.push(self.step);
        self.step = self.next_step();
    }

    /// The range ends: what is live now is what is live at its end.
    fn close(&mut self) {
        if self.is_closed {
            return;
        }
        if !self.has_begun {
            self.begin();
        }
        while self.steps.len() < self.steps_max as usize {
            self.end_step();
        }
        self.is_closed = true;
        (self.total.peak, self.total.peak_time) = (self.peak.amount, self.peak.time);
        for stack in &mut self.stacks {
            stack.touch(&self.peak);
        }
    }

    fn allocate(&mut self, call: &Call, address: u64, bytes: u64) {
        let is_counted = self.is_counted();
        let block = Block { bytes, stack: call.stack, thread: call.thread, is_in_range: is_counted };
        let before = self.processes[call.process].0.put(address, block);
        if let Some(before) = before {
            self.remove(call.process, &before, true);
        }
        let Some(stack) = call.stack.filter(|_| !self.is_closed) else { return };
        let amount = Amount::of(bytes);
        let (sums, of_stack) = (&mut self.processes[call.process].1, sums_of(&mut self.stacks, stack));
        of_stack.touch(&self.peak);
        self.total.live += amount;
        sums.live += amount;
        of_stack.live += amount;
        if is_counted {
            self.total.allocated += amount;
            sums.allocated += amount;
            of_stack.allocated += amount;
            self.step.allocations += 1;
        }
    }

    fn free(&mut self, call: &Call, address: u64) {
        let blocks = &mut self.processes[call.process].0;
        if let Some(block) = blocks.live.remove(&address) {
            return self.remove(call.process, &block, true);
        }
        let inherited = blocks.inherited.remove(&address);
        if !self.is_counted() || call.stack.is_none() {
            return;
        }
        let sums = &mut self.processes[call.process].1;
        match inherited {
            Some(block) => sums.inherited_freed += Amount::of(block.bytes),
            None => {
                sums.unknown_frees += 1;
                self.total.unknown_frees += 1;
            }
        }
    }

    /// A block is no longer live.
    fn remove(&mut self, process: usize, block: &Block, is_free: bool) {
        let Some(stack) = block.stack.filter(|_| !self.is_closed) else { return };
        let amount = Amount::of(block.bytes);
        let (sums, of_stack) = (&mut self.processes[process].1, sums_of(&mut self.stacks, stack));
        of_stack.touch(&self.peak);
        self.total.live -= amount;
        sums.live -= amount;
        of_stack.live -= amount;
        if is_free && self.has_begun {
            self.total.freed += amount;
            sums.freed += amount;
            self.step.frees += 1;
        }
    }

    /// The program of a block has ended.
    fn gone(&mut self, process: usize, block: &Block, end: End) {
        self.remove(process, block, false);
        match end {
            End::Exit => self.leak(process, block),
            End::Exec if block.stack.is_some() && block.is_in_range => {
                let amount = Amount::of(block.bytes);
                self.total.at_exec += amount;
                self.processes[process].1.at_exec += amount;
            }
            End::Exec => {}
        }
    }

    fn leak(&mut self, process: usize, block: &Block) {
        let Some(stack) = block.stack.filter(|_| block.is_in_range) else { return };
        let amount = Amount::of(block.bytes);
        self.total.leaked += amount;
        self.processes[process].1.leaked += amount;
        sums_of(&mut self.stacks, stack).leaked += amount;
    }

    fn note_peaks(&mut self, call: &Call) {
        if !self.is_counted() {
            return;
        }
        let live = self.total.live;
        self.step.peak_bytes = self.step.peak_bytes.max(live.bytes);
        if live.bytes > self.peak.amount.bytes {
            self.peak.rise(live, call.time);
        }
        let sums = &mut self.processes[call.process].1;
        if sums.live.bytes > sums.peak.bytes {
            (sums.peak, sums.peak_time) = (sums.live, call.time);
        }
    }
}

/// Of a stack, which may be the first time.
fn sums_of(stacks: &mut Vec<StackSums>, stack: u32) -> &mut StackSums {
    let position = stack as usize;
    if stacks.len() <= position {
        stacks.resize(position + 1, StackSums::default());
    }
    &mut stacks[position]
}

#[cfg(test)]
mod tests;
