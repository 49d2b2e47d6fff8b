// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hash maps for small keys that the trace chooses. Multiplying and folding is several times faster than the standard
//! hasher; whoever makes a trace to collide only slows down the reading of it, and the maps are bounded.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with [`FoldHasher`].
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

/// Begins that wait for their ends, in such a map.
pub(crate) type Open<K, V> = kymo_filter::Open<K, V, BuildHasherDefault<FoldHasher>>;

/// Multiplies each word into the state and folds the halves.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldHasher(u64);

impl FoldHasher {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(5) ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_i32(&mut self, value: i32) {
        self.word(value as u32 as u64);
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.word(value.into());
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.word(value as u64);
    }
}
