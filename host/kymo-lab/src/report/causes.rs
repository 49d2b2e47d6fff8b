// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes of the worst samples, for people: lines for a terminal, a section of a page.

use std::fmt::Write as _;

use super::svg::escape;
use super::units::{counted, plain, time};
use crate::causes::{Budget, BudgetPart, Causes, Cluster, Level, Period};
use crate::{Record, Worst};

/// Samples whose budgets are shown in text; the record has all.
const SHOWN: usize = 5;
/// Parts of a budget that are shown, and the share of a sample below which one is not.
const PARTS: usize = 4;
const SHARE_MIN: f64 = 0.005;

/// What the marks of doubt say [spec/analyze.md 4].
const MARKS: [(&str, &str); 7] = [
    ("lost", "records were lost meanwhile"),
    ("start", "it began before the trace"),
    ("end", "the trace ended in it"),
    ("clock", "time went back on its CPU"),
    ("missed", "an event that must have happened is not in the trace"),
    ("guessed", "which thread ran is known from the head of a record only"),
    ("mixed", "it touches two clocks"),
];

/// The lines of a screenful.
pub fn causes(record: &Record, causes: &Causes) -> Vec<String> {
    let mut lines = vec![heading(causes)];
    lines.extend(causes.clusters.iter().map(|cluster| format!("  {}", plain(&cluster_line(cluster)))));
    let is_known = causes.clusters.len() == 1 || causes.clusters.iter().any(|cluster| cluster.period.is_some());
    if let Some(period) = causes.period.filter(|_| !is_known) {
        lines.push(format!("  all together: {}", period_text(Some(period))));
    }
    for (cpu, worst, budget) in explained(record).into_iter().take(SHOWN) {
        lines.push(plain(&sample_line(cpu, worst, budget)));
    }
    lines.extend(legend(explained(record).into_iter().take(SHOWN).map(|(.., budget)| budget)));
    lines.extend(causes.unexplained.iter().map(|line| plain(&format!("not explained: {line}"))));
    lines.push(plain(&causes.watching.text));
    lines.extend(unseen(causes).map(|line| plain(&format!("cannot see: {line}"))));
    lines
}

/// What the explanations could not see: by their level, and by events that were not recorded.
fn unseen(causes: &Causes) -> impl Iterator<Item = &String> {
    causes.cannot_see.iter().chain(causes.missing_events.iter().map(|missing| &missing.text))
}

/// The section of a page.
pub(super) fn section(record: &Record, causes: &Causes) -> String {
    let mut text =
        format!("<h4>{}</h4>\n<table><tr><th>samples</th><th>cause</th><th>worst</th>", escape(&heading(causes)));
    text += "<th>its share</th><th>CPUs</th><th>period</th></tr>\n";
    for cluster in &causes.clusters {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.0} %</td><td>{}</td><td>{}</td></tr>",
            cluster.count,
            escape(&cluster.signature),
            time(cluster.worst_ns as f64),
            cluster.share * 100.0,
            list(&cluster.cpus),
            escape(&period_text(cluster.period))
        );
    }
    text += "</table>\n<table><tr><th>CPU</th><th>sample</th><th>what it was made of</th></tr>\n";
    for (cpu, worst, budget) in explained(record) {
        let cpu = cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let value = time(worst.value_ns as f64);
        let _ = writeln!(
            text,
            "<tr><td>{cpu}</td><td>{value}</td><td>{}</td></tr>",
            escape(&parts(worst.value_ns, budget))
        );
    }
    text += "</table>\n";
    let legend = legend(explained(record).into_iter().map(|(.., budget)| budget));
    let lines = legend.iter().chain(&causes.unexplained).chain([&causes.watching.text]).chain(unseen(causes));
    lines.for_each(|line| {
        let _ = writeln!(text, "<p class=\"faint\">{}</p>", escape(line));
    });
    text
}

fn heading(causes: &Causes) -> String {
    let level = match causes.level {
        Level::KernelTracers => "by the kernel's events, with those of interrupts and preemption off",
        Level::Tracepoints => "by the kernel's events",
        Level::UserSpace => "the kernel's events cannot be had",
    };
    format!("causes of the worst samples ({} explained, {level}):", causes.explained)
}

fn cluster_line(cluster: &Cluster) -> String {
    format!(
        "{:>3} {:32} worst {:>9}, {:>3.0} % of their time, CPU {}; {}",
        cluster.count,
        cluster.signature,
        time(cluster.worst_ns as f64),
        cluster.share * 100.0,
        list(&cluster.cpus),
        period_text(cluster.period)
    )
}

