// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of cyclictest. It leaves out the samples that its histogram has no bucket for: they are what is missing to
//! `cycles`.

use serde_json::Value;

use crate::{Record, Severity};

use super::build::{Draft, caveat, check_series, finish};
use super::document::{fill, members, read as read_json, rt_tests_record};
use super::format::Fault;

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let document = read_json(bytes)?;
    let mut record = rt_tests_record(&document, "cyclictest", "wakeup");
    record.method = "a thread sleeps until a time of the clock, and compares it with the time when it runs".to_owned();
    let is_ns = document.root.get("resolution_in_ns").and_then(Value::as_u64) == Some(1);
    let unit_ns = if is_ns { 1 } else { 1_000 };
    let command = Command::new(record.options.get("command_line").and_then(Value::as_str));
    let mut drafts = Vec::new();
    for (_, thread) in members(&document.root, "thread") {
        check_series(drafts.len() + 1, document.lines)?;
        drafts.push(draft(thread, unit_ns, command.range));
    }
    if command.is_without_priority {
        caveat(
            &mut record,
            "not-fifo",
            Severity::High,
            "its command line asks for no real-time priority",
            "run cyclictest with -p 90, or kymo wakeup",
        );
    }
    finish(record, drafts, document.lines)
}

fn draft(thread: &Value, unit_ns: u64, range: Option<u64>) -> Draft {
    let mut draft = Draft::new("wakeup", unit_ns);
    fill(&mut draft, thread, unit_ns, 0);
    draft.taken = thread.get("cycles").and_then(Value::as_u64);
    draft.beyond_ns = draft.beyond_ns.max(range.unwrap_or(0).saturating_mul(unit_ns));
    draft
}

/// What its command line tells of the run.
struct Command {
    /// Buckets of the histogram: -h, -H, --histogram, --histofall.
    range: Option<u64>,
    is_without_priority: bool,
}

impl Command {
    fn new(line: Option<&str>) -> Command {
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        let value =
            |names: &[&str]| words.iter().enumerate().find_map(|(at, word)| option(names, word, words.get(at + 1)));
        let priority = value(&["-p", "--priority", "--prio"]).unwrap_or(0);
        let is_fifo = priority > 0 || words.iter().any(|word| word.starts_with("--policy"));
        Command {
            range: value(&["-h", "-H", "--histogram", "--histofall"]),
            is_without_priority: line.is_some() && !is_fifo,
        }
    }
}

/// The number of an option: `-h400`, `-h 400`, `--histogram=400`, `--histogram 400`.
fn option(names: &[&str], word: &str, next: Option<&&str>) -> Option<u64> {
    let rest = names.iter().find_map(|name| word.strip_prefix(name))?;
    match rest.trim_start_matches('=') {
        "" => next?.parse().ok(),
        number => number.parse().ok(),
    }
}
