// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, for those who print it.

use kymo_analyze::Latency;
use kymo_query::SpanCounts;

use super::causes::Causes;
use crate::verbs::analyze::feed::Totals;
use crate::verbs::analyze::show::NameTable;
use crate::verbs::hosts::ClockAlignment;

/// What was found, for those who print it.
pub(super) struct LatencyReport<'a> {
    pub(super) latency: &'a Latency,
    pub(super) names: NameTable<'a>,
    pub(super) totals: &'a Totals,
    pub(super) told: &'a [ClockAlignment],
    pub(super) spans: Vec<SpanCounts>,
    pub(super) clock_backs: u64,
    pub(super) causes: Causes,
}

impl LatencyReport<'_> {
    /// Samples that may be missing from a row: each lost record may have ended one. Of lost packets it is not known how
    /// many records they had.
    pub(super) fn missing(&self) -> u64 {
        if self.totals.lost.packets > 0 { u64::MAX } else { self.totals.lost.records }
    }
}
