// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time graphs: threads with their wake-ups, CPUs with their interrupts, spans of the user's events. Each is the answer
//! to a question of spec/view.md 4; only its form is another one here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::asked::{Asked, Range};
use super::model::{entry, header, style, tree};
use super::pieces::{MixedPixel, Stretch, edge, states};
use super::reply::{Asker, Failure, Reply, Table};

/// The first row of each graph: viewers take the begin of the experiment from it.
pub const ROOT: i64 = 1;
/// Numbers below are for rows that are no threads.
const FIRST: i64 = 16;
/// Rows of a CPU: itself, its interrupts, its softirqs.
const CPU_ROWS: i64 = 4;
/// Levels of spans of a thread at most.
const LEVELS: i64 = 16;
/// Threads of a tree at most.
const THREADS_MAX: u64 = 10_000;
/// Threads of one call at most; viewers ask for what is in sight.
const ITEMS_MAX: usize = 2048;
/// Threads of one question, and threads times pixels [spec/view.md 6].
const TIDS_MAX: usize = 512;
const CELLS_MAX: i64 = 1 << 20;

/// States of threads by number [spec/view.md 4.6], as styles have them.
pub const THREAD_STATES: [Option<&str>; 12] = [
    Some("Unknown"),
    Some("Running"),
    Some("Preempted"),
    Some("Woken"),
    Some("Gave way"),
    Some("Lock"),
    Some("Uninterruptible"),
    Some("Waiting"),
    Some("Sleeping"),
    Some("Stopped"),
    None,
    Some("Page fault"),
];
/// States of CPUs by number [spec/view.md 4.4].
const CPU_STATES: [Option<&str>; 3] = [Some("Unknown"), Some("Idle"), Some("Running")];

/// The row of a thread; none where its number is too large for one.
pub fn thread_id(tid: i64) -> Option<i64> {
    (tid > 0).then(|| tid + FIRST).filter(|id| *id <= i64::from(i32::MAX))
}

fn tid_of(id: i64) -> Option<i64> {
    id.checked_sub(FIRST).filter(|tid| *tid > 0 && *tid <= i64::from(i32::MAX))
}

fn cpu_id(cpu: i64) -> i64 {
    FIRST + cpu * CPU_ROWS
}

fn row(entry: Map<String, Value>, range: &Range, metadata: Value) -> Map<String, Value> {
    let mut entry = entry;
    entry.insert("start".to_owned(), json!(range.start));
    entry.insert("end".to_owned(), json!(range.end));
    if !metadata.is_null() {
        entry.insert("metadata".to_owned(), metadata);
    }
    entry
}

fn root(asker: Asker<'_>, whole: &Range, columns: usize) -> Map<String, Value> {
    let mut labels = vec![asker.of.name.clone()];
    labels.resize(columns, String::new());
    row(entry(ROOT, -1, labels), whole, Value::Null)
}

/// Threads as a tree: those of a process below its first one.
pub fn thread_tree(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let whole = Asked::default().range(asker.of)?;
    let mut parameters = asked.range(asker.of)?.window();
    parameters.push(("limit", THREADS_MAX.to_string()));
    let reply = asker.ask("threads", &parameters)?;
    let threads = reply.table("threads");
    let known: BTreeSet<i64> = (0..threads.rows()).filter_map(|at| threads.number("tid", at)).collect();
    let mut entries = vec![root(asker, &whole, 4)];
    for at in 0..threads.rows() {
        let Some((tid, id)) = threads.number("tid", at).and_then(|tid| Some((tid, thread_id(tid)?))) else { continue };
        let process = threads.number("process", at);
        let parent = process.filter(|process| *process != tid && known.contains(process)).and_then(thread_id);
        let text = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
        let name = threads.text("name", at).map_or_else(|| format!("[{tid}]"), str::to_owned);
        let labels = vec![name, tid.to_string(), text(process), text(threads.number("prio", at))];
        let metadata = json!({ "TID": [tid.to_string()] });
        entries.push(row(entry(id, parent.unwrap_or(ROOT), labels), &whole, metadata));
    }
    let headers = [("Thread", "STRING"), ("TID", "NUMBER"), ("PID", "NUMBER"), ("Priority", "NUMBER")];
    Ok(tree(headers.map(|(name, kind)| header(name, kind)).to_vec(), entries))
}

/// The answers to `states` about these threads, as many as are needed.
pub fn ask_states(asker: Asker<'_>, range: &Range, tids: &[i64]) -> Result<Vec<Reply>, Failure> {
    let each = ((CELLS_MAX / range.pixels.max(1)) as usize).clamp(1, TIDS_MAX);
    let ask = |tids: &[i64]| {
        let mut parameters = range.divided("pixels");
        parameters.push(("tids", tids.iter().map(i64::to_string).collect::<Vec<_>>().join(",")));
        asker.ask("states", &parameters).map_err(Failure::from)
    };
    tids.chunks(each).map(ask).collect()
}

