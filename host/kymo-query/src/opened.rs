// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as questions need them: opened by somebody else, with what is known of them before the first question.

use std::sync::Arc;

use kymo_ctf::read::{Trace, Watch};
use kymo_feed::Classes;
use kymo_index::{Indexes, range};

/// Traces that were opened.
pub struct Opened {
    /// The traces, of one kernel at most.
    pub traces: Vec<Trace>,
    /// Their indexes, as far as they hold.
    pub indexes: Indexes,
    /// All their classes.
    pub classes: Classes,
    /// What people call them.
    pub name: String,
    /// What was wrong with them when they were opened.
    pub caveats: Vec<String>,
    /// Times of the first record and of the last, ns; none where there is no record.
    pub bounds: Option<(i64, i64)>,
}

/// Readers of questions tell nobody how far they are.
struct Silent;

impl Watch for Silent {
    fn begin(&self, _: Option<u64>) {}

    fn passed(&self, _: u64) {}

    fn end(&self) {}
}

impl Opened {
    /// Of these traces. Reads all records for the times of the first and the last where an index is missing.
    pub fn new(mut traces: Vec<Trace>, indexes: Indexes, name: String, caveats: Vec<String>) -> Opened {
        let bounds = range::bounds(&traces, &indexes);
        traces.iter_mut().for_each(|trace| trace.watch(Arc::new(Silent)));
        let classes = Classes::new(&traces);
        Opened { traces, indexes, classes, name, caveats, bounds }
    }

    /// What times of answers are after: the first record, ns.
    pub fn base(&self) -> i64 {
        self.bounds.map_or(0, |(first, _)| first)
    }

    /// [first record, behind the last record), ns.
    pub fn whole(&self) -> (i64, i64) {
        self.bounds.map_or((0, 0), |(first, last)| (first, last.saturating_add(1)))
    }

    /// Whether it is known who ran.
    pub fn has_switches(&self) -> bool {
        self.classes.vocabulary.facts().switches
    }
}
