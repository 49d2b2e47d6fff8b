// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes wake-ups while an index is built, and hands them on by parts [spec/index.md 5.4].

use kymo_analyze::ThreadSpan;

use crate::build::worker::Worker;
use crate::latencies::samples::TIME_MAX;
use crate::wakes::maker::{MadeWakes, WakeMaker};
use crate::wakes::part::WakeArrow;

/// Wake-ups of a part of the lowest level at most.
const GATHERED_MAX: usize = 1 << 20;

/// Wake-ups of a part of the lowest level.
#[derive(Default)]
struct Gathered {
    list: Vec<WakeArrow>,
    /// There is too much.
    is_over: bool,
}

/// Takes wake-ups, and hands on those of each part.
pub(crate) struct Waking {
    part: Gathered,
    maker: Worker<Gathered, MadeWakes>,
}

impl Waking {
    pub fn start() -> std::io::Result<Waking> {
        let mut maker = WakeMaker::default();
        let maker = Worker::start("kymo-wakes", move |gathered: Gathered, done| {
            maker.take((!gathered.is_over).then_some(gathered.list), done);
            Gathered::default()
        })?;
        Ok(Waking { part: Gathered::default(), maker })
    }

    #[inline]
    pub fn thread(&mut self, span: &ThreadSpan) {
        let Some(arrow) = WakeArrow::of(span) else { return };
        let is_in_order = -TIME_MAX <= arrow.at && arrow.at <= arrow.to && arrow.to < TIME_MAX;
        match is_in_order && self.part.list.len() < GATHERED_MAX {
            true => self.part.list.push(arrow),
            false => self.part.is_over = true,
        }
    }

    /// A part between two checkpoints is over.
    pub fn end_part(&mut self) {
        // The next part has about as many.
        let list = Vec::with_capacity(self.part.list.len() / 8 * 9);
        self.maker.give(std::mem::replace(&mut self.part, Gathered { list, is_over: false }));
    }

    /// What is made by now.
    pub fn made(&self) -> impl Iterator<Item = MadeWakes> {
        self.maker.made()
    }

    /// All that was not taken yet.
    pub fn finish(self) -> Vec<MadeWakes> {
        self.maker.finish()
    }
}
