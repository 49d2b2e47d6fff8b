// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which stream comes next: the order of the next items of all streams.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since the origin (0 where all streams have the same clock), then cycles, which separate records within a
/// nanosecond, then the position of the stream, so that the order is always the same.
pub(super) type Key = (i128, u64, usize);

/// Streams by the keys of their next items, the lowest one first.
pub(super) enum Queue {
    /// Of one clock: cycles, and in the low half the stream, so that one comparison tells.
    OneClock(BinaryHeap<Reverse<u128>>),
    Clocks(BinaryHeap<Reverse<Key>>),
}

impl Queue {
    pub fn new(is_one_clock: bool) -> Self {
        if is_one_clock { Self::OneClock(BinaryHeap::new()) } else { Self::Clocks(BinaryHeap::new()) }
    }

    pub fn push(&mut self, key: Key) {
        match self {
            Self::OneClock(heap) => heap.push(Reverse(packed(key))),
            Self::Clocks(heap) => heap.push(Reverse(key)),
        }
    }

    /// Whether no stream waits.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::OneClock(heap) => heap.is_empty(),
            Self::Clocks(heap) => heap.is_empty(),
        }
    }

    /// Takes the stream that comes first.
    pub fn pop(&mut self) -> Option<usize> {
        match self {
            Self::OneClock(heap) => heap.pop().map(|Reverse(key)| key as u64 as usize),
            Self::Clocks(heap) => heap.pop().map(|Reverse(key)| key.2),
        }
    }

    /// Puts a stream in, and takes the one that comes first then: often the same.
    #[inline]
    pub fn exchange(&mut self, key: Key) -> usize {
        match self {
            Self::OneClock(heap) => exchange(heap, packed(key)) as u64 as usize,
            Self::Clocks(heap) => exchange(heap, key).2,
        }
    }
}

#[inline]
fn packed((_, cycles, stream): Key) -> u128 {
    u128::from(cycles) << 64 | stream as u128
}

#[inline]
fn exchange<K: Ord>(heap: &mut BinaryHeap<Reverse<K>>, key: K) -> K {
    match heap.peek_mut() {
        Some(mut first) if first.0 < key => std::mem::replace(&mut first.0, key),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams with items at ever later times, and the order in which they are taken.
    fn taken(is_one_clock: bool) -> Vec<usize> {
        let mut queue = Queue::new(is_one_clock);
        (0..5).for_each(|stream| queue.push((0, 10 - stream as u64 % 3, stream)));
        let mut order = Vec::new();
        let mut next = queue.pop();
        for step in 0..40u64 {
            let Some(stream) = next else { break };
            order.push(stream);
            next =
                if step < 30 { Some(queue.exchange((0, 10 + step / 2 * 3 + step % 2, stream))) } else { queue.pop() };
        }
        order
    }

    #[test]
    fn both_forms_have_the_same_order() {
        let order = taken(true);
        assert_eq!(order[..5], [2, 1, 4, 0, 2]);
        assert_eq!(order, taken(false));
        // Of equal times the lower stream is first, and what is later in nanoseconds is later whatever its cycles are.
        let mut queue = Queue::new(false);
        queue.push((5, 100, 1));
        assert_eq!(queue.exchange((5, 100, 0)), 0);
        assert_eq!(queue.exchange((6, 1, 0)), 1);
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(queue.pop(), None);
    }
}
