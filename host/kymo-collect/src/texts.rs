// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of events and enumerations as programs sent them. Equal ones of one user's programs are kept once: many
//! programs have the same libraries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a text takes beside its bytes.
const TEXT_COST: usize = 96;

/// The texts of one user's programs.
#[derive(Debug, Default)]
struct OfUser {
    all: HashSet<Arc<[u8]>>,
    bytes: usize,
}

/// The texts of all programs, by user.
#[derive(Debug, Default)]
pub(crate) struct Texts(HashMap<u32, OfUser>);

impl Texts {
    /// The text as it is kept for this user.
    pub(crate) fn keep(&mut self, uid: u32, text: &[u8]) -> Arc<[u8]> {
        let of_user = self.0.entry(uid).or_default();
        if let Some(known) = of_user.all.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<[u8]> = text.into();
        of_user.bytes += cost(&new);
        of_user.all.insert(Arc::clone(&new));
        new
    }

    /// Somebody has no use for the text any more; it goes with the last one.
    pub(crate) fn give_back(&mut self, uid: u32, text: Arc<[u8]>) {
        if !is_of_one(&text) {
            return;
        }
        let Some(of_user) = self.0.get_mut(&uid) else { return };
        if of_user.all.remove(&text) {
            of_user.bytes -= cost(&text);
        }
        if of_user.all.is_empty() {
            self.0.remove(&uid);
        }
    }

    /// Memory of all texts of a user.
    pub(crate) fn bytes(&self, uid: u32) -> usize {
        self.0.get(&uid).map_or(0, |of_user| of_user.bytes)
    }
}

/// Memory of a text.
pub(crate) fn cost(text: &[u8]) -> usize {
    text.len() + TEXT_COST
}

/// Whether only one program has it.
pub(crate) fn is_of_one(text: &Arc<[u8]>) -> bool {
    Arc::strong_count(text) <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_of_a_user_are_kept_once_and_go_with_the_last() {
        let mut texts = Texts::default();
        let (one, two) = (texts.keep(7, b"abc"), texts.keep(7, b"abc"));
        let other = texts.keep(8, b"abc");
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
        assert_eq!((texts.bytes(7), texts.bytes(8)), (cost(b"abc"), cost(b"abc")));
        texts.give_back(7, one);
        assert_eq!(texts.bytes(7), cost(b"abc"), "another program has it");
        texts.give_back(7, two);
        texts.give_back(8, other);
        assert!((texts.bytes(7), texts.bytes(8)) == (0, 0) && texts.0.is_empty());
    }
}
