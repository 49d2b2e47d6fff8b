// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has begun and not ended, by key, newest first: bounded.

use std::collections::VecDeque;
use std::hash::Hash;

use crate::hash::Map;

/// Beginnings that wait at most.
pub(crate) const OPEN_MAX: usize = 65_536;

/// Beginnings that wait for their ends. Several of one key are a stack.
#[derive(Clone, Debug)]
pub(crate) struct Open<K, V> {
    by_key: Map<K, Vec<(u64, V)>>,
    /// All in the order in which they began; those that have ended may still be in it.
    order: VecDeque<(K, u64)>,
    next: u64,
    count: usize,
    dropped: u64,
}

impl<K: Clone + Eq + Hash, V> Open<K, V> {
    pub fn new() -> Open<K, V> {
        Open { by_key: Map::default(), order: VecDeque::new(), next: 0, count: 0, dropped: 0 }
    }

    /// Begins. The oldest goes where there are too many.
    pub fn push(&mut self, key: K, value: V) {
        while self.count >= OPEN_MAX {
            self.drop_oldest();
        }
        if self.order.len() >= 2 * OPEN_MAX {
            self.order.retain(|(key, number)| is_open(&self.by_key, key, *number));
        }
        self.order.push_back((key.clone(), self.next));
        self.by_key.entry(key).or_default().push((self.next, value));
        self.next += 1;
        self.count += 1;
    }

    /// Begins, in place of what has begun with the same key.
    pub fn replace(&mut self, key: K, value: V) {
        while self.pop(&key).is_some() {}
        self.push(key, value);
    }

    /// Ends the newest with this key.
    pub fn pop(&mut self, key: &K) -> Option<V> {
        let stack = self.by_key.get_mut(key)?;
        let value = stack.pop();
        if stack.is_empty() {
            self.by_key.remove(key);
        }
        self.count -= usize::from(value.is_some());
        value.map(|(_, value)| value)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// How many were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn drop_oldest(&mut self) {
        while let Some((key, number)) = self.order.pop_front() {
            let Some(stack) = self.by_key.get_mut(&key) else { continue };
            let Ok(at) = stack.binary_search_by_key(&number, |(number, _)| *number) else { continue };
            stack.remove(at);
            if stack.is_empty() {
                self.by_key.remove(&key);
            }
            (self.count, self.dropped) = (self.count - 1, self.dropped + 1);
            return;
        }
        self.count = 0;
    }
}

fn is_open<K: Eq + Hash, V>(by_key: &Map<K, Vec<(u64, V)>>, key: &K, number: u64) -> bool {
    by_key.get(key).is_some_and(|stack| stack.binary_search_by_key(&number, |(number, _)| *number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_ones_end_from_within_and_the_oldest_goes() {
        let mut open = Open::new();
        open.push(1, 'a');
        open.push(1, 'b');
        assert_eq!((open.pop(&1), open.pop(&1), open.pop(&1)), (Some('b'), Some('a'), None));
        (0..OPEN_MAX as i32 + 2).for_each(|key| open.push(key, 'c'));
        assert_eq!((open.len(), open.dropped()), (OPEN_MAX, 2));
        assert_eq!((open.pop(&0), open.pop(&1), open.pop(&2)), (None, None, Some('c')));
        for round in 0..5 {
            (0..OPEN_MAX as i32).for_each(|key| open.replace(key, 'd'));
            assert!(open.order.len() <= 2 * OPEN_MAX, "round {round}");
        }
        assert_eq!((open.pop(&7), open.pop(&7)), (Some('d'), None));
    }
}
