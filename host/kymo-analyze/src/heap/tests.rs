// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heaps whose numbers are known.

use super::*;

const ALL: (i64, i64) = (0, 1000);

fn amount(bytes: u64, blocks: u64) -> Amount {
    Amount { bytes, blocks }
}

/// Calls of one process and thread, one after the other.
fn run(heap: &mut Heap, process: usize, calls: &[(i64, u32, Operation)]) {
    for &(time, stack, operation) in calls {
        heap.call(&Call { time, process, thread: 1, stack: Some(stack) }, operation);
    }
}

fn allocate(address: u64, bytes: u64) -> Operation {
    Operation::Allocate { address, bytes }
}

fn free(address: u64) -> Operation {
    Operation::Free { address }
}

fn resize(from: u64, to: u64, bytes: u64) -> Operation {
    Operation::Resize { from, to, bytes }
}

#[test]
fn live_peak_and_leaked_by_stack() {
    let mut heap = Heap::new(ALL, 4);
    let process = heap.process();
    run(
        &mut heap,
        process,
        &[
            (0, 0, allocate(0x10, 100)),
            (100, 1, allocate(0x20, 50)),
            (300, 0, allocate(0x30, 25)),
            (400, 2, free(0x10)),
            (600, 1, allocate(0x40, 60)),
            (900, 2, free(0x20)),
        ],
    );
    heap.finish();
    let total = heap.total();
    assert_eq!((total.peak, total.peak_time), (amount(175, 3), 300));
    assert_eq!((total.live, total.leaked), (amount(85, 2), amount(85, 2)));
    assert_eq!((total.allocated, total.freed), (amount(235, 4), amount(150, 2)));
    let stacks: Vec<_> = heap.stacks().iter().map(|stack| (stack.peak.bytes, stack.leaked.bytes)).collect();
    assert_eq!(stacks, [(125, 25), (50, 60)]);
    let steps: Vec<_> = heap.steps().iter().map(|step| (step.end, step.live.bytes, step.peak_bytes)).collect();
    assert_eq!(steps, [(250, 150, 150), (500, 75, 175), (750, 135, 135), (1000, 85, 135)]);
    let counts: Vec<_> = heap.steps().iter().map(|step| (step.allocations, step.frees)).collect();
    assert_eq!(counts, [(2, 0), (1, 1), (1, 0), (0, 1)]);
}

#[test]
fn realloc_in_place_moved_from_nothing_and_to_nothing() {
    let mut heap = Heap::new(ALL, 1);
    let process = heap.process();
    run(
        &mut heap,
        process,
        &[
            (1, 0, resize(0, 0x10, 10)),
            (2, 1, resize(0x10, 0x10, 30)),
            (3, 2, resize(0x10, 0x20, 40)),
            (4, 3, allocate(0x30, 5)),
            (5, 3, resize(0x30, 0, 0)),
        ],
    );
    heap.finish();
    assert_eq!(heap.total().leaked, amount(40, 1));
    // What is moved is never there twice.
    assert_eq!(heap.total().peak, amount(45, 2));
    assert_eq!((heap.total().allocated.blocks, heap.total().freed.blocks), (4, 3));
    let leaked: Vec<_> = heap.stacks().iter().map(|stack| stack.leaked.bytes).collect();
    assert_eq!(leaked, [0, 0, 40, 0]);
}

#[test]
fn a_block_that_another_thread_gets_before_its_realloc_is_recorded() {
    let mut heap = Heap::new(ALL, 1);
    let process = heap.process();
    let by = |thread, time| Call { time, process, thread, stack: Some(0) };
    heap.call(&by(1, 1), allocate(0x10, 100));
    heap.call(&by(2, 2), allocate(0x10, 7));
    heap.call(&by(1, 3), resize(0x10, 0x20, 200));
    heap.finish();
    assert_eq!(heap.total().leaked, amount(207, 2));
    assert_eq!((heap.total().replaced, heap.total().unknown_frees), (0, 0));
    // The same thread cannot be in both: there a record is missing.
    let mut heap = Heap::new(ALL, 1);
    let process = heap.process();
    run(&mut heap, process, &[(1, 0, allocate(0x10, 100)), (2, 0, allocate(0x10, 7)), (3, 0, resize(0x10, 0x20, 9))]);
    heap.finish();
    assert_eq!((heap.total().leaked, heap.total().replaced), (amount(9, 1), 1));
}

