// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of the kernel's latency tracers: text files instead of traces.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use kymo_ftrace::report::{BYTES_MAX, Findings, Gap, Line, Report, in_words};
use kymo_symbols::Kernel;
use serde_json::{Value, json};

/// The bytes of a file that looks like a report; `None` for anything else, which is opened as a trace.
pub fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let mut bytes = Vec::new();
    // One more than is looked at, so that the parser sees that there is more.
    file.take(BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(bytes))
}

/// What a report says, as text or as JSON.
pub fn told(path: &Path, bytes: &[u8], kernel: Option<&Kernel>, lines: usize, as_json: bool) -> anyhow::Result<String> {
    let report = Report::parse(bytes).with_context(|| path.display().to_string())?;
    let found = report.findings();
    let name = |place: &str| named(place, kernel);
    Ok(match as_json {
        true => document(&report, &found, &name).to_string() + "\n",
        false => report.text(&found, lines, &name),
    })
}

/// `0xffffffffa020113a` and `name <80021d2c>` with the function's name, where it is known.
fn named(place: &str, kernel: Option<&Kernel>) -> String {
    let address = place.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    address
        .and_then(|address| kernel?.find(address))
        .map_or_else(|| place.to_owned(), |name| format!("{name} ({place})"))
}

fn document(report: &Report, found: &Findings, name: &dyn Fn(&str) -> String) -> Value {
    let task =
        report.task.as_ref().map(|task| json!({ "comm": task.comm, "pid": task.pid, "priority": task.priority() }));
    let (from, up_to) = found.window;
    json!({
        "schema": "kymo-explain-report-1",
        "headline": report.headline(found, name),
        "tracer": report.tracer,
        "kernel": report.kernel,
        "length": found.length_ns,
        "cpu": report.cpu,
        "task": task,
        "started": name(&report.started),
        "ended": name(&report.ended),
        "gaps": found.gaps.iter().map(|gap| one(report, gap, name)).collect::<Vec<_>>(),
        "lines": report.lines[from..up_to].iter().map(|item| line(report, item, name)).collect::<Vec<_>>(),
        "doubts": found.artefacts,
        "blind": found.blind,
    })
}

fn one(report: &Report, gap: &Gap, name: &dyn Fn(&str) -> String) -> Value {
    let (before, behind) = (&report.lines[gap.before], &report.lines[gap.behind]);
    json!({ "ns": gap.ns, "before": line(report, before, name), "behind": line(report, behind, name) })
}

fn line(report: &Report, line: &Line, name: &dyn Fn(&str) -> String) -> Value {
    json!({
        "line": line.number,
        "time": line.time,
        "cpu": line.cpu,
        "comm": line.comm,
        "pid": line.pid,
        "flags": in_words(&report.columns, &line.flags),
        "text": name(&line.what()),
        "caller": name(&line.caller),
        "stack": line.stack,
    })
}
