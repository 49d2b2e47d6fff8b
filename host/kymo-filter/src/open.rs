// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has begun and not ended, by key, newest first: bounded. The one place where a begin and an end are paired
//! [spec/analyze.md 5.1]: spans of `latency` and `explain`, conditions of filters and triggers, slices of exports,
//! requests and timers.

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Begins that wait at most, unless another bound is given.
pub const OPEN_MAX: usize = 1 << 16;

/// Begins that wait for their ends. Several of one key are a stack: an end belongs to the newest.
#[derive(Clone, Debug)]
pub struct Open<K, V, S = RandomState> {
    by_key: HashMap<K, Vec<(u64, V)>, S>,
    /// All in the order in which they began; those that have ended may still be in it.
    order: VecDeque<(K, u64)>,
    next: u64,
    count: usize,
    max: usize,
    dropped: u64,
}

impl<K: Clone + Eq + Hash, V, S: BuildHasher + Default> Default for Open<K, V, S> {
    fn default() -> Self {
        Self::with_max(OPEN_MAX)
    }
}

impl<K: Clone + Eq + Hash, V, S: BuildHasher + Default> Open<K, V, S> {
    /// Of which at most `max` wait, and at least one.
    pub fn with_max(max: usize) -> Self {
        let (by_key, order) = (HashMap::default(), VecDeque::new());
        Open { by_key, order, next: 0, count: 0, max: max.max(1), dropped: 0 }
    }

    /// Begins. The oldest goes where there are too many.
    pub fn push(&mut self, key: K, value: V) {
        while self.count >= self.max {
            self.drop_oldest();
        }
        if self.order.len() >= self.max.saturating_mul(2) {
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
    pub fn pop<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.pop_where(key, |_| true)
    }

    /// Ends the newest with this key that fits.
    pub fn pop_where<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, fits: impl Fn(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let stack = self.by_key.get_mut(key)?;
        let at = stack.iter().rposition(|(_, value)| fits(value))?;
        let (_, value) = stack.remove(at);
        if stack.is_empty() {
            self.by_key.remove(key);
        }
        self.count -= 1;
        Some(value)
    }

    /// The newest with this key that fits.
    pub fn newest_where<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, fits: impl Fn(&V) -> bool) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let stack = self.by_key.get_mut(key)?;
        stack.iter_mut().rev().map(|(_, value)| value).find(|value| fits(value))
    }

    /// Forgets all that wait; they are not counted as dropped.
    pub fn clear(&mut self) {
        self.by_key.clear();
        self.order.clear();
        self.count = 0;
    }

    /// All that wait, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.by_key.values().flatten().map(|(_, value)| value)
    }

    /// All that wait with their keys, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
        self.by_key.iter().flat_map(|(key, stack)| stack.iter().map(move |(_, value)| (key, value)))
    }

    /// All that wait with their keys, in the order in which they began.
    pub fn in_order(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.iter().filter_map(|(key, number)| {
            let stack = self.by_key.get(key)?;
            let at = stack.binary_search_by_key(number, |(number, _)| *number).ok()?;
            Some((key, &stack.get(at)?.1))
        })
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
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

fn is_open<K: Eq + Hash, V, S: BuildHasher>(by_key: &HashMap<K, Vec<(u64, V)>, S>, key: &K, number: u64) -> bool {
    by_key.get(key).is_some_and(|stack| stack.binary_search_by_key(&number, |(number, _)| *number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_ones_end_from_within_and_the_oldest_goes() {
        let mut open: Open<i32, char> = Open::default();
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

    #[test]
    fn the_newest_that_fits_ends() {
        let mut open: Open<i32, i32> = Open::with_max(2);
        open.push(1, 10);
        open.push(1, 20);
        assert_eq!((open.pop_where(&1, |value| *value == 10), open.len()), (Some(10), 1));
        assert_eq!(
            (open.pop_where(&1, |value| *value == 10), open.newest_where(&1, |_| true).copied()),
            (None, Some(20))
        );
        open.push(2, 30);
        open.push(3, 40);
        assert_eq!((open.values().sum::<i32>(), open.dropped()), (70, 1));
        open.clear();
        assert_eq!((open.is_empty(), open.pop(&3), open.dropped()), (true, None, 1));
    }
}
