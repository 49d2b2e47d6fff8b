// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of parts of the index of which only the longest samples are listed [spec/index.md 5.3].

use kymo_analyze::{Key, Of, SampleGroup, What};
use kymo_index::{LatencyStretch, Rank};

/// Such a series.
#[derive(Clone, Debug)]
pub(crate) struct CutSeries {
    /// Of this part.
    pub part: LatencyStretch,
    /// Where that begins, ns.
    pub from: i64,
    /// The kinds.
    pub group: SampleGroup,
    /// What it is of.
    pub of: Of,
    /// All are known that are no shorter than this; `None`: none is.
    pub known_to: Option<Rank>,
}

/// The key of a series where nothing else is kept apart.
pub(crate) fn whole_key(what: What, of: Of) -> Key {
    Key { what, of, process: None, tid: None, prio: None, cpu: None }
}
