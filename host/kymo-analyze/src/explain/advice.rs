// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to try next: the one list of advice, by cause, and only where something of the story backs it.

use super::names::StoryNames;
use super::story::{Advice, Slice};
use super::together::{WholeCause, together};
use crate::cause::{Cause, Ground, Limit, Segment, group_text};
use crate::doubt::Doubt;
use crate::event::{CallId, Interrupt};
use crate::units::{duration, priority};

/// A cause gets advice from this share of the time on, percent.
const SHARE_MIN: u64 = 20;
/// Pieces of advice at most.
const ADVICE_MAX: usize = 3;

/// The advice, what matters most first.
pub(super) fn advice(names: &StoryNames<'_>, budget: &[Slice], segments: &[Segment]) -> Vec<Advice> {
    let question = &names.scene.question;
    let whole = question.to.abs_diff(question.from);
    let mut found = Vec::new();
    if question.doubt.has(Doubt::LOST) || !names.scene.evidence.losses.is_empty() {
        found.push(Advice {
            because: "records were lost in it".to_owned(),
            try_this: "record again with larger rings (--kernel-ring, --ring-size) or fewer events".to_owned(),
        });
    }
    for WholeCause { largest: slice, text, ns } in together(budget) {
        // Pieces of one advice count together: an owner may run and wait in turn.
        let same = budget.iter().filter(|other| other.kind == slice.kind && other.tid == slice.tid);
        let ns = ns.max(same.map(|other| other.ns).sum());
        if ns.saturating_mul(100) < whole.saturating_mul(SHARE_MIN) {
            continue;
        }
        let first = segments.iter().find(|segment| segment.cause == slice.cause);
        let (cpu, at) = first.map_or((None, question.from), |segment| (segment.cpu, segment.from));
        let advice = Advisor { names, slice, cpu, at }.of_cause();
        let is_new = |text: &String| found.iter().all(|advice: &Advice| advice.try_this != *text);
        found.extend(advice.filter(is_new).map(|try_this| Advice { because: text, try_this }));
    }
    found.truncate(ADVICE_MAX);
    found
}

/// One cause, and where it was first.
struct Advisor<'a> {
    names: &'a StoryNames<'a>,
    slice: &'a Slice,
    cpu: Option<u32>,
    at: i64,
}

