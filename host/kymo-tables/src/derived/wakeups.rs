// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `wakeups`: from a wake-up until the thread runs, and what that time went to.

use std::collections::{HashMap, VecDeque};

use kymo_analyze::{
    BudgetPart, CpuSpan, Doing, Doubt, History, Name, Ready, Share, Sink, State, Thread, ThreadSpan, Until, Waker,
};
use kymo_query::doing::{self, By};

use super::{Derive, Needs, Out, RowPlace, by_name, doubt, name, ns, walk};
use crate::emit::{Emit, Ended};
use crate::known::{Cell, Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const WAKEUPS: Known = Known {
    name: "wakeups",
    about: "Wake-ups: from when a thread is woken until it runs, who woke it, and what the wait went to (needs the \
            scheduler's events)",
    columns: columns! {
        "time" Time "When the thread was woken";
        "end_time" Time "When it ran; without cpu: when the trace ended";
        "duration_ns" Count "How long it waited, ns: the sum of what it went to";
        "tid" Id "The woken thread";
        "pid" Id "Its process";
        "name" Words "Its name";
        "prio" Signed "The kernel's priority";
        "cpu" Id "The CPU where it ran; none: it did not run before the trace ended";
        "by_tid" Id "Who woke it; 0: the idle thread";
        "by" Words "Its name, or the interrupt's";
        "by_cpu" Id "The CPU of who woke it";
        "preempted_ns" Count "Part of the wait in which another thread had the CPU, ns";
        "interrupt_ns" Count "Part in which the CPU was busy with interrupts and softirqs, ns";
        "idle_exit_ns" Count "Part in which the CPU had not come out of idle, ns";
        "switching_ns" Count "Part in which the CPU was between threads, ns";
        "unknown_ns" Count "The rest, ns: the trace does not tell";
        "cause" Words "The largest part: preempted, interrupt, idle_exit, switching, unknown";
        "cause_tid" Id "The thread of the largest part, where it is preempted";
        "cause_name" Words "Its name, or the interrupt's";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

/// First and last column of the budget.
const BUDGET: std::ops::RangeInclusive<usize> = 11..=18;

/// Stretches of a CPU that are kept: what a wait before them went to is not known.
const KEPT_MAX: usize = 4096;

struct Wait {
    /// The last stretch of the wait.
    span: ThreadSpan,
    name: Name,
    process: Option<i32>,
    prio: Option<i16>,
    waker: Waker,
    cpu: Option<u32>,
    /// Those before it, on other CPUs.
    before: Vec<ThreadSpan>,
}

struct Wakeups {
    with_budget: bool,
    cpus: HashMap<u32, VecDeque<CpuSpan>>,
    /// By thread: stretches of a wait that goes on on another CPU.
    moved: HashMap<i32, Vec<ThreadSpan>>,
    pending: Vec<Wait>,
}

impl Sink for Wakeups {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        let Doing::Runnable { why: Ready::Woken(waker) | Ready::New(waker), .. } = span.doing else { return };
        let cpu = match span.until {
            Until::Runs { cpu } => Some(cpu),
            Until::End => None,
            Until::Next => return self.moved.entry(span.tid).or_default().push(*span),
            Until::Woken(_) => return,
        };
        let before = self.moved.remove(&span.tid).unwrap_or_default();
        let (name, process, prio) = (thread.name, thread.process, thread.prio);
        self.pending.push(Wait { span: *span, name, process, prio, waker, cpu, before });
    }

    fn cpu(&mut self, span: &CpuSpan) {
        if !self.with_budget {
            return;
        }
        let kept = self.cpus.entry(span.cpu).or_default();
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(*span);
    }
}

/// What a wait went to.
#[derive(Default)]
struct Budget {
    preempted: u64,
    interrupt: u64,
    idle_exit: u64,
    switching: u64,
    unknown: u64,
    cause: &'static str,
    cause_tid: Option<i32>,
    cause_name: String,
}

impl Budget {
    fn of(shares: &[Share], state: &State) -> Budget {
        let mut budget = Budget::default();
        for share in shares {
            let (sum, word) = match share.part {
                BudgetPart::Preempted { by: Some(_) } => (&mut budget.preempted, "preempted"),
                BudgetPart::WaitInterrupt(_) => (&mut budget.interrupt, "interrupt"),
                BudgetPart::IdleExit => (&mut budget.idle_exit, "idle_exit"),
                BudgetPart::Switching => (&mut budget.switching, "switching"),
                _ => (&mut budget.unknown, "unknown"),
            };
            *sum += share.ns;
            // The largest is the first one.
            if budget.cause.is_empty() {
                budget.cause = word;
                match share.part {
                    BudgetPart::Preempted { by: Some(tid) } => {
                        budget.cause_tid = Some(tid);
                        budget.cause_name = name(state, Some(tid)).to_string();
                    }
                    BudgetPart::WaitInterrupt(interrupt) => budget.cause_name = interrupt.to_string(),
                    _ => {}
                }
            }
        }
        budget
    }
}

impl Wakeups {
    /// By the same rules as `kymo explain` of a stretch.
    fn shares(&self, wait: &Wait, thread: &Thread) -> Vec<Share> {
        let (from, to) = (wait.span.ready_from, wait.span.to);
        let mut history = History::new(from, to, usize::MAX);
        for span in wait.before.iter().chain([&wait.span]) {
            Sink::thread(&mut history, span, thread);
            let cpus = [doing::cpu(&span.doing).or(wait.cpu)];
            for kept in cpus.iter().flatten().filter_map(|cpu| self.cpus.get(cpu)) {
                let first = kept.partition_point(|of| of.to <= span.from);
                let touching = kept.range(first..).take_while(|of| of.from < span.to);
                touching.for_each(|of| Sink::cpu(&mut history, of));
            }
        }
        history.budget(wait.span.tid, from, to)
    }
}

impl Derive for Wakeups {
    fn flush(&mut self, out: &mut Out<'_>, state: &State) {
        for wait in std::mem::take(&mut self.pending) {
            let (from, to, tid) = (wait.span.ready_from, wait.span.to, wait.span.tid);
            if !out.wants(&RowPlace { from, to, cpu: wait.cpu, tid: Some(tid) }) {
                continue;
            }
            let budget = match self.with_budget {
                true => Budget::of(&self.shares(&wait, &Thread::unknown(tid, from)), state),
                false => Budget::default(),
            };
            let by = doing::by_waker(&wait.waker);
            out.push(&[
                from.into(),
                to.into(),
                ns(from, to),
                tid.into(),
                wait.process.into(),
                wait.name.as_str().into(),
                wait.prio.map(i64::from).into(),
                wait.cpu.into(),
                by.and_then(By::tid).into(),
                by_name(state, by).as_ref().into(),
                Some(wait.waker.cpu).filter(|cpu| *cpu != u32::MAX).into(),
                budget.preempted.into(),
                budget.interrupt.into(),
                budget.idle_exit.into(),
                budget.switching.into(),
                budget.unknown.into(),
                budget.cause.into(),
                budget.cause_tid.into(),
                Cell::from(budget.cause_name.as_str()),
                doubt(wait.span.doubt.without(Doubt::END)).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let with_budget = BUDGET.into_iter().any(|column| rows.has(column));
    let mut wakeups = Wakeups { with_budget, cpus: HashMap::new(), moved: HashMap::new(), pending: Vec::new() };
    walk(group, scan, rows, emit, &mut wakeups, Needs::Waits)
}
