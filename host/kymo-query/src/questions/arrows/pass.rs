// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over the wake-ups of a window [spec/view.md 4.8]: how many there are, and those with the longest waits.

use kymo_analyze::{Sink, Thread, ThreadSpan};
use kymo_feed::Visit;
use kymo_index::{Pyramid, WakeArrow, WakeRank, WakeStretch};

use crate::people::People;
use crate::walk::Gather;

/// Fewer are not cut.
const CUT_MIN: usize = 512;

/// The longest waits.
pub(crate) struct LongestWaits {
    limit: usize,
    pub list: Vec<WakeArrow>,
    /// The last one, where there are as many as are wanted.
    last: Option<WakeRank>,
}

impl LongestWaits {
    pub fn offer(&mut self, arrow: WakeArrow) {
        if self.last.is_some_and(|last| arrow.wait_ns() <= last.0.0 && arrow.rank() >= last) {
            return;
        }
        self.list.push(arrow);
        if self.list.len() >= 2 * self.limit.max(CUT_MIN) {
            self.cut();
        }
    }

    /// The longest first.
    pub fn cut(&mut self) {
        self.list.sort_by(WakeArrow::order);
        self.list.truncate(self.limit);
        let is_full = self.list.len() >= self.limit;
        self.last = self.list.last().filter(|_| is_full).map(WakeArrow::rank);
    }

    /// Whether there may be one behind a rank; `None`: anywhere.
    pub fn wants_behind(&self, rank: Option<WakeRank>) -> bool {
        self.last.is_none_or(|last| rank.is_none_or(|rank| rank < last))
    }
}

/// A part of which not all wake-ups are known.
pub(crate) struct CutWakes {
    pub part: WakeStretch,
    /// Up to there they are; of `None` it is known of none.
    pub known_to: Option<WakeRank>,
}

/// One pass.
pub(crate) struct ArrowPass<'p> {
    /// None twice; `None`: of all.
    pub tids: Option<Vec<i32>>,
    /// `None`: the index does not tell how many there are of several threads.
    pub total: Option<u64>,
    pub longest: LongestWaits,
    pub people: People,
    /// Names are those of the index.
    pub are_named: bool,
    /// Where parts of the window come from.
    pub pyramid: Option<&'p Pyramid>,
    pub cut: Vec<CutWakes>,
}

impl ArrowPass<'_> {
    pub fn new(tids: Option<&[i32]>, limit: usize) -> ArrowPass<'static> {
        let total = tids.is_none_or(|tids| tids.len() < 2).then_some(0);
        let longest = LongestWaits { limit, list: Vec::new(), last: None };
        let (people, cut) = (People::default(), Vec::new());
        ArrowPass { tids: tids.map(<[i32]>::to_vec), total, longest, people, are_named: false, pyramid: None, cut }
    }

    pub fn wants(&self, arrow: &WakeArrow) -> bool {
        self.tids.as_ref().is_none_or(|tids| arrow.is_of(tids))
    }

    /// Counts more of them.
    pub fn count(&mut self, more: u64) {
        self.total = self.total.map(|total| total.saturating_add(more));
    }
}

impl Visit for ArrowPass<'_> {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for ArrowPass<'_> {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if !self.are_named {
            self.people.see(span.from, thread);
        }
        if let Some(arrow) = WakeArrow::of(span).filter(|arrow| self.wants(arrow)) {
            self.count(1);
            self.longest.offer(arrow);
        }
    }
}

impl Gather for ArrowPass<'_> {}