impl Advisor<'_> {
    fn of_cause(&self) -> Option<String> {
        match self.slice.cause {
            Cause::Thread { by } | Cause::RunQueue { by } => Some(self.behind(by)),
            Cause::PreemptionOff { by } if self.slice.ground == Ground::Inferred => Some(self.not_preempted(by)),
            Cause::IrqsOff { by } | Cause::PreemptionOff { by } => Some(self.off_by(by)),
            Cause::Interrupt(interrupt) => self.interrupted(interrupt),
            Cause::IdleExit if self.slice.ground == Ground::Inferred => Some(
                "no idle state takes so long: the host of a virtual machine that did not run the CPU, firmware, and \
                 throttling that no record shows look the same; record with -k sched,irq,timer -k power:cpu_idle, \
                 which tells whether the CPU went back to idle"
                    .to_owned(),
            ),
            Cause::IdleExit => Some(
                "keep the CPU out of deep idle states: hold /dev/cpu_dma_latency open with 0, or disable states; \
                 `kymo doctor` tells which the machine has"
                    .to_owned(),
            ),
            Cause::Fault => Some(
                "touch and lock memory before it matters: mlockall(MCL_CURRENT | MCL_FUTURE); files are read in \
                 advance by MAP_POPULATE or readahead"
                    .to_owned(),
            ),
            Cause::Throttled { limit, .. } => Some(self.throttled(limit)),
            Cause::Stopped { .. } => Some(self.stopped()),
            Cause::LockOwner { owner } | Cause::LockOwnerWaits { owner, .. } | Cause::LockOwnerSleeps { owner, .. } => {
                Some(self.lock(owner))
            }
            Cause::Firmware => Some(
                "`kymo hwlat` measures such gaps and counts system management interrupts; of a virtual machine ask its \
                 host"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn cpu_text(&self) -> String {
        self.cpu.map_or("the CPU".to_owned(), |cpu| format!("cpu {cpu}"))
    }

    fn shield(&self) -> String {
        self.cpu.map_or("`kymo shield CPU -- COMMAND`".to_owned(), |cpu| format!("`kymo shield {cpu} -- COMMAND`"))
    }

    /// Another thread had the CPU, and rightly so.
    fn behind(&self, by: i32) -> String {
        let name = self.names.thread(by);
        let (cpu, shield) = (self.cpu_text(), self.shield());
        if let Some(irq) = name.strip_prefix("irq/").and_then(|rest| rest.split('-').next()) {
            return format!(
                "an interrupt thread outranked it: `chrt -f -p PRIO {by}` below the waiting thread, or move the \
                 interrupt away: /proc/irq/{irq}/smp_affinity_list"
            );
        }
        if name.starts_with("ksoftirqd/") {
            return format!("softirqs were too many for their interrupt: move their device's interrupt off {cpu}");
        }
        if name.starts_with("kworker/u") {
            return format!(
                "keep unbound kernel workers off {cpu}: /sys/devices/virtual/workqueue/cpumask, or {shield}"
            );
        }
        let evidence = &self.names.scene.evidence;
        let own = self.names.scene.question.tid.and_then(|tid| evidence.prio(tid, self.at));
        match (own, evidence.prio_running(by, self.at)) {
            (Some(own), Some(other)) if other < own && other < 100 => format!(
                "{name} outranks it ({} before {}): give it less or the waiting thread more (`chrt`), or keep it off \
                 {cpu} ({shield})",
                priority(other),
                priority(own)
            ),
            (Some(own), Some(_)) if own >= 100 && self.slice.ground == Ground::Inferred => format!(
                "either both share the CPU ({shield} gives it one of its own), or {}",
                self.throttled(Limit::Quota)
            ),
            (Some(own), Some(_)) if own >= 100 => format!(
                "both share the CPU by time slices: a real-time priority (`chrt -f PRIO COMMAND`) or a CPU of its own \
                 ({shield}) ends that"
            ),
            (Some(own), Some(other)) if own == other => {
                "both have the same real-time priority, and the one that runs is not preempted: give the waiting one \
                 more"
                    .to_owned()
            }
            _ => format!("keep it off {cpu}: {shield}"),
        }
    }

    /// A lower thread kept the CPU, and no record says why.
    fn not_preempted(&self, by: i32) -> String {
        let rt = if self.names.scene.evidence.machine.is_preempt_rt { "" } else { ", or use a PREEMPT_RT kernel" };
        format!(
            "{} ranks lower and kept the CPU all the same: preemption or interrupts were off, or the switch was not \
             asked for in time; record with -k 'preemptirq:*'{rt}",
            self.names.thread(by)
        )
    }

    fn off_by(&self, tid: i32) -> String {
        format!(
            "{} is where interrupts or preemption stay off: its records in that time, or the kernel's irqsoff tracer \
             (`kymo explain REPORT` reads it), say in which function",
            self.names.thread(tid)
        )
    }

    fn interrupted(&self, interrupt: Interrupt) -> Option<String> {
        let cpu = self.cpu_text();
        match interrupt {
            Interrupt::Irq(number) => Some(format!(
                "move {} off {cpu}: /proc/irq/{number}/smp_affinity_list; `kymo shield` does it for all",
                self.names.interrupt(interrupt)
            )),
            Interrupt::Softirq(2 | 3) => Some(format!(
                "network softirqs follow their device's interrupt: move that off {cpu}, or lower \
                 net.core.netdev_budget_usecs"
            )),
            Interrupt::Softirq(_) => {
                Some(format!("softirqs run where they are raised: move their source off {cpu} (`kymo shield`)"))
            }
            Interrupt::Vector(0) => Some("the tick: nohz_full on that CPU, where it has one thread only".to_owned()),
            Interrupt::Vector(_) | Interrupt::Hard | Interrupt::Soft => None,
            Interrupt::Hrtimer(_) | Interrupt::Timer(_) => {
                Some(format!("timer calls run where the timer was started: start it on another CPU than {cpu}"))
            }
        }
    }

    fn throttled(&self, limit: Limit) -> String {
        let group = group_text(self.names.own_group());
        let server = self.cpu.map_or("cpuN".to_owned(), |cpu| format!("cpu{cpu}"));
        match limit {
            Limit::RealTime => format!(
                "kernel.sched_rt_runtime_us limits real-time threads (-1: no limit), and cpu.rt_runtime_us those of \
                 {group}"
            ),
            Limit::RealTimeGroup => format!("cpu.rt_runtime_us of {group} limits its real-time threads"),
            Limit::FairServer => format!(
                "/sys/kernel/debug/sched/fair_server/{server}/runtime gives normal threads their share (0: none); \
                 kernel.sched_rt_runtime_us limits real-time threads before Linux 6.12, and with CONFIG_RT_GROUP_SCHED"
            ),
            Limit::Deadline => "its work takes longer than the runtime that it asked for (sched_setattr)".to_owned(),
            Limit::Quota => {
                format!("cpu.max of {group}, or of one above it (cgroup v1: cpu.cfs_quota_us), is too small")
            }
        }
    }

    fn stopped(&self) -> String {
        match self.names.vocabulary.facts().signals {
            true => "a stopped thread runs again after SIGCONT, or when its debugger lets it".to_owned(),
            false => "who stops it: record with -k signal:signal_generate".to_owned(),
        }
    }

    fn lock(&self, owner: i32) -> String {
        let names = self.names;
        let (question, evidence) = (&names.scene.question, &names.scene.evidence);
        let name = names.thread(owner);
        let boost = evidence.boost(owner, question.from, question.to);
        let owns = match self.slice.cause {
            Cause::LockOwnerWaits { by: Some(by), .. } => format!("it waited while {} ran", names.thread(by)),
            Cause::LockOwnerSleeps { call, .. } => self.slept(call),
            _ => format!("it ran for {}", duration(self.slice.ns)),
        };
        if boost.is_some() || self.inherits() {
            let lent = boost.map_or(String::new(), |prio| format!(" ({name} got {})", priority(prio)));
            return format!("the lock lends its owner the priority{lent}, and it took long all the same: {owns}");
        }
        let own = names.own_prio();
        let lower = own.zip(evidence.prio(owner, self.at)).is_some_and(|(own, other)| own < 100 && other > own);
        match lower {
            true => format!(
                "{name} ranks lower and holds what is waited for: a mutex with PTHREAD_PRIO_INHERIT lends it the \
                 priority"
            ),
            false => format!("shorten what {name} does while it holds the lock: {owns}"),
        }
    }

    fn slept(&self, call: Option<CallId>) -> String {
        call.map_or("it slept".to_owned(), |call| format!("it slept in {}", self.names.call(call)))
    }

    /// The thread that is asked about waits with FUTEX_LOCK_PI.
    fn inherits(&self) -> bool {
        let (question, evidence) = (&self.names.scene.question, &self.names.scene.evidence);
        let Some(tid) = question.thread() else { return false };
        let mut spans = evidence.history().of_thread(tid, question.from, question.to);
        spans.any(|span| match span.doing {
            crate::span::Doing::Blocked { call, .. } => evidence.inherits(tid, call, span.from),
            _ => false,
        })
    }
}
