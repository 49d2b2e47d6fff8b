// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tool a JSON text is of, and records of kymo itself.

use crate::{Record, SCHEMA};

use super::document::{Document, command_line, members, read};
use super::format::{Fault, Format};
use super::{cyclictest_json, jitterdebugger, oslat_json};

pub(super) fn format_of(bytes: &[u8]) -> Option<Format> {
    let Ok(Document { root, .. }) = read(bytes) else {
        return Some(Format { name: "JSON", read: |bytes| Err(read(bytes).err().unwrap_or(Fault::new(1, "no JSON"))) });
    };
    let has_thread_with = |key: &str| members(&root, "thread").any(|(_, thread)| thread.get(key).is_some());
    let is_of =
        |tool: &str| command_line(&root).is_some_and(|line| line.split(['/', ' ']).take(8).any(|word| word == tool));
    if root.get("schema").is_some() {
        return Some(Format { name: SCHEMA, read: own });
    }
    // Cut in front of `cpu` it has no sample, which its reader says.
    let is_jitterdebugger = root.get("version").is_some() && root.get("sysinfo").is_some();
    if is_jitterdebugger || root.get("cpu").is_some() {
        return Some(Format { name: "jitterdebugger", read: jitterdebugger::read });
    }
    if is_of("oslat") || has_thread_with("freq") {
        return Some(Format { name: "oslat-json", read: oslat_json::read });
    }
    let is_cyclictest = is_of("cyclictest") || has_thread_with("cycles");
    is_cyclictest.then_some(Format { name: "cyclictest-json", read: cyclictest_json::read })
}

/// A record of kymo itself. It is not mended: it either adds up or is refused.
fn own(bytes: &[u8]) -> Result<Record, Fault> {
    let line = serde_json::from_slice::<Record>(bytes).err().map_or(1, |error| error.line());
    Record::from_json(bytes).map_err(|error| Fault::new(line, error))
}
