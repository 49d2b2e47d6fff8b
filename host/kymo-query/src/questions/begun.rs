// SPDX-License-Identifier: MIT OR Apache-2.0
//! What answers to all questions begin with.

use kymo_analyze::Doubt;
use kymo_index::DamagedSums;

use crate::columns::Answer;
use crate::opened::Opened;
use crate::parameters::Window;

/// An answer without tables.
pub(super) fn begin(question: &'static str, of: &Opened, window: Window) -> Answer {
    let mut answer = Answer::new(question, of.base(), window.pair());
    answer.set("doubts", Doubt::ALL.map(|(_, name)| name).to_vec());
    answer
}

/// What is told where the index is damaged.
pub(super) fn damage_note(damaged: DamagedSums) -> String {
    format!("{damaged}: this was answered from all records")
}

/// Marks as bits, by their position in [`Doubt::ALL`].
pub(super) fn doubt_bits(doubt: Doubt) -> u16 {
    let bits = Doubt::ALL.iter().enumerate().filter(|(_, (mark, _))| doubt.has(*mark)).map(|(bit, _)| 1 << bit);
    bits.fold(0, |all, bit: u16| all | bit)
}
