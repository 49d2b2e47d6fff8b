// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is doubtful about a story, and what its trace cannot show.

use super::names::StoryNames;
use super::question::Question;
use super::story::{Gap, Slice};
use crate::cause::{AnswerPart, Cause, MissingEvents, Segment, is_by_timer};
use crate::doubt::Doubt;
use crate::names::Facts;
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
        Doubt::NESTED => "another span with its key began in it: that this end is of this begin follows from nesting",
        Doubt::CUT => {
            "who waits for whom is followed through 64 threads and 100,000 steps: what lies behind that is not known"
        }
        _ => "it touches CPUs whose clocks are not one",
    }
}

/// Marks in sentences, and losses with their places.
pub(super) fn doubts(names: &StoryNames<'_>, doubt: Doubt) -> Vec<String> {
    let marks = Doubt::ALL.iter().filter(|(mark, _)| doubt.has(*mark));
    let mut lines: Vec<String> = marks.map(|(mark, name)| format!("{}  [{name}]", sentence(*mark))).collect();
    let question = &names.scene.question;
    for (cpu, from, to) in names.scene.evidence.losses.iter().take(3) {
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
        lines.push(format!(
            "the time line leaves out {} records in its middle; where the time went counts them",
            names.scene.notes.left_out
        ));
    }
    lines
}

/// Kinds of events that are not in the trace, and that could have been a part of what the time went to.
pub(super) fn missing_events(facts: &Facts, question: &Question, budget: &[Slice]) -> MissingEvents {
    let parts: Vec<AnswerPart> = budget.iter().map(AnswerPart::from).collect();
    MissingEvents::of(facts, &parts, question.waker.is_some_and(is_by_timer))
}

/// CPUs without records, and a silence that nothing explains.
pub(super) fn blind(
    names: &StoryNames<'_>,
    budget: &[Slice],
    segments: &[Segment],
    silence: Option<&Gap>,
) -> Vec<String> {
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    let silent = silence.filter(|gap| whole > 0 && gap.to.abs_diff(gap.from) >= whole / 2);
    missing_cpus(names, segments).into_iter().chain(silent_stretch(budget, silent)).collect()
}

/// A stretch without records on a CPU that was busy.
fn silent_stretch(budget: &[Slice], quiet: Option<&Gap>) -> Option<String> {
    // An idle CPU is quiet, and so may be one that a blocked thread has left.
    let is_busy = budget.first().is_some_and(|slice| {
        matches!(
            slice.cause,
            Cause::Own
                | Cause::Thread { .. }
                | Cause::RunQueue { .. }
                | Cause::Ran { .. }
                | Cause::IrqsOff { .. }
                | Cause::PreemptionOff { .. }
                | Cause::Interrupt(_)
                | Cause::Remainder
        )
    });
    quiet.filter(|_| is_busy).map(|gap| {
        format!(
            "{} for {}: what ran there then left no trace (its own code, or the kernel's between events; firmware and \
             the host of a virtual machine leave none either)",
            gap.text,
            duration(gap.to.abs_diff(gap.from))
        )
    })
}

/// CPUs that the story or its records speak of, and that wrote none then: their streams may be missing.
fn missing_cpus(names: &StoryNames<'_>, segments: &[Segment]) -> Option<String> {
    let mut cpus: Vec<u32> = segments.iter().filter_map(|segment| segment.cpu).collect();
    cpus.extend(names.scene.question.waker.map(|waker| waker.cpu).filter(|cpu| *cpu != u32::MAX));
    cpus.extend(names.scene.evidence.times.named());
    cpus.sort_unstable();
    cpus.dedup();
    cpus.retain(|cpu| !names.scene.evidence.times.knows(*cpu));
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    (!list.is_empty())
        .then(|| format!("no records of cpu {} within 100 ms of it: who ran there is not known", list.join(", ")))
}

/// All marks of the pieces and of the question.
pub(super) fn marks(names: &StoryNames<'_>, segments: &[Segment]) -> Doubt {
    let lost = Doubt::LOST.when(!names.scene.evidence.losses.is_empty());
    segments.iter().fold(names.scene.question.doubt | lost, |all, segment| all | segment.doubt)
}
