// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is doubtful about a story, and what its trace cannot show.

use super::cause::Cause;
use super::names::Names;
use super::story::{Gap, Slice};
use super::stretches::Stretch;
use crate::doubt::Doubt;
use crate::units::duration;

/// A mark in a sentence.
fn sentence(mark: Doubt) -> &'static str {
    match mark {
        Doubt::LOST => "records were lost in it: the missing ones may have changed who ran, and why",
        Doubt::START => "it began before the trace told: its real length is unknown",
        Doubt::END => "the trace ended in it: its real length is unknown",
        Doubt::CLOCK => "time went back on its CPU: lengths around that are not exact",
        Doubt::MISSED => "an event that must have happened is not in the trace",
        Doubt::GUESSED => "who ran is known from the heads of records only, not from switches",
        Doubt::IDLE => "the CPU idled in it, and an idle processor can be woken: this is no latency",
        _ => "it touches CPUs whose clocks are not one",
    }
}

/// Marks in sentences, and losses with their places.
pub(super) fn doubts(names: &Names<'_>, doubt: Doubt) -> Vec<String> {
    let marks = Doubt::ALL.iter().filter(|(mark, _)| doubt.has(*mark));
    let mut lines: Vec<String> = marks.map(|(mark, name)| format!("{}  [{name}]", sentence(*mark))).collect();
    let question = &names.scene.question;
    for (cpu, from, to) in names.scene.losses.iter().take(3) {
        let place = cpu.map_or("all CPUs".to_owned(), |cpu| format!("cpu {cpu}"));
        let at = from.saturating_sub(question.from);
        let sign = if at < 0 { "-" } else { "+" };
        lines.push(format!(
            "lost on {place}, from {sign}{} on, within {}",
            duration(at.unsigned_abs()),
            duration(to.abs_diff(*from))
        ));
    }
    if let Some(full) = names.scene.full_from() {
        let at = duration(full.abs_diff(question.from));
        lines.push(format!("more spans than can be kept: from +{at} on it is not known"));
    }
    if names.scene.notes.left_out > 0 {
        lines.push(format!("{} records in its middle were not looked at", names.scene.notes.left_out));
    }
    lines
}

/// What is not in the trace, and would be needed to say more.
pub(super) fn blind(names: &Names<'_>, budget: &[Slice], silence: Option<&Gap>) -> Vec<String> {
    let facts = names.vocabulary.facts();
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    // What a twentieth of the time went to, or less, does not ask for more events.
    let matters = |slice: &&Slice| slice.ns > 0 && slice.ns >= whole / 20;
    let has = |cause: fn(&Cause) -> bool| budget.iter().filter(matters).any(|slice| cause(&slice.cause));
    let mut lines = Vec::new();
    let mut missing = |is: bool, text: &str| {
        if is {
            lines.push(text.to_owned());
        }
    };
    missing(!facts.switches, "no sched_switch in the trace: who ran is not known; record with -k sched");
    missing(
        facts.switches && !facts.waking && !facts.wakeup,
        "no wake-ups in the trace: who woke whom is not known; record with -k sched",
    );
    missing(!facts.interrupts, "no interrupts in the trace: their time counts as the thread's; record with -k irq");
    let waits = has(|cause| matches!(cause, Cause::Preempted { off: None, .. } | Cause::Thread { off: None, .. }));
    missing(
        waits && !facts.off,
        "whether interrupts or preemption were off is not in the trace: record with -k 'preemptirq:*' where the kernel has it",
    );
    missing(
        has(|cause| matches!(cause, Cause::Blocked { call: None, fault: None, .. })) && !facts.calls,
        "which system call it was blocked in is not in the trace: record with -k syscalls",
    );
    let quiet = silence.filter(|gap| whole > 0 && gap.to.abs_diff(gap.from) >= whole / 2);
    // An idle CPU is quiet, and so may be one that a blocked thread has left.
    let is_busy = budget.first().is_some_and(|slice| {
        !matches!(slice.cause, Cause::IdleExit | Cause::Idle | Cause::Blocked { .. } | Cause::Switching)
    });
    if let Some(gap) = quiet.filter(|_| is_busy) {
        lines.push(format!(
            "{} for {}: what ran there then left no trace (its own code, or the kernel's between events; firmware and \
             the host of a virtual machine leave none either)",
            gap.text,
            duration(gap.to.abs_diff(gap.from))
        ));
    }
    lines
}

/// All marks of the pieces and of the question.
pub(super) fn marks(names: &Names<'_>, stretches: &[Stretch]) -> Doubt {
    let lost = Doubt::LOST.when(!names.scene.losses.is_empty());
    stretches.iter().fold(names.scene.question.doubt | lost, |all, stretch| all | stretch.doubt)
}
