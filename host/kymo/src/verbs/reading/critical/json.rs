// SPDX-License-Identifier: MIT OR Apache-2.0
//! A critical path as one JSON document. Times are ns since 1970 (or of the trace's clock).

use kymo_analyze::PathStep;
use kymo_analyze::explain::Slice;
use kymo_query::PathNames;
use serde_json::{Value, json};

use super::answer::CriticalPathAnswer;
use crate::verbs::analyze::show;

/// The document.
pub fn document(found: &CriticalPathAnswer<'_>) -> String {
    let stretch = found.stretch;
    let document = json!({
        "schema": "kymo-critical-1",
        "tid": stretch.tid,
        "name": found.evidence.name(stretch.tid, stretch.to),
        "from": stretch.from,
        "to": stretch.to,
        "cut": found.path.is_cut,
        "lost": show::missing(&found.lost),
        "missing_events": found.missing_events.list(),
        "steps": found.path.steps.iter().map(|item| step(found, item)).collect::<Vec<_>>(),
        "budget": found.budget.iter().map(share).collect::<Vec<_>>(),
    });
    document.to_string()
}

fn step(found: &CriticalPathAnswer<'_>, step: &PathStep) -> Value {
    let names = found.names().of(step);
    json!({
        "from": step.from,
        "to": step.to,
        "tid": step.tid,
        "name": found.evidence.name(step.tid, names.at),
        "depth": step.depth,
        "act": PathNames::word(step.act),
        "text": names.act(step.act),
        "doubt": step.doubt,
    })
}

fn share(slice: &Slice) -> Value {
    json!({
        "ns": slice.ns,
        "pieces": slice.pieces,
        "kind": slice.kind,
        "tid": slice.tid,
        "part": slice.text,
        "limit": slice.limit,
        "group": slice.group,
        "group_found": slice.group_found,
        "seen": slice.seen,
        "doubt": slice.doubt,
    })
}
