// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls as text, JSON, collapsed stacks and a flame graph.

use std::collections::BTreeMap;

use kymo_analyze::functions::{Faults, ROOT, Tree, sums};
use kymo_export::export::stacks::{Frame, Who};
use kymo_export::flame::{FlamePart, svg as draw};
use serde_json::{Value, json};

use super::calls::FunctionCalls;
use crate::verbs::analyze::show::{duration, missing, table};

/// A node of a tree, with what is shown of it.
struct ShownCall {
    name: String,
    count: u64,
    total_ns: u64,
    self_ns: u64,
    faults: Faults,
    below: Vec<ShownCall>,
}

/// The trees of the wanted threads, each with its thread's name.
fn trees(found: &mut FunctionCalls, wanted: Option<&String>) -> Vec<(Who, String, Vec<ShownCall>, u64)> {
    let frames: Vec<Frame> =
        found.calls.trees().iter().flat_map(|tree| &tree.nodes).filter_map(|node| node.function.clone()).collect();
    frames.iter().for_each(|frame| drop(found.name(frame)));
    let mut shown = Vec::new();
    for tree in found.calls.trees().iter().filter(|tree| found.is_wanted(&tree.thread, wanted)) {
        let called = tree.all_called();
        let top = called[ROOT].iter().map(|&node| node_of(found, tree, &called, node)).collect();
        shown.push((tree.thread, thread_name(found, tree.thread), top, tree.skipped));
    }
    shown
}

fn node_of(found: &FunctionCalls, tree: &Tree<Frame, Who>, called: &[Vec<usize>], at: usize) -> ShownCall {
    let node = &tree.nodes[at];
    let name = node.function.as_ref().and_then(|frame| found.cache.get(frame)).cloned().unwrap_or_default();
    let below = called[at].iter().map(|&node| node_of(found, tree, called, node)).collect();
    let (count, total_ns, self_ns, faults) = (node.count, node.total_ns, node.self_ns, node.faults);
    ShownCall { name, count, total_ns, self_ns, faults, below }
}

fn thread_name(found: &FunctionCalls, who: Who) -> String {
    let name = found.names.get(&who).map_or("", String::as_str);
    let tid = if who.tid > u32::MAX - 4096 { format!("cpu {}", u32::MAX - who.tid) } else { who.tid.to_string() };
    format!("{name}[{}/{tid}]", who.pid)
}

/// Letters for what was not whole.
fn marks(faults: Faults) -> String {
    let letters = [(faults.cut, 'c'), (faults.begun_before, 'b'), (faults.open, 'o'), (faults.doubtful, '~')];
    let said = letters.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, letter)| if *count > 1 { format!("{letter}{count}") } else { letter.to_string() })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The text.
pub fn report(found: &mut FunctionCalls, wanted: Option<&String>, min_percent: f64, top: usize) -> String {
    let mut text = String::new();
    for (_, name, nodes, skipped) in trees(found, wanted) {
        let all: u64 = nodes.iter().map(|node| node.total_ns).sum();
        text += &format!("{}thread {name}: {} in functions\n", if text.is_empty() { "" } else { "\n" }, duration(all));
        let mut lines = vec![["calls", "total", "self", "count", ""].map(str::to_owned).to_vec()];
        let least = (all as f64 * min_percent / 100.0) as u64;
        let mut left_out = 0;
        nodes.iter().for_each(|node| lines_of(node, 0, least, &mut lines, &mut left_out));
        text += &table(&lines);
        if left_out > 0 {
            text += &format!("{left_out} functions with less than {min_percent} % are not shown (--min 0)\n");
        }
        if skipped > 0 {
            text += &format!("{skipped} calls are too deep or too many; their time is their caller's\n");
        }
    }
    text += &sums_text(found, wanted, top);
    if !found.lost.is_none() {
        text += &format!("\n{}: calls with ~ may lack some\n", found.lost.text());
    }
    text
}

fn lines_of(node: &ShownCall, depth: usize, least: u64, lines: &mut Vec<Vec<String>>, left_out: &mut u64) {
    if node.total_ns < least {
        *left_out += 1;
        return;
    }
    let name = format!("{}{}", "  ".repeat(depth.min(60)), node.name);
    lines.push(vec![name, duration(node.total_ns), duration(node.self_ns), node.count.to_string(), marks(node.faults)]);
    node.below.iter().for_each(|below| lines_of(below, depth + 1, least, lines, left_out));
}