/// The threads of rows that are asked for, each once.
pub fn tids(asked: &Asked) -> Result<Vec<i64>, Failure> {
    let mut tids: Vec<i64> = asked.numbers("requested_items")?.into_iter().filter_map(tid_of).collect();
    tids.sort_unstable();
    tids.dedup();
    tids.truncate(ITEMS_MAX);
    Ok(tids)
}

/// What threads did.
pub fn thread_states(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, tids) = (asked.range(asker.of)?, tids(asked)?);
    let mut rows = Vec::new();
    for reply in ask_states(asker, &range, &tids)? {
        let mut stretches = by_row(&reply.table("spans"), "tid", |table, at| {
            let call = table.text("call", at).unwrap_or_default();
            let by = table.text("by_name", at).map_or_else(String::new, |by| format!("by {by}"));
            if call.is_empty() { by } else { call.to_owned() }
        });
        let mut pixels = mixed(&reply, &range, "tid");
        for tid in &tids {
            let (own, parts) = (stretches.remove(tid), pixels.remove(tid).unwrap_or_default());
            if own.is_some() || !parts.is_empty() {
                let shown = states(own.unwrap_or_default(), &parts, &THREAD_STATES);
                rows.push(json!({ "entryId": thread_id(*tid), "states": shown }));
            }
        }
    }
    Ok(json!({ "rows": rows }))
}

/// Stretches of a table by the number of their row.
fn by_row(table: &Table<'_>, key: &str, label: impl Fn(&Table<'_>, usize) -> String) -> BTreeMap<i64, Vec<Stretch>> {
    let mut all: BTreeMap<i64, Vec<Stretch>> = BTreeMap::new();
    for at in 0..table.rows() {
        let times = table.time("from", at).zip(table.time("to", at));
        let Some(((from, to), row)) = times.zip(table.number(key, at)) else { continue };
        let state = table.number("state", at).and_then(|state| usize::try_from(state).ok()).unwrap_or(0);
        all.entry(row).or_default().push(Stretch { from, to, state, label: label(table, at) });
    }
    all
}

/// Mixed pixels by the number of their row.
fn mixed(reply: &Reply, range: &Range, key: &str) -> BTreeMap<i64, Vec<MixedPixel>> {
    let (table, window) = (reply.table("mixed"), reply.window());
    let mut all: BTreeMap<i64, Vec<MixedPixel>> = BTreeMap::new();
    for (at, shares) in reply.shares().into_iter().enumerate() {
        let Some((row, pixel)) = table.number(key, at).zip(table.number("pixel", at)) else { continue };
        let (from, to) = (edge(window, range.pixels, pixel), edge(window, range.pixels, pixel + 1));
        let count = table.number("count", at).unwrap_or(0);
        all.entry(row).or_default().push(MixedPixel { from, to, shares, count });
    }
    all
}

/// Wake-ups, from the thread that wakes to where the woken one runs.
pub fn arrows(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let reply = asker.ask("arrows", &asked.range(asker.of)?.window())?;
    let table = reply.table("arrows");
    let arrow = |at: usize| {
        let source = table.number("from_tid", at).and_then(thread_id)?;
        let target = table.number("tid", at).and_then(thread_id)?;
        let (start, end) = table.time("at", at).zip(table.time("runs_at", at))?;
        Some(json!({ "sourceId": source, "targetId": target, "start": start, "end": end, "style": style("Wake-up") }))
    };
    Ok((0..table.rows()).filter_map(arrow).collect())
}

/// What is known of a thread at a time.
pub fn thread_tooltip(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (Some(at), Some(tid)) = moment(asked, tid_of)? else { return Ok(json!({})) };
    let reply = ask_states(asker, &Range { start: at, end: at, pixels: 1 }, &[tid])?;
    let Some(reply) = reply.first() else { return Ok(json!({})) };
    let spans = reply.table("spans");
    let mut lines = Map::new();
    let mut tell = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.insert(name.to_owned(), json!(value));
        }
    };
    tell("TID", Some(tid.to_string()));
    let state = spans.number("state", 0).and_then(|state| THREAD_STATES.get(state as usize).copied().flatten());
    tell("State", state.map(str::to_owned));
    tell("CPU", spans.number("cpu", 0).map(|cpu| cpu.to_string()));
    tell("System call", spans.text("call", 0).map(str::to_owned));
    let by = spans.number("by", 0).map_or_else(String::new, |by| format!(" [{by}]"));
    tell("By", spans.text("by_name", 0).map(|name| format!("{name}{by}")));
    let doubt = spans.number("doubt", 0).map(|bits| reply.doubts(bits));
    tell("Doubtful", doubt.filter(|doubt| !doubt.is_empty()));
    Ok(Value::Object(lines))
}

