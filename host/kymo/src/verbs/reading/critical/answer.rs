// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path that was found, for those who print it.

use kymo_analyze::Path;
use kymo_analyze::cause::{Evidence, MissingEvents};
use kymo_analyze::explain::Slice;
use kymo_feed::{Classes, Missing};
use kymo_query::PathNames;

use crate::verbs::analyze::kernel_functions::KernelFunctions;

/// A thread, and a stretch of its time.
#[derive(Clone, Copy)]
pub(super) struct ThreadStretch {
    pub(super) tid: i32,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// What was found.
pub(super) struct CriticalPathAnswer<'a> {
    pub(super) stretch: ThreadStretch,
    pub(super) path: Path,
    pub(super) budget: Vec<Slice>,
    /// Kinds of events that could have been a part of it, and are not in the trace.
    pub(super) missing_events: MissingEvents,
    pub(super) evidence: &'a Evidence,
    pub(super) classes: &'a Classes,
    pub(super) functions: KernelFunctions<'a>,
    pub(super) lost: Missing,
}

impl CriticalPathAnswer<'_> {
    /// What its steps are called.
    pub(super) fn names(&self) -> PathNames<'_> {
        let (evidence, vocabulary) = (self.evidence, &self.classes.vocabulary);
        PathNames { evidence, vocabulary, functions: &self.functions, at: self.stretch.to }
    }
}