fn sums_text(found: &mut FunctionCalls, wanted: Option<&String>, top: usize) -> String {
    let mut sums = sums(found.calls.trees().iter().filter(|tree| found.is_wanted(&tree.thread, wanted)));
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.self_ns));
    let all: u64 = sums.iter().map(|sum| sum.self_ns).sum();
    let mut lines = vec![["function", "self", "%", "total", "count", ""].map(str::to_owned).to_vec()];
    for sum in sums.iter().take(top) {
        let share = format!("{:.1}", 100.0 * sum.self_ns as f64 / all.max(1) as f64);
        let name = found.name(&sum.function);
        lines.push(vec![
            name,
            duration(sum.self_ns),
            share,
            duration(sum.total_ns),
            sum.count.to_string(),
            marks(sum.faults),
        ]);
    }
    let beyond = sums.len().saturating_sub(top);
    let beyond = if beyond > 0 { format!("{beyond} more (--limit)\n") } else { String::new() };
    format!("\n{}{beyond}", table(&lines))
}

/// `a;b;c NS`: self time, threads of one program added up.
pub fn collapsed(found: &mut FunctionCalls, wanted: Option<&String>) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (who, _, nodes, _) in trees(found, wanted) {
        let program = found.names.get(&who).map_or("-", String::as_str).replace([';', '\n'], " ");
        nodes.iter().for_each(|node| collapse(node, &program, &mut lines));
    }
    lines.into_iter().map(|(stack, ns)| format!("{stack} {ns}\n")).collect()
}

fn collapse(node: &ShownCall, above: &str, lines: &mut BTreeMap<String, u64>) {
    let stack = format!("{above};{}", node.name.replace(';', ":").replace('\n', " "));
    if node.self_ns > 0 {
        *lines.entry(stack.clone()).or_default() += node.self_ns;
    }
    node.below.iter().for_each(|below| collapse(below, &stack, lines));
}

/// The flame graph.
pub fn svg(found: &mut FunctionCalls, wanted: Option<&String>) -> String {
    let part = |name: String, below: Vec<FlamePart>| {
        let weight = below.iter().map(|part| part.weight).sum();
        FlamePart { name, weight, below, ..FlamePart::default() }
    };
    let threads =
        trees(found, wanted).into_iter().map(|(_, name, nodes, _)| part(name, nodes.iter().map(part_of).collect()));
    draw("kymo functions: the callers below, the width is time", "ns", &part("all".to_owned(), threads.collect()))
}

fn part_of(node: &ShownCall) -> FlamePart {
    let note = match marks(node.faults) {
        marks if marks.is_empty() => format!(", {} calls, {} of its own", node.count, duration(node.self_ns)),
        marks => format!(", {} calls, {} of its own, {marks}", node.count, duration(node.self_ns)),
    };
    FlamePart {
        name: node.name.clone(),
        weight: node.total_ns,
        note,
        is_doubtful: node.faults.any(),
        below: node.below.iter().map(part_of).collect(),
    }
}

/// The JSON document.
pub fn document(found: &mut FunctionCalls, wanted: Option<&String>) -> String {
    let threads: Vec<Value> = trees(found, wanted)
        .into_iter()
        .map(|(who, _, nodes, skipped)| {
            json!({
                "process": who.pid,
                "thread": who.tid,
                "name": found.names.get(&who),
                "skipped": skipped,
                "calls": nodes.iter().map(node_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "schema": "kymo-functions-1", "lost": missing(&found.lost), "threads": threads }).to_string()
}

fn node_json(node: &ShownCall) -> Value {
    json!({
        "function": node.name,
        "count": node.count,
        "total_ns": node.total_ns,
        "self_ns": node.self_ns,
        "cut": node.faults.cut,
        "begun_before": node.faults.begun_before,
        "open": node.faults.open,
        "doubtful": node.faults.doubtful,
        "calls": node.below.iter().map(node_json).collect::<Vec<_>>(),
    })
}