/// The first time and the first row that are asked for.
fn moment(asked: &Asked, row: fn(i64) -> Option<i64>) -> Result<(Option<i64>, Option<i64>), Failure> {
    let time = asked.numbers("requested_times")?.first().copied();
    Ok((time, asked.numbers("requested_items")?.first().copied().and_then(row)))
}

/// CPUs, each with its interrupts and softirqs below.
pub fn cpu_tree(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let whole = Asked::default().range(asker.of)?;
    let range = Range { pixels: 1, ..asked.range(asker.of)? };
    let reply = asker.ask("cpus", &range.divided("pixels"))?;
    let cpus = reply.table("rows");
    let mut entries = vec![root(asker, &whole, 1)];
    for at in 0..cpus.rows() {
        let Some(cpu) = cpus.number("cpu", at) else { continue };
        let id = cpu_id(cpu);
        let metadata = json!({ "CPU": [cpu.to_string()] });
        entries.push(row(entry(id, ROOT, vec![format!("CPU {cpu}")]), &whole, metadata));
        for (offset, name, sum) in [(1, "interrupts", "irq_ns"), (2, "softirqs", "softirq_ns")] {
            if cpus.number(sum, at).is_some_and(|ns| ns > 0) {
                let label = vec![format!("CPU {cpu} {name}")];
                entries.push(row(entry(id + offset, id, label), &whole, Value::Null));
            }
        }
    }
    Ok(tree(vec![header("CPU", "STRING")], entries))
}

/// What CPUs did.
pub fn cpu_states(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, items) = (asked.range(asker.of)?, asked.numbers("requested_items")?);
    let items: Vec<i64> = items.into_iter().filter(|id| *id >= FIRST).collect();
    if items.is_empty() {
        return Ok(json!({ "rows": [] }));
    }
    let mut cpus: Vec<i64> = items.iter().map(|id| (id - FIRST) / CPU_ROWS).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut parameters = range.divided("pixels");
    parameters.push(("cpus", cpus.iter().take(ITEMS_MAX).map(i64::to_string).collect::<Vec<_>>().join(",")));
    let reply = asker.ask("cpus", &parameters)?;
    let mut stretches =
        by_row(&reply.table("spans"), "cpu", |table, at| table.text("name", at).unwrap_or_default().to_owned());
    let mut pixels = mixed(&reply, &range, "cpu");
    let mut rows = Vec::new();
    for id in items {
        let (cpu, kind) = ((id - FIRST) / CPU_ROWS, (id - FIRST) % CPU_ROWS);
        let shown = match kind {
            0 => {
                let parts = pixels.remove(&cpu).unwrap_or_default();
                states(stretches.remove(&cpu).unwrap_or_default(), &parts, &CPU_STATES)
            }
            1 | 2 => interrupts(&reply, &range, cpu, kind == 1),
            _ => continue,
        };
        rows.push(json!({ "entryId": id, "states": shown }));
    }
    Ok(json!({ "rows": rows }))
}

/// Interrupts, or softirqs and timer calls, of a CPU.
fn interrupts(reply: &Reply, range: &Range, cpu: i64, is_hard: bool) -> Vec<Value> {
    let (table, window) = (reply.table("interrupts"), reply.window());
    let mut stretches = Vec::new();
    for at in (0..table.rows()).filter(|at| table.number("cpu", *at) == Some(cpu)) {
        let times = table.time("from", at).zip(table.time("to", at));
        let is_own = (table.number("kind", at) == Some(0)) == is_hard;
        if let Some((from, to)) = times.filter(|_| is_own) {
            let label = table.text("name", at).unwrap_or_default().to_owned();
            stretches.push(Stretch { from, to, state: 0, label });
        }
    }
    let table = reply.table("interrupts_mixed");
    let share = if is_hard { "irq" } else { "softirq" };
    let mut pixels = Vec::new();
    for at in (0..table.rows()).filter(|at| table.number("cpu", *at) == Some(cpu)) {
        let Some((pixel, share)) = table.number("pixel", at).zip(table.float(share, at)) else { continue };
        let (from, to) = (edge(window, range.pixels, pixel), edge(window, range.pixels, pixel + 1));
        // Nothing but rounding is left of a pixel that a long one fills.
        if share > 1e-6 {
            let count = table.number("count", at).unwrap_or(0);
            pixels.push(MixedPixel { from, to, shares: vec![1.0], count });
        }
    }
    states(stretches, &pixels, &[Some(if is_hard { "Interrupt" } else { "Softirq" })])
}

