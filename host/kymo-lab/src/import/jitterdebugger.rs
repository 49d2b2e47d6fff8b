// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of jitterdebugger, version 3.

use serde_json::Value;

use crate::Record;

use super::build::{Draft, check_series, finish, interrupted};
use super::document::{fill, members, read as read_json, system};
use super::format::Fault;

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let document = read_json(bytes)?;
    let root = &document.root;
    let mut record = Record::new("jitterdebugger", "wakeup");
    record.method = "a thread sleeps until a time of the clock, and compares it with the time when it runs".to_owned();
    system(&mut record, root);
    if let Some(line) = document.cut_at {
        interrupted(&mut record, line, "the end of the JSON text");
    }
    let unit_ns = root.pointer("/sysinfo/resolution_in_ns").and_then(Value::as_u64).unwrap_or(1_000).max(1);
    let mut drafts = Vec::new();
    for (cpu, values) in members(root, "cpu") {
        check_series(drafts.len() + 1, document.lines)?;
        let mut draft = Draft::new("wakeup", unit_ns);
        fill(&mut draft, values, unit_ns, 0);
        draft.series.cpu = cpu.parse().ok();
        draft.taken = values.get("count").and_then(Value::as_u64);
        drafts.push(draft);
    }
    finish(record, drafts, document.lines)
}
