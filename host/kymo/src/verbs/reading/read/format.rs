// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each form of output (text, JSON, with symbols) does.

use kymo_ctf::read::{Item, Loss, Record};

/// How one item becomes bytes.
pub trait Format {
    fn item(&mut self, out: &mut Vec<u8>, item: &Item<'_>) {
        match item {
            Item::Record(record) => self.record(out, record),
            Item::Loss(loss) => self.loss(out, loss),
        }
    }

    /// Goes on behind a record of that time, as it is shown.
    fn resume(&mut self, before: Option<i128>);
    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>);
    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>);
}
