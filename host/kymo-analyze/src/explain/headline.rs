// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who, how long, and why, in one sentence.

use super::cause::Cause;
use super::names::Names;
use super::story::{Link, Slice};
use crate::latency::What;
use crate::span::{Context, Waker};
use crate::units::duration;

/// The sentence.
pub(super) fn headline(names: &Names<'_>, budget: &[Slice], chain: &[Link]) -> String {
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    let subject = subject(names, whole);
    let Some(slice) = budget.first().filter(|slice| slice.ns > 0) else { return format!("{subject}.") };
    let share = match slice.ns == whole {
        true => "all of it".to_owned(),
        false => format!("{} of it ({:.0} %)", duration(slice.ns), 100.0 * slice.ns as f64 / whole.max(1) as f64),
    };
    let why = match slice.cause {
        Cause::Running => "ran itself for".to_owned(),
        Cause::Unknown => "what happened is not known for".to_owned(),
        Cause::Idle => "the CPU idled for".to_owned(),
        _ => format!("{} for", slice.text),
    };
    let meanwhile = match slice.cause {
        Cause::Blocked { waker, .. } => meanwhile(waker, chain),
        _ => None,
    };
    format!("{subject}: {why} {share}{}.", meanwhile.unwrap_or_default())
}

fn subject(names: &Names<'_>, whole: u64) -> String {
    let question = &names.scene.question;
    let who = question.tid.map_or("a thread".to_owned(), |tid| names.thread_prio(tid));
    let on = question.cpu.map_or(String::new(), |cpu| format!(" on cpu {cpu}"));
    let (long, of) = (duration(whole), &question.of);
    match question.what {
        Some(What::Wakeup) => {
            let waker = question.waker.filter(|waker| waker.context != Context::Unknown);
            let by = waker.map_or(String::new(), |by| format!(" by {}", names.context(by.context)));
            format!("{who} ran {long} after it was woken{by}")
        }
        Some(What::Runqueue) => format!("{who} could run, and waited {long} for a CPU"),
        Some(What::Preempted) => format!("{who} was preempted for {long}"),
        Some(What::Irq | What::Vector | What::Softirq) => format!("{of} took {long}{on}"),
        Some(What::SoftirqRaise) => format!("{of} began {long} after it was raised{on}"),
        Some(What::Timer) => format!("the timer of {of} expired {long} late{on}"),
        Some(What::IrqsOff) => format!("interrupts were off for {long}{on}"),
        Some(What::PreemptOff) => format!("preemption was off for {long}{on}"),
        Some(What::Syscall) => format!("{who} was in {of} for {long}"),
        Some(What::Futex) => format!("{who} waited {long} in futex"),
        Some(What::Block) => format!("a block request to {of} took {long}"),
        Some(What::Net) => format!("a packet waited {long} for {of}"),
        Some(What::Span) => format!("'{of}' took {long}, ended by {who}"),
        None if whole == 0 => "what the CPUs did at that moment".to_owned(),
        None if question.tid.is_some() => format!("{long} of {who}"),
        None => format!("{long}{on}"),
    }
}

/// What the one at the root of who waited for whom did for most of that time.
fn meanwhile(waker: Option<Waker>, chain: &[Link]) -> Option<String> {
    let Context::Thread(_) = waker?.context else { return None };
    let root = chain.iter().filter(|link| link.depth > 0).max_by_key(|link| link.to.abs_diff(link.from))?;
    Some(format!("; for {} of that {}", duration(root.to.abs_diff(root.from)), root.text))
}
