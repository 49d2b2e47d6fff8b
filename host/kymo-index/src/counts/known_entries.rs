// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of streams, as the index has them: each question begins by looking for its place among them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::counts::account::Entry;

/// Packets of all streams of a trace that stay in memory: 20 MiB. Those of larger traces are read each time.
const ENTRIES_MAX: usize = 1 << 17;

/// Those that were looked at.
#[derive(Debug)]
pub(crate) struct KnownEntries {
    streams: Vec<OnceLock<Arc<[Entry]>>>,
    count: AtomicUsize,
    most: usize,
}

impl KnownEntries {
    /// Of so many streams.
    pub fn new(streams: usize) -> KnownEntries {
        KnownEntries::with_most(streams, ENTRIES_MAX)
    }

    fn with_most(streams: usize, most: usize) -> KnownEntries {
        KnownEntries { streams: (0..streams).map(|_| OnceLock::new()).collect(), count: AtomicUsize::new(0), most }
    }

    /// Those of a stream, by `read` if they are not known.
    pub fn of(&self, stream: usize, read: impl FnOnce() -> Option<Vec<Entry>>) -> Option<Arc<[Entry]>> {
        let place = self.streams.get(stream)?;
        if let Some(known) = place.get() {
            return Some(Arc::clone(known));
        }
        let found: Arc<[Entry]> = read()?.into();
        let before = self.count.fetch_add(found.len(), Ordering::Relaxed);
        let is_kept = before.saturating_add(found.len()) <= self.most && place.set(Arc::clone(&found)).is_ok();
        if !is_kept {
            self.count.fetch_sub(found.len(), Ordering::Relaxed);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_there_is_room_for_is_read_once() {
        let known = KnownEntries::with_most(3, 10);
        let reads = Cell::new(0);
        let of = |stream: usize, count: usize| {
            let read = || {
                reads.set(reads.get() + 1);
                Some(vec![Entry::default(); count])
            };
            known.of(stream, read).map(|entries| entries.len())
        };
        assert_eq!([of(0, 6), of(0, 0), of(1, 5), of(1, 5), of(2, 4), of(2, 0)], [6, 6, 5, 5, 4, 4].map(Some));
        assert_eq!(reads.get(), 4, "the second one has no room, and takes none from the third one");
        assert_eq!(of(3, 1), None);
        assert!(known.of(1, || None).is_none());
    }
}
