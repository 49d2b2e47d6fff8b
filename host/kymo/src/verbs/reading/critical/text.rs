// SPDX-License-Identifier: MIT OR Apache-2.0
//! A critical path as text: a line for each step, indented by who waits for whom; then the budget.

use std::collections::BTreeMap;

use kymo_analyze::{Act, CallId, Context, Ready, Step, Waker};

use super::CriticalPathAnswer;
use crate::verbs::analyze::show::{FunctionNames as _, Times, duration};

/// Steps that are shown; of more, the longest are.
const STEPS_SHOWN: usize = 40;
/// Paths with more steps are summed up.
const SUMMED_FROM: usize = 10;
/// Sums that are shown.
const SUMS_SHOWN: usize = 15;

/// The whole report.
pub fn report(found: &CriticalPathAnswer<'_>, times: &Times) -> String {
    let stretch = found.stretch;
    let whole = duration(stretch.to.abs_diff(stretch.from));
    let mut text = format!("{}: {whole} from {}\n\n", thread(found, stretch.tid), times.text(stretch.from));
    let mut lengths: Vec<u64> = found.path.steps.iter().map(|step| step.to.abs_diff(step.from)).collect();
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let least = lengths.get(STEPS_SHOWN).map_or(0, |length| length + 1);
    let shown = |step: &&Step| step.to.abs_diff(step.from) >= least;
    found.path.steps.iter().filter(shown).for_each(|step| text += &line(found, step, times));
    let hidden = found.path.steps.iter().filter(|step| !shown(step)).count();
    if hidden > 0 {
        text += &format!("  ({hidden} steps shorter than {} are not shown; --json has all)\n", duration(least));
    }
    text += &summary(found);
    text += "\nof that time:\n";
    for share in &found.budget {
        let marks = if share.doubt.is_none() { String::new() } else { format!("  [{}]", share.doubt) };
        let percent = 100.0 * share.ns as f64 / stretch.to.abs_diff(stretch.from).max(1) as f64;
        text += &format!("  {:>8} {percent:>5.1} %  {}{marks}\n", duration(share.ns), share.text);
    }
    if !found.lost.is_none() {
        text += &format!("\n{}: what they touch is marked\n", found.lost.text());
    }
    text
}

/// The path summed up, where it is long: who, and what.
fn summary(found: &CriticalPathAnswer<'_>) -> String {
    if found.path.steps.len() <= SUMMED_FROM {
        return String::new();
    }
    let mut sums: BTreeMap<(i32, &str), (u64, u64)> = BTreeMap::new();
    for step in &found.path.steps {
        let what = match step.act {
            Act::Runs { .. } => "runs",
            Act::Waits { .. } => "waits for a CPU",
            Act::Blocked { .. } => "is blocked",
            Act::Unknown => "not known",
        };
        let sum = sums.entry((step.tid, what)).or_default();
        *sum = (sum.0 + step.to.abs_diff(step.from), sum.1 + 1);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (ns, _))| std::cmp::Reverse(*ns));
    let mut text = "\nthe path summed up:\n".to_owned();
    for ((tid, what), (ns, steps)) in sums.iter().take(SUMS_SHOWN) {
        text += &format!("  {:>8}  {} {what} ({steps} steps)\n", duration(*ns), thread(found, *tid));
    }
    let rest = sums.len().saturating_sub(SUMS_SHOWN);
    if rest > 0 { text + &format!("  (and {rest} more)\n") } else { text }
}

fn line(found: &CriticalPathAnswer<'_>, step: &Step, times: &Times) -> String {
    let marks = if step.doubt.is_none() { String::new() } else { format!("  [{}]", step.doubt) };
    let length = duration(step.to.abs_diff(step.from));
    let indent = "  ".repeat(step.depth.min(20));
    let who = thread(found, step.tid);
    format!("  {:>8}  {}  {indent}{who} {}{marks}\n", length, times.text(step.from), act(found, step.act))
}

/// What a step is.
pub fn act(found: &CriticalPathAnswer<'_>, act: Act) -> String {
    match act {
        Act::Runs { cpu } => format!("runs on cpu {cpu}"),
        Act::Waits { why, cpu } => {
            let on = cpu.map_or(String::new(), |cpu| format!(" {cpu}"));
            let why = match why {
                Ready::Woken(by) | Ready::New(by) => format!("woken by {}", waker(found, &by)),
                Ready::Preempted { by } => format!("preempted by {}", thread(found, by)),
                Ready::GaveWay { to } => format!("gave way to {}", thread(found, to)),
            };
            format!("waits for cpu{on}, {why}")
        }
        Act::Blocked { state, call, waker } => blocked(found, state, call, waker),
        Act::Unknown => "not known".to_owned(),
    }
}

fn blocked(found: &CriticalPathAnswer<'_>, state: u8, call: Option<CallId>, by: Option<Waker>) -> String {
    let call = call.map_or(String::new(), |call| format!(" in {}", found.classes.vocabulary.call_name(call)));
    let by = by.map_or(String::new(), |by| format!(", woken by {}", waker(found, &by)));
    match state {
        b'D' => format!("blocked uninterruptibly{call}{by}"),
        b'T' => format!("stopped by a signal{by}"),
        b't' => format!("stopped under a debugger{by}"),
        _ => format!("blocked{call}{by}"),
    }
}

fn waker(found: &CriticalPathAnswer<'_>, waker: &Waker) -> String {
    let what = match waker.context {
        Context::Unknown => "somebody".to_owned(),
        Context::Idle => "the idle CPU".to_owned(),
        Context::Thread(tid) => thread(found, tid),
        Context::Interrupt(interrupt) => found.functions.interrupt(interrupt),
    };
    if waker.cpu == u32::MAX { what } else { format!("{what} on cpu {}", waker.cpu) }
}

/// Name and number of a thread.
pub fn thread(found: &CriticalPathAnswer<'_>, tid: i32) -> String {
    let name = found.evidence.name(tid, found.stretch.to);
    match tid {
        0 => "idle".to_owned(),
        _ if name.is_empty() => format!("thread {tid}"),
        _ => format!("{name}[{tid}]"),
    }
}