fn period_text(period: Option<Period>) -> String {
    match period {
        None => "no period found".to_owned(),
        Some(period) => {
            format!("every {} (p {:.3}, {} spikes)", time(period.period_ns as f64), period.p, period.spikes)
        }
    }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The samples that have budgets, the longest first.
fn explained(record: &Record) -> Vec<(Option<u32>, &Worst, &Budget)> {
    let all = record.series.iter().flat_map(|series| series.worst.iter().map(move |worst| (series.cpu, worst)));
    let mut list: Vec<_> = all.filter_map(|(cpu, worst)| Some((cpu, worst, worst.budget.as_ref()?))).collect();
    list.sort_by_key(|(_, worst, _)| std::cmp::Reverse(worst.value_ns));
    list
}

fn sample_line(cpu: Option<u32>, worst: &Worst, budget: &Budget) -> String {
    let cpu = cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    format!("{}{cpu}: {}", time(worst.value_ns as f64), parts(worst.value_ns, budget))
}

/// What a sample of this length was made of, in a line.
pub(super) fn parts(value_ns: u64, budget: &Budget) -> String {
    let is_large = |part: &&BudgetPart| part.ns as f64 >= SHARE_MIN * value_ns as f64;
    let shown: Vec<&BudgetPart> = budget.parts.iter().filter(is_large).take(PARTS).collect();
    let mut words: Vec<String> = shown.iter().map(|part| part_text(part)).collect();
    let rest = value_ns.saturating_sub(shown.iter().map(|part| part.ns).sum());
    if rest > 0 {
        words.push(format!("rest {}", time(rest as f64)));
    }
    if budget.faults > 0 {
        words.push(counted(budget.faults, "page fault"));
    }
    if !budget.doubt.is_empty() {
        words.push(format!("doubtful: {}", budget.doubt.join(" ")));
    }
    words.join(", ")
}

/// What the marks that budgets have say, if they have any.
fn legend<'a>(budgets: impl Iterator<Item = &'a Budget>) -> Option<String> {
    let found: Vec<&String> = budgets.flat_map(|budget| &budget.doubt).collect();
    let marks = MARKS.iter().filter(|(mark, _)| found.iter().any(|name| *name == mark));
    let said: Vec<String> = marks.map(|(mark, meaning)| format!("{mark}: {meaning}")).collect();
    (!said.is_empty()).then(|| format!("doubtful, {}", said.join("; ")))
}

fn part_text(part: &BudgetPart) -> String {
    let name = if part.name.is_empty() { String::new() } else { format!(" {}", part.name) };
    let priority = part.priority.as_ref().map_or(String::new(), |priority| format!(" ({priority})"));
    let behind = part.behind.as_ref().map_or(String::new(), |behind| format!(" behind {behind}"));
    let inferred = if part.seen { "" } else { " (inferred)" };
    let what = match (part.cause.as_str(), &part.by) {
        ("throttled", Some(by)) if name.is_empty() => format!("throttled by {by}"),
        ("throttled", Some(by)) => format!("throttled by {by} while{name}{priority} ran"),
        ("stopped", Some(by)) if name.is_empty() => format!("stopped by {by}"),
        ("stopped", Some(by)) => format!("stopped by{name} ({by})"),
        _ => format!("{}{name}{priority}{behind}", part.cause),
    };
    format!("{what} {}{inferred}", time(part.ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;
    use crate::causes::MissingKind;
    use crate::causes::Watching;

    #[test]
    fn budgets_are_a_line_each_and_harmless() {
        let part = |cause: &str, name: &str, ns| BudgetPart {
            cause: cause.to_owned(),
            name: name.to_owned(),
            tid: Some(9),
            priority: Some("rt 90".to_owned()),
            behind: None,
            limit: None,
            group: None,
            by: None,
            ns,
            pieces: 1,
            seen: false,
        };
        let parts = vec![part("higher_priority", "ho\u{1b}g<", 900_000), part("own", "", 100_000)];
        let signature = Budget::signature_of(&parts);
        let budget = Budget { at_ns: Some(5), signature, parts, faults: 2, doubt: vec!["lost".to_owned()] };
        let mut record = Record::new("kymo", "wakeup");
        let mut series = Series::new("wakeup");
        series.worst.push(Worst { value_ns: 1_000_000, cycles: None, sample: None, tid: None, budget: Some(budget) });
        record.series.push(series);
        let watching = Watching {
            outcome: "no_difference".to_owned(),
            text: "watched".to_owned(),
            slots: [5, 5],
            p999_ns: None,
            snapshots: 1,
            snapshot_ns_max: 2,
        };
        let of = Causes {
            level: Level::Tracepoints,
            cannot_see: vec!["the dark".to_owned()],
            missing_events: vec![MissingKind { kind: "page_faults".to_owned(), text: "the faults".to_owned() }],
            asked: 1,
            explained: 1,
            unexplained: Vec::new(),
            clusters: Vec::new(),
            period: None,
            watching,
        };
        let lines = causes(&record, &of).join("\n");
        assert!(
            lines.contains("(rt 90) 900 us (inferred), own (rt 90) 100 us (inferred), 2 page faults, doubtful: lost"),
            "{lines}"
        );
        assert!(lines.contains("\ndoubtful, lost: records were lost meanwhile\n"), "{lines}");
        assert!(!lines.contains('\u{1b}') && lines.contains("cannot see: the dark"), "{lines}");
        assert!(lines.contains("\ncannot see: the faults"), "{lines}");
        let page = section(&record, &of);
        assert!(page.contains("g&lt;") && page.contains("the faults"), "{page}");
    }

    #[test]
    fn limits_and_stops_are_told_in_words() {
        let part = |cause: &str, name: &str, by: &str| BudgetPart {
            cause: cause.to_owned(),
            name: name.to_owned(),
            tid: None,
            priority: (!name.is_empty()).then(|| "nice 0".to_owned()),
            behind: None,
            limit: (cause == "throttled").then(|| "quota".to_owned()),
            group: None,
            by: Some(by.to_owned()),
            ns: 2_000_000,
            pieces: 1,
            seen: true,
        };
        let quota = "the CPU quota of its control group /a";
        let rows = [
            (
                part("throttled", "", quota),
                "throttled by the CPU quota of its control group /a 2.00 ms",
                "throttled quota",
            ),
            (
                part("throttled", "cc1", quota),
                "throttled by the CPU quota of its control group /a while cc1 (nice 0) ran 2.00 ms",
                "throttled quota",
            ),
            (part("stopped", "", "a debugger"), "stopped by a debugger 2.00 ms", "stopped by a debugger"),
            (part("stopped", "sh", "a signal"), "stopped by sh (a signal) 2.00 ms", "stopped by a signal"),
        ];
        for (part, text, signature) in rows {
            assert_eq!((part_text(&part).as_str(), Budget::signature_of(&[part]).as_str()), (text, signature));
        }
    }
}
