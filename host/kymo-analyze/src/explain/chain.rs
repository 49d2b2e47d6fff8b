// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who was waited for: the critical path of [spec/analyze.md 7] as a few links.

use super::names::Names;
use super::story::Link;
use super::stretches::within;
use crate::critical::{Act, Step};

/// Links that are told; of more, the longest are.
const LINKS_MAX: usize = 8;

/// The links, in the order of time; none where the thread waited for nobody.
pub(super) fn chain(names: &Names<'_>) -> Vec<Link> {
    let question = &names.scene.question;
    let Some(tid) = question.thread().filter(|_| question.to > question.from) else { return Vec::new() };
    let path = names.scene.history.critical(tid, question.from, question.to);
    if path.steps.iter().all(|step| step.depth == 0) {
        return Vec::new();
    }
    let mut lengths: Vec<u64> = path.steps.iter().map(length).collect();
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let least = lengths.get(LINKS_MAX).map_or(0, |length| length + 1);
    path.steps.iter().filter(|step| length(step) >= least).map(|step| link(names, step)).collect()
}

fn length(step: &Step) -> u64 {
    step.to.abs_diff(step.from)
}

fn link(names: &Names<'_>, step: &Step) -> Link {
    let act = match step.act {
        Act::Runs { cpu } => format!("ran on cpu {cpu}"),
        Act::Waits { why, cpu } => {
            let on = cpu.map_or(String::new(), |cpu| format!(" {cpu}"));
            format!("waited for cpu{on}, {}", names.ready(why))
        }
        Act::Blocked { state, call, waker } => format!("was {}", names.blocked(state, call, waker, None)),
        Act::Unknown => "did what the trace does not tell".to_owned(),
    };
    let text = format!("{} {act}", names.thread(step.tid));
    let doubt = within(step.doubt, step.act == Act::Unknown);
    Link { from: step.from, to: step.to, tid: step.tid, depth: step.depth, text, doubt }
}
