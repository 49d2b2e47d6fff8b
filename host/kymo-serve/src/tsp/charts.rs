// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts over time: records and losses, use of CPUs, values of the user's events, latencies as points; and the table
//! of latencies as a tree.

use serde_json::{Value, json};

use super::asked::{Asked, Range};
use super::graphs::{ROOT, ask_states, thread_id, tids};
use super::model::{entry, header, series, tree};
use super::pieces::edge;
use super::reply::{Asker, Failure, Reply};

/// Rows of the histogram.
const RECORDS: i64 = 2;
const LOST: i64 = 3;
/// Numbers below are for rows that are no fields.
const FIRST: i64 = 16;
/// Fields of an event, and lines of a field: last value, smallest, largest.
const FIELDS: i64 = 256;
const LINES: i64 = 4;
/// Fields and kinds of latency of one call at most: each is a pass over the window.
const PASSES_MAX: usize = 16;
/// Lines of one call at most.
const SERIES_MAX: usize = 256;
/// Points of a kind of latency.
const POINTS: u64 = 2000;

/// Points of a chart, and its name.
fn chart(title: &str, series: Vec<Value>) -> Value {
    json!({ "title": title, "series": series })
}

/// An entry that is drawn before anybody chooses.
fn shown(id: i64, parent: i64, labels: &[&str], is_default: bool) -> serde_json::Map<String, Value> {
    let mut made = entry(id, parent, labels.iter().map(|label| (*label).to_owned()).collect());
    made.insert("isDefault".to_owned(), json!(is_default));
    made
}

/// The rows of the histogram.
pub fn histogram_tree(asker: Asker<'_>) -> Value {
    let rows = [(ROOT, -1, asker.of.name.as_str()), (RECORDS, ROOT, "Records"), (LOST, ROOT, "Lost")];
    let entries = rows.map(|(id, parent, name)| shown(id, parent, &[name], id != ROOT)).to_vec();
    tree(vec![header("Name", "STRING")], entries)
}

/// Records and losses over time.
pub fn histogram(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let items = asked.numbers("requested_items")?;
    let mut lines = Vec::new();
    if !items.is_empty() {
        let reply = asker.ask("overview", &asked.range(asker.of)?.divided("bins"))?;
        let bins = reply.table("bins");
        for (id, name, column) in [(RECORDS, "Records", "records"), (LOST, "Lost", "lost")] {
            let point = |at: usize| Some((bins.time("from", at)?, bins.float(column, at).unwrap_or(0.0)));
            let points: Vec<(i64, f64)> = (0..bins.rows()).filter_map(point).collect();
            if items.contains(&id) {
                lines.push(series(id, name, "line", "", &points));
            }
        }
    }
    Ok(chart("Histogram", lines))
}

/// Threads by the time that they ran.
pub fn usage_tree(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let range = asked.range(asker.of)?;
    let mut parameters = range.window();
    parameters.extend([("by", "running".to_owned()), ("limit", "1000".to_owned())]);
    let reply = asker.ask("threads", &parameters)?;
    let (threads, (from, to)) = (reply.table("threads"), reply.window());
    let ns = to.abs_diff(from).max(1) as f64;
    let mut entries = vec![shown(ROOT, -1, &["all CPUs", "", "", ""], true)];
    for at in 0..threads.rows() {
        let Some((tid, id)) = threads.number("tid", at).and_then(|tid| Some((tid, thread_id(tid)?))) else { continue };
        let running = threads.float("running_ns", at).unwrap_or(0.0);
        let name = threads.text("name", at).unwrap_or("?");
        let (tid, share, time) = (tid.to_string(), format!("{:.3}", running / ns * 100.0), format!("{running:.0}"));
        entries.push(shown(id, ROOT, &[name, &tid, &share, &time], false));
    }
    let headers = [("Thread", "STRING"), ("TID", "NUMBER"), ("%", "NUMBER"), ("Time", "DURATION")];
    Ok(tree(headers.map(|(name, kind)| header(name, kind)).to_vec(), entries))
}

/// The share of a state in each pixel in percent: of mixed pixels, whose shares these are, as it is told; of whole
/// stretches 100.
fn percent(reply: &Reply, shares: &[Vec<f64>], range: &Range, (key, row): (&str, i64), state: i64) -> Vec<f64> {
    let mut all = vec![0.0; range.pixels.max(0) as usize];
    let window = reply.window();
    let spans = reply.table("spans");
    let is_own = |at: &usize| spans.number(key, *at) == Some(row) && spans.number("state", *at) == Some(state);
    for at in (0..spans.rows()).filter(is_own) {
        let Some((from, to)) = spans.time("from", at).zip(spans.time("to", at)) else { continue };
        let first = all_before(&all, |pixel| edge(window, range.pixels, pixel) < from);
        let last = all_before(&all, |pixel| edge(window, range.pixels, pixel + 1) <= to);
        all.iter_mut().take(last).skip(first).for_each(|value| *value = 100.0);
    }
    let mixed = reply.table("mixed");
    for (at, shares) in shares.iter().enumerate().filter(|(at, _)| mixed.number(key, *at) == Some(row)) {
        let pixel = mixed.number("pixel", at).and_then(|pixel| usize::try_from(pixel).ok());
        if let Some(value) = pixel.and_then(|pixel| all.get_mut(pixel)) {
            *value = shares.get(state as usize).copied().unwrap_or(0.0) * 100.0;
        }
    }
    all
}

