// SPDX-License-Identifier: MIT OR Apache-2.0
//! A critical path as text: a line for each step, indented by who waits for whom; then the budget.

use std::collections::BTreeMap;

use kymo_analyze::{Act, Doubt, PathStep};

use super::answer::CriticalPathAnswer;
use crate::verbs::analyze::show::{Times, duration};

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
    let mut text = format!("{}: {whole} from {}\n\n", found.names().thread(stretch.tid), times.text(stretch.from));
    let mut lengths: Vec<u64> = found.path.steps.iter().map(|step| step.to.abs_diff(step.from)).collect();
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let least = lengths.get(STEPS_SHOWN).map_or(0, |length| length + 1);
    let shown = |step: &&PathStep| step.to.abs_diff(step.from) >= least;
    found.path.steps.iter().filter(shown).for_each(|step| text += &line(found, step, times));
    let hidden = found.path.steps.iter().filter(|step| !shown(step)).count();
    if hidden > 0 {
        text += &format!("  ({hidden} steps shorter than {} are not shown; --json has all)\n", duration(least));
    }
    if found.path.steps.iter().any(|step| step.doubt.has(Doubt::CUT)) {
        text += "  (cut: threads that wait for each other are followed 64 deep and for 100,000 steps; what lies behind \
                 steps with the mark [cut] is not known)\n";
    }
    text += &summary(found);
    text += "\nof that time:\n";
    for share in &found.budget {
        let marks = if share.doubt.is_none() { String::new() } else { format!("  [{}]", share.doubt) };
        let percent = 100.0 * share.ns as f64 / stretch.to.abs_diff(stretch.from).max(1) as f64;
        text += &format!("  {:>8} {percent:>5.1} %  {}{marks}\n", duration(share.ns), share.text);
    }
    if let Some(missing) = found.missing_events.line() {
        text += &format!("\n{missing}\n");
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
        text += &format!("  {:>8}  {} {what} ({steps} steps)\n", duration(*ns), found.names().thread(*tid));
    }
    let rest = sums.len().saturating_sub(SUMS_SHOWN);
    if rest > 0 { text + &format!("  (and {rest} more)\n") } else { text }
}

fn line(found: &CriticalPathAnswer<'_>, step: &PathStep, times: &Times) -> String {
    let marks = if step.doubt.is_none() { String::new() } else { format!("  [{}]", step.doubt) };
    let length = duration(step.to.abs_diff(step.from));
    let indent = "  ".repeat(step.depth.min(20));
    let names = found.names().of(step);
    let who = names.thread(step.tid);
    format!("  {:>8}  {}  {indent}{who} {}{marks}\n", length, times.text(step.from), names.act(step.act))
}
