// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of oslat. Its last bucket also counts everything beyond, and nothing marks it: the maximum tells.

use serde_json::Value;

use crate::Record;

use super::build::{Draft, check_series, finish};
use super::document::{fill, members, read as read_json, rt_tests_record};
use super::format::Fault;
use super::oslat::{METHOD, US, fold};

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let document = read_json(bytes)?;
    let mut record = rt_tests_record(&document, "oslat", "loop");
    record.method = METHOD.to_owned();
    let mut drafts = Vec::new();
    let mut folded = 0u64;
    for (_, thread) in members(&document.root, "thread") {
        check_series(drafts.len() + 1, document.lines)?;
        let mut draft = Draft::new("loop", US);
        fill(&mut draft, thread, US, 1);
        let last = members(thread, "histogram")
            .filter_map(|(value, count)| Some((value.parse().ok()?, count.as_u64()?)))
            .max();
        let (draft, count) = fold(draft, last);
        folded = folded.saturating_add(count);
        drafts.push(draft);
        record.duration_s = thread.get("duration").and_then(Value::as_f64).or(record.duration_s);
    }
    super::oslat::say_folded(&mut record, folded, false);
    finish(record, drafts, document.lines)
}