/// How many pixels from the first on are so.
fn all_before(all: &[f64], is_so: impl Fn(i64) -> bool) -> usize {
    let (mut low, mut high) = (0, all.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if is_so(middle as i64) { low = middle + 1 } else { high = middle }
    }
    low
}

fn over_time(reply: &Reply, range: &Range, values: &[f64]) -> Vec<(i64, f64)> {
    let window = reply.window();
    let at = |pixel: usize| edge(window, range.pixels, pixel as i64);
    values.iter().enumerate().map(|(pixel, value)| (at(pixel), *value)).collect()
}

/// Use of all CPUs together, and of threads, in percent of one CPU.
pub fn usage(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, items) = (asked.range(asker.of)?, asked.numbers("requested_items")?);
    let mut lines = Vec::new();
    if items.contains(&ROOT) {
        let reply = asker.ask("cpus", &range.divided("pixels"))?;
        let mut sums = vec![0.0; range.pixels as usize];
        let (cpus, parts) = (reply.table("rows"), reply.shares());
        for cpu in (0..cpus.rows()).filter_map(|at| cpus.number("cpu", at)) {
            let shares = percent(&reply, &parts, &range, ("cpu", cpu), 2);
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        }
        lines.push(series(ROOT, "all CPUs", "line", "%", &over_time(&reply, &range, &sums)));
    }
    let mut tids = tids(asked)?;
    tids.truncate(SERIES_MAX);
    for reply in ask_states(asker, &range, &tids)? {
        let (rows, parts) = (reply.table("rows"), reply.shares());
        for at in 0..rows.rows() {
            let Some((tid, id)) = rows.number("tid", at).and_then(|tid| Some((tid, thread_id(tid)?))) else { continue };
            let name = format!("{} [{tid}]", rows.text("name", at).unwrap_or("?"));
            let values = percent(&reply, &parts, &range, ("tid", tid), 1);
            lines.push(series(id, &name, "line", "%", &over_time(&reply, &range, &values)));
        }
    }
    Ok(chart("CPU usage", lines))
}

/// A field: its line of last values has this number, those of its smallest and largest the next two.
fn field_id(event: i64, field: i64) -> Option<i64> {
    let id = FIRST + (event.checked_mul(FIELDS)? + field).checked_mul(LINES)?;
    (field < FIELDS && id + LINES <= i64::from(i32::MAX)).then_some(id)
}

/// The numeric fields of the user's events: number of the event, its name, number and name of the field.
fn fields(asker: Asker<'_>) -> Result<Vec<(i64, String, i64, String)>, Failure> {
    let reply = asker.ask("schema", &[])?;
    let (events, fields) = (reply.table("events"), reply.table("fields"));
    let (mut all, mut last, mut position) = (Vec::new(), -1, 0);
    for at in 0..fields.rows() {
        let event = fields.number("event", at).unwrap_or(0);
        position = if event == last { position + 1 } else { 0 };
        last = event;
        let is_number = matches!(fields.text("kind", at), Some("integer" | "float"));
        let is_of_user = events.number("is_kernel", event as usize) == Some(0);
        if let (true, Some(name), Some(field)) =
            (is_number && is_of_user, events.text("name", event as usize), fields.text("name", at))
        {
            all.push((event, name.to_owned(), position, field.to_owned()));
        }
    }
    Ok(all)
}

/// Whether there is something to draw.
pub fn has_values(asker: Asker<'_>) -> bool {
    fields(asker).is_ok_and(|fields| !fields.is_empty())
}

/// Events, and below them their fields with smallest and largest.
pub fn values_tree(asker: Asker<'_>) -> Result<Value, Failure> {
    let mut entries = vec![shown(ROOT, -1, &[&asker.of.name], false)];
    for (event, name, field, field_name) in fields(asker)? {
        let Some(id) = field_id(event, field) else { continue };
        entries.push(shown(id, ROOT, &[&format!("{name}.{field_name}")], entries.len() == 1));
        entries.push(shown(id + 1, id, &["minimum"], false));
        entries.push(shown(id + 2, id, &["maximum"], false));
    }
    Ok(tree(vec![header("Field", "STRING")], entries))
}

