// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, for those who print it.

use kymo_analyze::usage::{FileName, Usage};

use super::functions::FunctionUse;
use super::parts::{Part, RecordedEvents, Sort};
use crate::verbs::analyze::feed::Totals;
use crate::verbs::analyze::show::NameTable;

/// What was found, for those who print it.
pub(super) struct TopReport<'a> {
    pub(super) usage: &'a Usage,
    pub(super) names: NameTable<'a>,
    /// Those with most time of their own first.
    pub(super) functions: Vec<FunctionUse>,
    pub(super) samples_left_out: u64,
    pub(super) recorded: &'a RecordedEvents,
    /// Those that are shown, and that the trace has.
    pub(super) parts: Vec<Part>,
    /// Those that it does not have, and why.
    pub(super) missing: Vec<(Part, &'static str)>,
    pub(super) sort: Sort,
    pub(super) limit: usize,
    pub(super) is_everybody: bool,
    pub(super) totals: Totals,
    pub(super) clock_backs: u64,
}

/// A file of which the path is not known, or its path.
pub(super) fn file_label(name: &FileName) -> String {
    match name {
        FileName::Path(path) => path.clone(),
        FileName::Descriptor { process, process_name, fd, made_by } => {
            let by = if made_by.is_empty() { String::new() } else { format!(" ({made_by})") };
            format!("descriptor {fd} of {process_name}[{process}]{by}")
        }
    }
}
