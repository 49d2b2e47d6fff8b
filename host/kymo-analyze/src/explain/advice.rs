// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to try next: only where something of the story backs it.

use super::cause::Cause;
use super::names::Names;
use super::story::{Advice, Link, Slice};
use super::stretches::Stretch;
use crate::doubt::Doubt;
use crate::event::{Interrupt, Off};
use crate::span::{Context, Waker};
use crate::units::priority;

/// A cause gets advice from this share of the time on, percent.
const SHARE_MIN: u64 = 20;
/// Pieces of advice at most.
const ADVICE_MAX: usize = 3;

/// The advice, what matters most first.
pub(super) fn advice(names: &Names<'_>, budget: &[Slice], stretches: &[Stretch], chain: &[Link]) -> Vec<Advice> {
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    let mut found = Vec::new();
    if names.scene.question.doubt.has(Doubt::LOST) || !names.scene.losses.is_empty() {
        let because = "records were lost in it".to_owned();
        found.push(Advice {
            because,
            try_this: "record again with larger rings (--kernel-ring, --ring-size) or fewer events".to_owned(),
        });
    }
    for slice in budget.iter().filter(|slice| slice.ns.saturating_mul(100) >= whole.saturating_mul(SHARE_MIN)) {
        let cpu = stretches.iter().find(|stretch| stretch.cause == slice.cause).and_then(|stretch| stretch.cpu);
        let try_this = match slice.cause {
            Cause::Preempted { by: Some(by), off } => preempted(names, by, off, cpu),
            Cause::Thread { tid, off: Some(_) } => Some(off_by(names, tid)),
            Cause::Interrupt(interrupt) | Cause::WaitInterrupt(interrupt) => interrupted(names, interrupt, cpu),
            Cause::IdleExit => Some(
                "keep the CPU out of deep idle states: hold /dev/cpu_dma_latency open with 0, or disable states; \
                 `kymo doctor` tells which the machine has"
                    .to_owned(),
            ),
            Cause::Blocked { call, waker, fault, .. } => blocked(names, call, waker, fault, chain),
            _ => None,
        };
        let is_new = |try_this: &String| found.iter().all(|advice: &Advice| advice.try_this != *try_this);
        let advice = try_this.filter(is_new).map(|try_this| Advice { because: slice.text.clone(), try_this });
        found.extend(advice);
    }
    found.truncate(ADVICE_MAX);
    found
}

fn preempted(names: &Names<'_>, by: i32, off: Option<Off>, cpu: Option<u32>) -> Option<String> {
    if off.is_some() {
        return Some(off_by(names, by));
    }
    let tid = names.scene.question.tid?;
    let name = names.thread(by);
    let (own, other) = (names.prio(tid), names.prio(by));
    let cpu = cpu.map_or("CPU".to_owned(), |cpu| cpu.to_string());
    if let Some(irq) = name.strip_prefix("irq/").and_then(|rest| rest.split('-').next()) {
        return Some(format!(
            "an interrupt thread outranked it: `chrt -f -p PRIO {by}` below the waiting thread, or move the interrupt \
             away: /proc/irq/{irq}/smp_affinity_list"
        ));
    }
    if name.starts_with("ksoftirqd/") {
        return Some(format!(
            "softirqs were too many for their interrupt: move their device's interrupt off cpu {cpu}"
        ));
    }
    if name.starts_with("kworker/u") {
        return Some(format!(
            "keep unbound kernel workers off cpu {cpu}: /sys/devices/virtual/workqueue/cpumask, or `kymo shield {cpu} -- COMMAND`"
        ));
    }
    match (own, other) {
        (Some(own), Some(other)) if other < own && other < 100 => Some(format!(
            "{name} outranks it ({} before {}): give it less or the waiting thread more (`chrt`), or keep it off cpu \
             {cpu} (`kymo shield {cpu} -- COMMAND`)",
            priority(other),
            priority(own)
        )),
        (Some(own), Some(other)) if own < 100 && other > own => Some(format!(
            "{name} ranks lower ({} behind {}) and kept the CPU all the same: preemption or interrupts were off, or \
             the switch was not asked for in time; record with -k 'preemptirq:*', or use a PREEMPT_RT kernel",
            priority(other),
            priority(own)
        )),
        (Some(own), Some(_)) if own >= 100 => Some(format!(
            "both share the CPU by time slices: a real-time priority (`chrt -f PRIO COMMAND`) or a CPU of its own \
             (`kymo shield {cpu} -- COMMAND`) ends that"
        )),
        (Some(own), Some(other)) if own == other => Some(
            "both have the same real-time priority, and the one that runs is not preempted: give the waiting one more"
                .to_owned(),
        ),
        _ => Some(format!("keep it off cpu {cpu}: `kymo shield {cpu} -- COMMAND`")),
    }
}

fn off_by(names: &Names<'_>, tid: i32) -> String {
    format!(
        "{} is where interrupts or preemption stay off: its records in that time, or the kernel's irqsoff tracer \
         (`kymo explain REPORT` reads it), say in which function",
        names.thread(tid)
    )
}

fn interrupted(names: &Names<'_>, interrupt: Interrupt, cpu: Option<u32>) -> Option<String> {
    let cpu = cpu.map_or("the CPU".to_owned(), |cpu| format!("cpu {cpu}"));
    match interrupt {
        Interrupt::Irq(number) => Some(format!(
            "move {} off {cpu}: /proc/irq/{number}/smp_affinity_list; `kymo shield` does it for all",
            names.interrupt(interrupt)
        )),
        Interrupt::Softirq(2 | 3) => Some(format!(
            "network softirqs follow their device's interrupt: move that off {cpu}, or lower net.core.netdev_budget_usecs"
        )),
        Interrupt::Softirq(_) => {
            Some(format!("softirqs run where they are raised: move their source off {cpu} (`kymo shield`)"))
        }
        Interrupt::Vector(0) => Some("the tick: nohz_full on that CPU, where it has one thread only".to_owned()),
        Interrupt::Vector(_) => None,
        Interrupt::Hrtimer(_) | Interrupt::Timer(_) => {
            Some(format!("timer calls run where the timer was started: start it on another CPU than {cpu}"))
        }
    }
}

fn blocked(
    names: &Names<'_>,
    call: Option<crate::CallId>,
    waker: Option<Waker>,
    fault: Option<u64>,
    chain: &[Link],
) -> Option<String> {
    if fault.is_some() {
        return Some(
            "touch and lock memory before it matters: mlockall(MCL_CURRENT | MCL_FUTURE); files are read in advance by \
             MAP_POPULATE or readahead"
                .to_owned(),
        );
    }
    let question = &names.scene.question;
    let is_futex = call.is_some_and(|call| names.call(call) == "futex");
    let Some(Waker { context: Context::Thread(owner), .. }) = waker else { return None };
    let own = question.tid.and_then(|tid| names.prio(tid));
    let lower = own.zip(names.prio(owner)).is_some_and(|(own, other)| own < 100 && other > own);
    let owners = chain.iter().filter(|link| link.depth > 0 && link.tid == owner);
    let longest = owners.max_by_key(|link| link.to.abs_diff(link.from));
    match (is_futex, longest) {
        (true, _) if lower => Some(format!(
            "{} ranks lower and holds what is waited for: a mutex with PTHREAD_PRIO_INHERIT lends it the priority",
            names.thread(owner)
        )),
        (true, Some(link)) => Some(format!("shorten what it does while it holds the lock: {}", link.text)),
        _ => None,
    }
}
