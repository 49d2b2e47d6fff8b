// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo session list` and `status`: what sessions say of themselves, as a table, as text, or as JSON.

use std::process::ExitCode;
use std::time::Duration;

use kymo_collect::{AskError, Remote, Request, remotes};
use kymo_command::figures::{bytes, count, ids, plural, short};
use kymo_command::unknown;
use serde_json::{Value, json};

use super::ask;
use crate::verbs::args::OutputArgs;
use crate::verbs::record::text::rotation as rotation_text;
use kymo_command::terminal::{Style, paint};

/// One session that does not answer must not hold up the list for long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Programs that status names.
const PROGRAMS_SHOWN: usize = 20;

/// Kernel events that status names.
const KERNEL_EVENTS_SHOWN: usize = 12;

/// Rings of one program that status names.
const RINGS_SHOWN: usize = 8;

/// A session, and what it says or why it does not.
type SessionAnswer = (Remote, Result<Value, AskError>);

/// `list`.
pub fn list(output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let found = ask_all(remotes()?);
    output.begin();
    if output.json() {
        let all: Vec<Value> = found.iter().map(entry).collect();
        output.print(&format!("{:#}\n", Value::Array(all)))?;
    } else if found.is_empty() {
        eprintln!("kymo: no session is running; kymo session start NAME starts one");
    } else {
        let head = format!(
            "{:20} {:>8} {:>6}  {:7} {:>9} {:>10} {:>10} {:>8}  OUTPUT",
            "NAME", "PID", "USER", "MODE", "SECONDS", "RECORDS/S", "RECORDS", "LOST"
        );
        let rows: String = found.iter().map(|asked| line(asked) + "\n").collect();
        output.print(&format!("{}\n{rows}", paint(Style::Heading, &head)))?;
    }
    Ok(ExitCode::from(u8::from(found.is_empty())))
}

/// Asks all at once; the dead are left out, and their sockets removed.
fn ask_all(all: Vec<Remote>) -> Vec<SessionAnswer> {
    let ask = |remote: &Remote| remote.ask(&Request::Status, PATIENCE);
    let answers: Vec<Result<Value, AskError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|remote| scope.spawn(move || ask(remote))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(AskError::Garbled("its answer cannot be read".to_owned())))
        };
        threads.into_iter().map(join).collect()
    });
    all.into_iter().zip(answers).filter(|(_, answer)| !matches!(answer, Err(AskError::Dead))).collect()
}

fn entry((remote, answer): &SessionAnswer) -> Value {
    match answer {
        Ok(status) => status.clone(),
        Err(error) => json!({
            "name": remote.name(), "pid": remote.pid(), "uid": remote.uid(), "error": error.to_string(),
        }),
    }
}

fn line((remote, answer): &SessionAnswer) -> String {
    let head = format!("{:20} {:>8} {:>6}", remote.name(), remote.pid(), remote.uid());
    match answer {
        Err(error) => format!("{head}  {error}"),
        Ok(status) => format!(
            "{head}  {:7} {:>9.0} {:>10} {:>10} {:>8}  {}",
            text(status, "mode"),
            real(status, "seconds"),
            short(real(status, "records_per_s")),
            count(number(status, "records")),
            count(number(status, "lost")),
            text(status, "output")
        ),
    }
}

