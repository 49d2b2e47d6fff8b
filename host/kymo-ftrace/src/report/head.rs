// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head: what was measured, how long, and which columns the lines have.

use super::content::{Form, HEAD_LINES, Measures, NoReport, Report, Task};
use super::flags::Column;

/// The tracers.
const TRACERS: [&str; 6] = ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "wakeup_dl"];

/// The name in `# tracer: NAME`.
pub(super) fn tracer(line: &str) -> Option<&str> {
    plain(line).strip_prefix("tracer:").map(str::trim)
}

/// Tracer and kernel in `irqsoff latency trace v1.1.5 on 6.12.1`.
pub(super) fn title(line: &str) -> Option<(&str, &str)> {
    let (tracer, rest) = plain(line).split_once(" latency trace v")?;
    let kernel = rest.split_once(" on ").map_or("", |(_, kernel)| kernel.trim());
    (!tracer.is_empty() && !tracer.contains(' ')).then_some((tracer, kernel))
}

/// A line without its `#` and the blanks around.
fn plain(line: &str) -> &str {
    line.trim().trim_start_matches('#').trim()
}

pub(super) fn read(text: &str) -> Result<Report, NoReport> {
    let mut report = empty();
    let mut is_report = false;
    let mut has_sign = false;
    // The head ends where the body begins; a body line never has these forms.
    for line in text.lines().take(HEAD_LINES) {
        has_sign |= line.trim_start().starts_with('#');
        if let Some(name) = tracer(line) {
            (report.tracer, is_report) = (name.to_owned(), true);
        } else if let Some((name, kernel)) = title(line) {
            if report.tracer.is_empty() {
                report.tracer = name.to_owned();
            }
            (report.kernel, is_report) = (kernel.to_owned(), true);
        } else {
            fact(plain(line), &mut report);
        }
    }
    report.is_old = !has_sign;
    let is_known = TRACERS.contains(&report.tracer.as_str()) || (report.is_old && report.tracer == "preemption");
    match (is_report, is_known) {
        (true, true) => {}
        (true, false) => return Err(NoReport::OtherTracer(report.tracer)),
        (false, _) => return Err(NoReport::Unknown),
    }
    report.measures = match report.tracer.as_str() {
        "irqsoff" => Measures::Irqs,
        "preemptoff" => Measures::Preemption,
        "preemptirqsoff" => Measures::Either,
        "preemption" => Measures::Unsaid,
        _ => Measures::Wakeup,
    };
    if report.columns.is_empty() {
        report.columns = vec![Column::Irqs, Column::NeedResched, Column::Context, Column::PreemptDepth];
    }
    Ok(report)
}

fn empty() -> Report {
    Report {
        tracer: String::new(),
        measures: Measures::Unsaid,
        is_old: false,
        kernel: String::new(),
        latency_us: None,
        entries: None,
        cpu: None,
        model: String::new(),
        cpus: None,
        task: None,
        started: String::new(),
        ended: String::new(),
        columns: Vec::new(),
        form: Form::Latency,
        lines: Vec::new(),
        odd: 0,
        is_cut: false,
    }
}

/// Any other line of a head.
fn fact(line: &str, report: &mut Report) {
    if let Some(rest) = line.strip_prefix("latency:") {
        latency(rest, report);
    } else if let Some(rest) = line.trim_start_matches(['|', ' ']).strip_prefix("task:") {
        report.task = task(rest);
    } else if let Some(rest) = line.trim_start_matches(['=', '>', ' ']).strip_prefix("started at:") {
        report.started = rest.trim().to_owned();
    } else if let Some(rest) = line.trim_start_matches(['=', '>', ' ']).strip_prefix("ended at:") {
        report.ended = rest.trim().to_owned();
    } else if let Some(rest) = line.strip_prefix("entries-in-buffer/entries-written:") {
        report.entries = rest.split_whitespace().next().and_then(pair);
        report.cpus = report.cpus.or(after(rest, "#P:"));
        report.form = Form::Absolute;
    } else if line.contains("DURATION") && line.contains("FUNCTION CALLS") {
        report.form = Form::Graph;
    } else if let Some((before, name)) = line.rsplit_once("=>") {
        // A legend: nothing but strokes and blanks in front of the name.
        if before.chars().all(|c| matches!(c, '|' | '/' | '_' | '-' | '=' | ' ')) && report.columns.len() < 16 {
            report.columns.extend(Column::by_legend(name.trim()));
        }
    }
}

/// ` 20083 us, #4/4, CPU#1 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:2)`.
fn latency(rest: &str, report: &mut Report) {
    report.latency_us = rest.split_whitespace().next().and_then(|number| number.parse().ok());
    let entries = rest.split_once(", #").and_then(|(_, rest)| rest.split([',', ' ']).next());
    report.entries = entries.and_then(pair);
    report.cpu = after(rest, "CPU#");
    report.cpus = after(rest, "#P:");
    report.model = rest.split_once("(M:").map_or(String::new(), |(_, rest)| {
        rest.split(" VP:").next().unwrap_or_default().trim().chars().take(32).collect()
    });
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let (shown, all) = text.split_once('/')?;
    Some((shown.parse().ok()?, all.parse().ok()?))
}

/// The number behind a word.
fn after<T: std::str::FromStr>(text: &str, word: &str) -> Option<T> {
    let rest = text.split_once(word)?.1;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// ` softirq-timer/0-7 (uid:0 nice:-5 policy:1 rt_prio:50)`.
fn task(text: &str) -> Option<Task> {
    let (name, rest) = text.trim().split_once(" (")?;
    let (comm, pid) = name.trim().rsplit_once('-')?;
    let field = |word: &str| rest.split([' ', ')']).find_map(|part| part.strip_prefix(word));
    Some(Task {
        comm: comm.to_owned(),
        pid: pid.parse().ok()?,
        nice: field("nice:").and_then(|text| text.parse().ok()).unwrap_or_default(),
        policy: field("policy:").and_then(|text| text.parse().ok()).unwrap_or_default(),
        rt_prio: field("rt_prio:").and_then(|text| text.parse().ok()).unwrap_or_default(),
    })
}