/// Values over time. Between records a field keeps its last value; before the first one it has that one.
pub fn values(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, items) = (asked.range(asker.of)?, asked.numbers("requested_items")?);
    let mut lines = Vec::new();
    let all = if items.is_empty() { Vec::new() } else { fields(asker)? };
    let is_wanted = |id: i64| (0..3).any(|line| items.contains(&(id + line)));
    let wanted = all.iter().filter_map(|field| Some((field_id(field.0, field.2)?, field)));
    for (id, (_, event, _, field)) in wanted.filter(|(id, _)| is_wanted(*id)).take(PASSES_MAX) {
        let name = format!("{event}.{field}");
        let mut parameters = range.divided("bins");
        parameters.push(("field", name.clone()));
        let reply = asker.ask("values", &parameters)?;
        let bins = reply.table("bins");
        for (line, column, suffix) in [(0, "last", ""), (1, "min", " minimum"), (2, "max", " maximum")] {
            if !items.contains(&(id + line)) || bins.rows() == 0 {
                continue;
            }
            let mut known = bins.float("first", 0).unwrap_or(0.0);
            let (mut row, mut values) = (0, Vec::with_capacity(range.pixels as usize));
            for bin in 0..range.pixels {
                let mut value = known;
                if bins.number("bin", row) == Some(bin) {
                    value = bins.float(column, row).unwrap_or(known);
                    known = bins.float("last", row).unwrap_or(known);
                    row += 1;
                }
                values.push(value);
            }
            let points = over_time(&reply, &range, &values);
            lines.push(series(id + line, &format!("{name}{suffix}"), "line", "", &points));
        }
    }
    Ok(chart("Values", lines))
}

/// Kinds of latency by number.
fn kinds(asker: Asker<'_>) -> Result<Vec<String>, Failure> {
    let reply = asker.ask("schema", &[])?;
    let kinds = reply.table("latencies");
    Ok((0..kinds.rows()).filter_map(|at| kinds.text("name", at).map(str::to_owned)).collect())
}

/// Kinds of latency of which there is one in the window.
pub fn latency_tree(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let reply = asker.ask("latencies", &asked.range(asker.of)?.window())?;
    let series = reply.table("series");
    let mut entries = vec![shown(ROOT, -1, &[&asker.of.name], false)];
    for (number, kind) in (0i64..).zip(kinds(asker)?) {
        let is_there = (0..series.rows()).any(|row| series.text("what", row) == Some(kind.as_str()));
        if is_there {
            entries.push(shown(FIRST + number, ROOT, &[&kind], entries.len() == 1));
        }
    }
    Ok(tree(vec![header("Latency", "STRING")], entries))
}

/// The longest latencies of kinds, each where it begins.
pub fn latencies(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, items) = (asked.range(asker.of)?, asked.numbers("requested_items")?);
    let mut lines = Vec::new();
    let all = if items.is_empty() { Vec::new() } else { kinds(asker)? };
    for (id, kind) in (FIRST..).zip(all).filter(|(id, _)| items.contains(id)).take(PASSES_MAX) {
        let mut parameters = range.window();
        parameters.extend([("what", kind.clone()), ("limit", POINTS.to_string())]);
        let reply = asker.ask("worst", &parameters)?;
        let points = reply.table("points");
        let point = |at: usize| Some((points.time("from", at)?, points.float("value_ns", at)?));
        let mut points: Vec<(i64, f64)> = (0..points.rows()).filter_map(point).collect();
        points.sort_by_key(|(at, _)| *at);
        lines.push(series(id, &kind, "scatter", "ns", &points));
    }
    Ok(chart("Latencies", lines))
}

/// Quantiles of latencies.
pub fn statistics(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let reply = asker.ask("latencies", &asked.range(asker.of)?.window())?;
    let series = reply.table("series");
    let columns = ["count", "min_ns", "mean_ns", "p50_ns", "p99_ns", "p9999_ns", "max_ns"];
    let mut entries = Vec::new();
    for (row, id) in (0..series.rows()).zip(1i64..) {
        let of = series.text("of", row).map_or_else(String::new, |of| format!(" {of}"));
        let mut labels = vec![format!("{}{of}", series.text("what", row).unwrap_or("?"))];
        let text = |name: &&str| series.number(name, row).map_or_else(String::new, |value| value.to_string());
        labels.extend(columns.iter().map(text));
        entries.push(entry(id, -1, labels));
    }
    let headers = [
        ("Latency", "STRING"),
        ("Count", "NUMBER"),
        ("Minimum", "DURATION"),
        ("Average", "DURATION"),
        ("Median", "DURATION"),
        ("99 %", "DURATION"),
        ("99.99 %", "DURATION"),
        ("Maximum", "DURATION"),
    ];
    Ok(tree(headers.map(|(name, kind)| header(name, kind)).to_vec(), entries))
}