/// What is known of a CPU at a time.
pub fn cpu_tooltip(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let cpu = |id: i64| id.checked_sub(FIRST).filter(|id| *id >= 0).map(|id| id / CPU_ROWS);
    let (Some(at), Some(cpu)) = moment(asked, cpu)? else { return Ok(json!({})) };
    let mut parameters = Range { start: at, end: at, pixels: 1 }.divided("pixels");
    parameters.push(("cpus", cpu.to_string()));
    let reply = asker.ask("cpus", &parameters)?;
    let (spans, interrupts) = (reply.table("spans"), reply.table("interrupts"));
    let mut lines = Map::new();
    let mut tell = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.insert(name.to_owned(), json!(value));
        }
    };
    tell("CPU", Some(cpu.to_string()));
    let state = spans.number("state", 0).and_then(|state| CPU_STATES.get(state as usize).copied().flatten());
    tell("State", state.map(str::to_owned));
    tell("Thread", spans.text("name", 0).map(str::to_owned));
    tell("TID", spans.number("tid", 0).map(|tid| tid.to_string()));
    tell("Priority", spans.number("prio", 0).map(|prio| prio.to_string()));
    let names: Vec<&str> = (0..interrupts.rows()).filter_map(|row| interrupts.text("name", row)).collect();
    tell("Interrupts", (!names.is_empty()).then(|| names.join(", ")));
    Ok(Value::Object(lines))
}

fn span_id(tid: i64, level: i64) -> Option<i64> {
    let id = FIRST.checked_add(tid.checked_mul(LEVELS)?)?.checked_add(level)?;
    (level < LEVELS && tid >= 0 && id <= i64::from(i32::MAX)).then_some(id)
}

/// Rows of spans: a thread and a level each. The first rows are threads, in the order of their numbers.
pub fn span_tree(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let whole = Asked::default().range(asker.of)?;
    let reply = asker.ask("slices", &asked.range(asker.of)?.divided("pixels"))?;
    let mut levels: BTreeMap<(i64, i64), String> = BTreeMap::new();
    for table in [reply.table("slices"), reply.table("merged")] {
        for at in 0..table.rows() {
            let (tid, level) = (table.number("tid", at).unwrap_or(0), table.number("level", at).unwrap_or(0));
            let name = levels.entry((tid, level)).or_default();
            if let Some(known) = table.text("name", at) {
                known.clone_into(name);
            }
        }
    }
    let mut entries = vec![root(asker, &whole, 2)];
    for ((tid, level), name) in levels {
        let Some(id) = span_id(tid, level) else { continue };
        let parent = if level == 0 { Some(ROOT) } else { span_id(tid, 0) };
        let name = if name.is_empty() { format!("[{tid}]") } else { name };
        let label = if level == 0 { name } else { format!("{name}, level {level}") };
        entries.push(row(entry(id, parent.unwrap_or(ROOT), vec![label, tid.to_string()]), &whole, Value::Null));
    }
    Ok(tree(vec![header("Thread", "STRING"), header("TID", "NUMBER")], entries))
}

/// Spans of threads, and blocks of those that are shorter than a pixel.
pub fn span_states(asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
    let (range, items) = (asked.range(asker.of)?, asked.numbers("requested_items")?);
    let reply = asker.ask("slices", &range.divided("pixels"))?;
    let (slices, merged, window) = (reply.table("slices"), reply.table("merged"), reply.window());
    let names = reply.info("spans");
    let of_row = |table: &Table<'_>, at: usize| {
        span_id(table.number("tid", at).unwrap_or(0), table.number("level", at).unwrap_or(0))
    };
    let mut stretches: BTreeMap<i64, Vec<Stretch>> = BTreeMap::new();
    for at in 0..slices.rows() {
        let times = slices.time("from", at).zip(slices.time("to", at));
        let Some(((from, to), id)) = times.zip(of_row(&slices, at)) else { continue };
        let span = slices.number("span", at).and_then(|span| names[span as usize].as_str()).unwrap_or("span");
        stretches.entry(id).or_default().push(Stretch { from, to, state: 0, label: span.to_owned() });
    }
    let mut pixels: BTreeMap<i64, Vec<MixedPixel>> = BTreeMap::new();
    for at in 0..merged.rows() {
        let place = merged.number("pixel", at).zip(merged.number("pixels", at));
        let Some(((first, count), id)) = place.zip(of_row(&merged, at)) else { continue };
        let (from, to) = (edge(window, range.pixels, first), edge(window, range.pixels, first + count));
        let count = merged.number("count", at).unwrap_or(0);
        pixels.entry(id).or_default().push(MixedPixel { from, to, shares: vec![0.0, 1.0], count });
    }
    let mut rows = Vec::new();
    for id in items {
        let (own, parts) = (stretches.remove(&id).unwrap_or_default(), pixels.remove(&id).unwrap_or_default());
        if !own.is_empty() || !parts.is_empty() {
            rows.push(json!({ "entryId": id, "states": states(own, &parts, &[Some("Span"), Some("Spans")]) }));
        }
    }
    Ok(json!({ "rows": rows }))
}