/// `status`.
pub fn status(name: &str, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    output.begin();
    let status = match ask::ask(name, &Request::Status, ask::QUICK) {
        Ok(status) => status,
        Err(error) => return ask::or_absent(Err(error)),
    };
    let text = match output.json() {
        true => format!("{status:#}\n"),
        false => lines(&status).iter().map(|line| format!("{line}\n")).collect(),
    };
    output.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(status: &Value) -> Vec<String> {
    let view = &status["view"];
    let unknown = unknown::lines_of(view);
    let is_known = unknown.is_empty();
    let mode = match text(status, "mode") {
        "flight" => format!("flight recorder, {}", plural(number(status, "snapshots"), "snapshot")),
        mode => mode.to_owned(),
    };
    let mut lines = vec![
        format!("{} (collector: process {}): {mode}", text(status, "name"), number(status, "pid")),
        format!(
            "  {:.0} s; {}, {}; now {}/s, {}/s (over {:.1} s)",
            real(status, "seconds"),
            plural(number(status, "records"), "record"),
            bytes(number(status, "bytes")),
            short(real(status, "records_per_s")),
            bytes(real(status, "bytes_per_s") as u64),
            real(status, "rates_over_s")
        ),
        format!("  lost: {}{}", count(number(status, "lost")), if is_known { "" } else { " that are known" }),
        format!(
            "  rings: {} of {} for {}; {} a ring for those that come",
            bytes(number(view, "memory_bytes")),
            bytes(number(view, "memory_bytes_max")),
            plural(number(status, "recorded_programs"), "program"),
            bytes(number(view, "ring_bytes"))
        ),
    ];
    lines.extend(unknown.into_iter().map(|line| format!("  {line}")));
    let list = |key: &str| view[key].as_array().cloned().unwrap_or_default();
    let changes: Vec<String> = list("changes").iter().filter_map(|change| Some(change.as_str()?.to_owned())).collect();
    if !changes.is_empty() {
        lines.push(format!("  changed since the start: {}", changes.join(" ")));
    }
    let rotation = &status["rotation"];
    if rotation.as_object().is_some_and(|rotation| rotation.values().any(|value| !value.is_null())) {
        lines.push(format!("  cut {}; now in {}", rotation_text(rotation), text(status, "chunk")));
    }
    lines.extend(kernel_lines(&status["kernel_view"]));
    if status["writing_ended"] == true {
        lines.push("  THE TRACE CAN NO LONGER BE WRITTEN; what comes is counted as lost".to_owned());
    }
    if let Some(error) = status["snapshot_error"].as_str() {
        lines.push(format!("  the last snapshot failed: {error}"));
    }
    let programs = list("programs");
    lines.extend(programs.iter().take(PROGRAMS_SHOWN).flat_map(program));
    if programs.len() > PROGRAMS_SHOWN {
        lines.push(format!("  and {} more programs (--json lists them)", programs.len() - PROGRAMS_SHOWN));
    }
    lines.push(format!("  output {}; log {}", text(status, "output"), text(status, "log")));
    if let Some(pid) = status["shipper"].as_u64() {
        lines.push(format!("  what is closed goes to a lake: process {pid}; its remarks are in the log"));
    }
    lines
}

/// The kernel events that are on, and what was changed.
fn kernel_lines(view: &Value) -> Vec<String> {
    let list =
        |key: &str| -> Vec<&str> { view[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect() };
    if view.is_null() {
        return Vec::new();
    }
    let (events, changes) = (list("events"), list("changes"));
    let more = events.len().saturating_sub(KERNEL_EVENTS_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = events[..events.len() - more].join(", ");
    let mut lines = vec![format!("  {} on: {shown}{rest}", plural(events.len() as u64, "kernel event"))];
    if !changes.is_empty() {
        lines.push(format!("  kernel events changed since the start: {}", changes.join(" ")));
    }
    lines
}

fn program(program: &Value) -> Vec<String> {
    let rings = match number(program, "ring_bytes") {
        0 => "no rings".to_owned(),
        ring_bytes => format!("rings of {} ({}){}", bytes(ring_bytes), text(program, "ring"), use_of(program)),
    };
    let mut lines = vec![format!(
        "  {}[{}]: {} of {} events on, {rings}",
        text(program, "comm"),
        ids(number(program, "pid"), number(program, "vpid")),
        number(program, "events_on"),
        number(program, "events")
    )];
    for entry in program["unfiltered"].as_array().into_iter().flatten() {
        let part = |at: usize| entry[at].as_str().unwrap_or("?");
        lines.push(format!("    {} is recorded WITHOUT its filter: {}", part(0), part(1)));
    }
    lines
}

/// How full its rings are: CPU and share.
fn use_of(program: &Value) -> String {
    let share = |ring: &Value| {
        let percent = 100.0 * real(ring, "bytes") / real(ring, "ring_bytes").max(1.0);
        let place = ring["cpu"].as_u64().map_or_else(|| format!("lane {}", ring["lane"]), |cpu| format!("CPU {cpu}"));
        format!("{place} {percent:.1} %")
    };
    let rings = program["rings"].as_array();
    let shares: Vec<String> = rings.into_iter().flatten().take(RINGS_SHOWN).map(share).collect();
    if shares.is_empty() { String::new() } else { format!(", full: {}", shares.join(", ")) }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn real(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(0.0)
}
