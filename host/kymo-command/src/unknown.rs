// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people and scripts are told of records that could not be counted [spec/session.md 15].

use std::collections::BTreeMap;
use std::path::Path;

use kymo_collect::{Missing, SUMMARY_FILE, Summary, is_chunk_dir};
use serde_json::Value;

use crate::figures::{count, ids, plural};

/// Exit status of a recording that is there, but of which not all is known.
pub const STATUS: u8 = 3;
/// Reasons that are named one by one.
const REASONS_SHOWN: usize = 8;
/// Programs that are named for a reason.
const NAMES_SHOWN: usize = 5;

/// 2 where the trace is gone or not complete, [`STATUS`] where something could not be counted, else 0.
pub fn status(summary: &Summary) -> u8 {
    match (&summary.trace_error, summary.is_accounted_for()) {
        (Some(_), _) => 2,
        (None, false) => STATUS,
        (None, true) => 0,
    }
}

/// The lines of a summary.
pub fn lines(summary: &Summary) -> Vec<String> {
    let entries = summary.unknown.iter().map(|entry| Entry {
        who: name(&entry.comm, entry.pid.into(), entry.vpid.into()),
        what: entry.what.text(),
        why: &entry.why,
        next: &entry.next,
    });
    told(entries.collect(), summary.unknown_count)
}

/// The same from JSON: of a summary, or of what a session answers.
pub fn lines_of(value: &Value) -> Vec<String> {
    let entries = value["unknown"].as_array().into_iter().flatten().map(|entry| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let number = |key: &str| entry[key].as_u64().unwrap_or(0);
        let what = Missing::ALL.into_iter().find(|what| serde_json::json!(what) == entry["what"]);
        Entry {
            who: name(text("comm"), number("pid"), number("vpid")),
            what: what.unwrap_or(Missing::Part).text(),
            why: text("why"),
            next: text("next"),
        }
    });
    let entries: Vec<Entry<'_>> = entries.collect();
    let count = value["unknown_count"].as_u64().unwrap_or(entries.len() as u64);
    told(entries, count)
}

/// Why a recording ends with status 2 or [`STATUS`], from the JSON of its summary: what is said without a summary, too.
pub fn errors_of(summary: &Value) -> Vec<String> {
    let mut lines: Vec<String> = summary["trace_error"].as_str().map(trace_is_gone).into_iter().collect();
    lines.extend(lines_of(summary));
    lines
}

/// What is said of a trace whose files are gone or were cut.
pub fn trace_is_gone(error: &str) -> String {
    format!("THE TRACE IS GONE, or is not complete: {error}")
}

/// The same of a trace, as the summary beside it says; of a chunk or a snapshot, as the session's summary says.
pub fn lines_of_trace(dir: &Path) -> Vec<String> {
    let summary = |dir: &Path| -> Option<Value> {
        let value = summary_of(dir)?;
        value["unknown"].is_array().then_some(value)
    };
    let of_session = || summary(std::path::absolute(dir).ok()?.parent()?);
    let is_part = dir.join(SUMMARY_FILE).exists();
    match summary(dir) {
        _ if is_unfinished(dir) => vec![NOT_ENDED.to_owned()],
        Some(value) => lines_of(&value),
        None if is_part => of_session().map_or_else(Vec::new, |value| lines_of(&value)),
        None => Vec::new(),
    }
}

/// Whether the trace, or the chunk, is one that a collector writes, or wrote until it was killed.
pub fn is_unfinished(dir: &Path) -> bool {
    let of_session = || {
        let dir = std::path::absolute(dir).ok()?;
        let is_chunk = dir.file_name().is_some_and(|name| is_chunk_dir(&name.to_string_lossy()));
        if is_chunk { summary_of(dir.parent()?) } else { None }
    };
    // A chunk has its summary when it is whole.
    summary_of(dir).or_else(of_session).is_some_and(|summary| !has_ended(&summary))
}

fn summary_of(dir: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(dir.join(SUMMARY_FILE)).ok()?).ok()
}

const NOT_ENDED: &str = "how much was lost is UNKNOWN: this recording has not ended: its collector runs, or was killed; kymo recover \
                         takes what is left from rings in files (--ring-dir)";

/// Whether the summary is of a recording's end, not of its beginning.
fn has_ended(summary: &Value) -> bool {
    summary["complete"] != false || summary["ended"] == true
}

/// One entry, for people.
struct Entry<'a> {
    who: String,
    what: &'static str,
    why: &'a str,
    next: &'a str,
}

fn name(comm: &str, pid: u64, vpid: u64) -> String {
    match (comm, pid, vpid) {
        ("", 0, 0) => String::new(),
        ("", pid, 0) => format!("process {pid}"),
        (comm, pid, vpid) => format!("{comm}[{}]", ids(pid, vpid)),
    }
}

/// Entries of one reason are one line.
fn told(entries: Vec<Entry<'_>>, count_all: u64) -> Vec<String> {
    if count_all == 0 {
        return Vec::new();
    }
    let mut lines = vec!["how much was lost is UNKNOWN: records may be missing that nobody could count".to_owned()];
    let mut groups: BTreeMap<(&str, &str, &str), Vec<String>> = BTreeMap::new();
    let listed = entries.len() as u64;
    for entry in entries {
        groups.entry((entry.what, entry.why, entry.next)).or_default().push(entry.who);
    }
    let more = groups.len().saturating_sub(REASONS_SHOWN);
    for ((what, why, next), who) in groups.into_iter().take(REASONS_SHOWN) {
        lines.push(format!("  {}{what}: {why}; what helps: {next}", whose(who)));
    }
    if more > 0 {
        lines.push(format!("  and {} more: see the summary's unknown", plural(more as u64, "reason")));
    }
    if count_all > listed {
        lines.push(format!("  and {} more entries, which are not listed", count(count_all - listed)));
    }
    lines
}

/// The programs of a reason.
fn whose(mut names: Vec<String>) -> String {
    names.retain(|name| !name.is_empty());
    let all = names.len();
    names.truncate(NAMES_SHOWN);
    let more = if all > NAMES_SHOWN { format!(" and {} more", all - NAMES_SHOWN) } else { String::new() };
    match all {
        0 => String::new(),
        1 => format!("{}: ", names[0]),
        _ => format!("{} ({}{more}): ", plural(all as u64, "program"), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_one_reason_are_one_line() {
        let entry = |pid: u32, comm: &str, what: &str, why: &str| serde_json::json!({ "pid": pid, "vpid": pid, "comm": comm, "what": what, "why": why, "next": "wait" });
        let value = serde_json::json!({ "unknown_count": 7, "unknown": [
            entry(1, "a", "program", "no memory"), entry(2, "b", "program", "no memory"), entry(0, "", "part", "a bound"),
        ]});
        let expected = [
            "how much was lost is UNKNOWN: records may be missing that nobody could count",
            "  2 programs (a[1], b[2]): not recorded: no memory; what helps: wait",
            "  some records may be missing: a bound; what helps: wait",
            "  and 4 more entries, which are not listed",
        ];
        assert_eq!(lines_of(&value), expected);
        assert!(lines_of(&serde_json::json!({ "unknown": [] })).is_empty());
    }
}
