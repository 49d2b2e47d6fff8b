// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who was waited for: the critical path of [spec/analyze.md 7] as a few links.

use super::names::StoryNames;
use super::story::Link;
use crate::critical::{Act, PathStep};
use crate::doubt::Doubt;

/// Links that are told; of more, the longest are.
const LINKS_MAX: usize = 8;

/// The links of a story, and how many are left out, with their time.
#[derive(Default)]
pub(super) struct Chain {
    pub links: Vec<Link>,
    pub left_out: u64,
    pub left_out_ns: u64,
}

/// The links, in the order of time; none where the thread waited for nobody.
pub(super) fn chain(names: &StoryNames<'_>) -> Chain {
    let question = &names.scene.question;
    let Some(tid) = question.thread().filter(|_| question.to > question.from) else { return Chain::default() };
    let path = names.scene.evidence.history().critical(tid, question.from, question.to);
    if path.steps.iter().all(|step| step.depth == 0) {
        return Chain::default();
    }
    let mut order: Vec<usize> = (0..path.steps.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(length(&path.steps[index])), index));
    let (mut kept, left_out) = order.split_at(LINKS_MAX.min(order.len()));
    let mut shown = std::mem::take(&mut kept).to_vec();
    shown.sort_unstable();
    Chain {
        links: shown.iter().map(|&index| link(names, &path.steps[index])).collect(),
        left_out: left_out.len() as u64,
        left_out_ns: left_out.iter().map(|&index| length(&path.steps[index])).sum(),
    }
}

fn length(step: &PathStep) -> u64 {
    step.to.abs_diff(step.from)
}

fn link(names: &StoryNames<'_>, step: &PathStep) -> Link {
    let act = match step.act {
        Act::Runs { cpu } => format!("ran on cpu {cpu}"),
        Act::Waits { why, cpu } => {
            let on = cpu.map_or(String::new(), |cpu| format!(" {cpu}"));
            format!("waited for cpu{on}, {}", names.ready(why))
        }
        Act::Blocked { in_fault: true, waker, .. } => format!("was {}", names.in_fault(waker)),
        Act::Blocked { state, call, waker, .. } => format!("was {}", names.blocked(state, call, waker)),
        Act::Unknown => "did what the trace does not tell".to_owned(),
    };
    let text = format!("{} {act}", names.thread_at(step.tid, step.from));
    let doubt = if step.act == Act::Unknown { step.doubt } else { step.doubt.without(Doubt::END) };
    Link { from: step.from, to: step.to, tid: step.tid, depth: step.depth, text, doubt }
}
