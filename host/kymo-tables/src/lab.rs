// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `lab_results`: results of the latency laboratory that lie beside a trace, or were named.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::emit::{Emit, Ended};
use crate::known::{Cell, Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const LAB_RESULTS: Known = Known {
    name: "lab_results",
    about: "Series of results of the latency laboratory (kymo wakeup, npt, ...): of the JSON files that are named, and of \
            those in the directories of the traces",
    columns: columns! {
        "file" Words "The file";
        "time" Time "When the test was begun";
        "test" Words "wakeup, npt, ...";
        "tool" Words "Who measured";
        "series" Words "What was measured: wakeup, loop, irq, thread, ...";
        "cpu" Id "Where it ran";
        "samples" Count "Samples that were taken";
        "lost" Count "Samples that are in no bucket";
        "min_ns" Signed "Smallest, ns";
        "max_ns" Signed "Largest, ns";
        "mean_ns" Float "Mean, ns";
        "std_ns" Float "Standard deviation, ns";
        "duration_s" Float "Length of the measurement, seconds";
        "ended" Words "Why it ended: count, time, signal, unknown";
        "host" Words "Machine that the trace is of, beside which it lies; none of a file that is named";
    },
};

/// The schema of results [spec/lab.md 3].
const SCHEMA: &str = "kymo-lab-1";

/// A larger file is no result.
const BYTES_MAX: u64 = 256 << 20;

/// The result in a file; none where it is something else.
fn result(path: &Path) -> Option<Value> {
    if fs::metadata(path).ok()?.len() > BYTES_MAX {
        return None;
    }
    let document: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (document["schema"] == SCHEMA).then_some(document)
}

fn int(value: &Value) -> Cell<'static> {
    value.as_i64().into()
}

fn text(value: &Value) -> Cell<'_> {
    value.as_str().into()
}

/// Sends the results of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let beside = group.results.iter().map(|path| (path, group.host.as_str()));
    for (path, host) in beside.chain(group.named_results.iter().map(|path| (path, ""))) {
        emit.check()?;
        let Some(document) = result(path) else { continue };
        let file = path.to_string_lossy();
        for series in document["series"].as_array().into_iter().flatten() {
            let cpu = series["cpu"].as_u64().and_then(|cpu| u32::try_from(cpu).ok());
            if !scan.wants_time(document["started_ns"].as_i64()) || !scan.wants_cpu(cpu) {
                continue;
            }
            rows.push(&[
                Cell::from(&*file),
                int(&document["started_ns"]),
                text(&document["test"]),
                text(&document["tool"]),
                text(&series["name"]),
                cpu.into(),
                int(&series["count"]),
                int(&series["lost"]),
                int(&series["min"]),
                int(&series["max"]),
                series["mean"].as_f64().into(),
                series["std"].as_f64().into(),
                document["duration_s"].as_f64().into(),
                text(&document["ended"]),
                host.into(),
            ]);
        }
    }
    rows.send(emit)
}
