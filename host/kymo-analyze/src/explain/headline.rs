// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who, how long, and why, in one sentence.

use super::names::StoryNames;
use super::story::Slice;
use super::together::together;
use crate::cause::Cause;
use crate::latency::What;
use crate::span::Context;
use crate::units::duration;

/// The sentence.
pub(super) fn headline(names: &StoryNames<'_>, budget: &[Slice]) -> String {
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    let subject = subject(names, whole);
    let causes = together(budget);
    let Some(cause) = causes.first().filter(|cause| cause.ns > 0) else { return format!("{subject}.") };
    let share = match cause.ns == whole {
        true => "all of it".to_owned(),
        false => format!("{} of it ({:.0} %)", duration(cause.ns), 100.0 * cause.ns as f64 / whole.max(1) as f64),
    };
    let why = match cause.largest.cause {
        Cause::Own => "ran itself for".to_owned(),
        Cause::Remainder => format!("what happened is {} for", cause.text),
        Cause::Idle => "the CPU idled for".to_owned(),
        _ => format!("{} for", cause.text),
    };
    format!("{subject}: {why} {share}.")
}

fn subject(names: &StoryNames<'_>, whole: u64) -> String {
    let question = &names.scene.question;
    let who = question.tid.map_or("a thread".to_owned(), |tid| names.with_prio(tid, names.own_prio()));
    let on = question.cpu.map_or(String::new(), |cpu| format!(" on cpu {cpu}"));
    let (long, of) = (duration(whole), &question.of);
    match question.what {
        Some(What::Wakeup) => {
            let waker = question.waker.filter(|waker| waker.context != Context::Unknown);
            let by = waker.map_or(String::new(), |by| format!(" by {}", names.context(by.context)));
            match question.late_ns {
                0 => format!("{who} ran {long} after it was woken{by}"),
                late => format!(
                    "{who} ran {long} after its timer was due, {} after that woke it",
                    duration(whole.saturating_sub(late))
                ),
            }
        }
        Some(What::Runqueue) => format!("{who} could run, and waited {long} for a CPU"),
        Some(What::Preempted) => format!("{who} was preempted for {long}"),
        Some(What::Irq | What::Vector | What::Softirq) => format!("{of} took {long}{on}"),
        Some(What::SoftirqRaise) => format!("{of} began {long} after it was raised{on}"),
        Some(What::Timer) => format!("the timer of {of} expired {long} late{on}"),
        Some(What::IrqsOff) => format!("interrupts were off for {long}{on}"),
        Some(What::PreemptOff) => format!("preemption was off for {long}{on}"),
        Some(What::Syscall) => format!("{who} was in {of} for {long}"),
        Some(What::Futex) => {
            let by = question.owner.map_or(String::new(), |owner| format!(", woken by {}", names.thread(owner)));
            format!("{who} waited {long} in futex{by}")
        }
        Some(What::Block) => format!("a block request to {of} took {long}"),
        Some(What::Net) => format!("a packet waited {long} for {of}"),
        Some(What::Span) => format!("'{of}' took {long}, ended by {who}"),
        None if whole == 0 => "what the CPUs did at that moment".to_owned(),
        None if question.tid.is_some() => format!("{long} of {who}"),
        None => format!("{long}{on}"),
    }
}