#[test]
fn frees_of_blocks_that_were_there_before() {
    let mut heap = Heap::new(ALL, 1);
    let process = heap.process();
    run(&mut heap, process, &[(1, 0, free(0x99)), (2, 0, resize(0x98, 0x10, 8))]);
    heap.finish();
    assert_eq!((heap.total().unknown_frees, heap.total().leaked), (2, amount(8, 1)));
    assert_eq!(heap.total().freed, amount(0, 0));
}

#[test]
fn a_child_inherits_and_leaks_its_own_only() {
    let mut heap = Heap::new(ALL, 1);
    let parent = heap.process();
    run(&mut heap, parent, &[(1, 0, allocate(0x10, 100)), (2, 0, allocate(0x20, 50))]);
    let child = heap.fork(parent);
    run(&mut heap, child, &[(3, 1, allocate(0x30, 5)), (4, 1, free(0x10)), (5, 1, free(0x77))]);
    heap.end(child, 6, End::Exit);
    run(&mut heap, parent, &[(7, 0, free(0x10)), (8, 0, free(0x20))]);
    heap.finish();
    let sums: Vec<_> = heap.processes().copied().collect();
    assert_eq!((sums[1].inherited, sums[1].inherited_freed), (amount(150, 2), amount(100, 1)));
    assert_eq!((sums[1].leaked, sums[1].unknown_frees), (amount(5, 1), 1));
    assert_eq!((sums[0].leaked, sums[0].freed), (amount(0, 0), amount(150, 2)));
    assert_eq!(heap.total().peak, amount(155, 3));
}

#[test]
fn the_heap_of_a_program_is_gone_with_exec() {
    let mut heap = Heap::new(ALL, 1);
    let before = heap.process();
    run(&mut heap, before, &[(1, 0, allocate(0x10, 100))]);
    heap.end(before, 2, End::Exec);
    let after = heap.process();
    run(&mut heap, after, &[(3, 1, allocate(0x10, 7))]);
    heap.finish();
    let total = heap.total();
    assert_eq!((total.at_exec, total.leaked, total.peak), (amount(100, 1), amount(7, 1), amount(100, 1)));
    assert_eq!((total.live, total.replaced), (amount(7, 1), 0));
}

#[test]
fn a_range_knows_the_heap_at_its_begin_and_what_is_leaked_behind_it() {
    let mut heap = Heap::new((100, 200), 2);
    let process = heap.process();
    run(
        &mut heap,
        process,
        &[
            (1, 0, allocate(0x10, 100)),
            (2, 0, allocate(0x20, 1)),
            (120, 1, free(0x10)),
            (130, 1, allocate(0x30, 10)),
            (140, 1, allocate(0x40, 20)),
            (250, 1, free(0x30)),
            (260, 2, allocate(0x50, 4000)),
        ],
    );
    heap.finish();
    let total = heap.total();
    assert_eq!((total.peak, total.peak_time), (amount(101, 2), 100));
    assert_eq!(total.live, amount(31, 3), "at the end of the range");
    assert_eq!(total.leaked, amount(20, 1), "allocated in the range, never freed");
    assert_eq!((total.allocated.blocks, total.freed.blocks), (2, 1));
    assert_eq!(heap.stacks()[0].peak.bytes, 101);
    assert_eq!(heap.steps().iter().map(|step| step.live.bytes).collect::<Vec<_>>(), [31, 31]);
}

#[test]
fn blocks_that_are_not_asked_for_are_followed() {
    let mut heap = Heap::new(ALL, 1);
    let process = heap.process();
    heap.call(&Call { time: 1, process, thread: 1, stack: None }, allocate(0x10, 100));
    run(&mut heap, process, &[(2, 0, allocate(0x20, 3)), (3, 0, free(0x10))]);
    heap.finish();
    assert_eq!((heap.total().unknown_frees, heap.total().peak), (0, amount(3, 1)));
}

#[test]
fn sizes_that_no_machine_has() {
    let mut heap = Heap::new((i64::MIN, i64::MAX), 3);
    let process = heap.process();
    run(
        &mut heap,
        process,
        &[(i64::MIN, 0, allocate(1, u64::MAX)), (0, 0, allocate(2, u64::MAX)), (1, 0, free(1)), (i64::MAX, 0, free(2))],
    );
    heap.call(&Call { time: 0, process: 77, thread: 1, stack: Some(0) }, free(1));
    heap.end(77, 1, End::Exit);
    heap.finish();
    assert_eq!(heap.total().peak.bytes, u64::MAX);
}
