// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `wakeups`: from a wake-up until the thread runs, and what its CPU did meanwhile. It names no causes: those
//! need the records around each wait, and `kymo explain` and `kymo latency --explain` have the one engine for them
//! (kymo-analyze, `cause`). A CPU that idled may be one of a throttled thread; one that another thread had, one with
//! interrupts off.

use std::collections::{HashMap, VecDeque};

use kymo_analyze::{
    BudgetPart, CpuSpan, Doing, Doubt, History, Name, Ready, Recorders, Share, Sink, State, Thread, ThreadSpan, Until,
    Waker,
};
use kymo_feed::recorders;
use kymo_query::doing::{self, By};

use super::{Derive, Needs, Out, RowPlace, by_name, doubt, name, ns, walk};
use crate::emit::{Emit, Ended};
use crate::known::{Cell, Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const WAKEUPS: Known = Known {
    name: "wakeups",
    about: "Wake-ups: from when a thread is woken until it runs, who woke it, and what its CPU did meanwhile (needs the \
            scheduler's events); not of the recorder's own threads",
    columns: columns! {
        "time" Time "When the thread was woken";
        "end_time" Time "When it ran; without cpu: when the trace ended";
        "duration_ns" Count "How long it waited, ns: the sum of what its CPU did";
        "tid" Id "The woken thread";
        "pid" Id "Its process";
        "name" Words "Its name";
        "prio" Signed "The kernel's priority";
        "cpu" Id "The CPU where it ran; none: it did not run before the trace ended";
        "by_tid" Id "Who woke it; 0: the idle thread";
        "by" Words "Its name, or the interrupt's";
        "by_cpu" Id "The CPU of who woke it";
        "cpu_thread_ns" Count "Part of the wait in which another thread was on the CPU, ns";
        "cpu_interrupt_ns" Count "Part in which interrupts and softirqs were, ns";
        "cpu_idle_ns" Count "Part in which the idle thread was, ns";
        "cpu_leaving_ns" Count "Part in which the CPU had not left the thread itself yet, ns";
        "unknown_ns" Count "The rest, ns: the trace does not tell";
        "cpu_mostly" Words "What its CPU did for the largest part: thread, interrupt, idle, leaving, unknown; no cause: \
                            that is for kymo explain";
        "cpu_mostly_tid" Id "The other thread, where that is the largest part";
        "cpu_mostly_name" Words "Its name, or the interrupt's";
        "doubt" Words "What is doubtful about it: lost, start, end, clock, missed, guessed, idle, mixed";
        "host" Words "Machine that the trace is of";
    },
};

/// First and last column of what the CPU did.
const CPU_DID: std::ops::RangeInclusive<usize> = 11..=18;

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
    recorders: Recorders,
    with_cpu: bool,
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
        if self.recorders.own(Some(span.tid), process, name.as_str()) {
            return;
        }
        self.pending.push(Wait { span: *span, name, process, prio, waker, cpu, before });
    }

    fn cpu(&mut self, span: &CpuSpan) {
        if !self.with_cpu {
            return;
        }
        let kept = self.cpus.entry(span.cpu).or_default();
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(*span);
    }
}

/// What the CPU of a wait did, ns each.
#[derive(Default)]
struct CpuDid {
    thread: u64,
    interrupt: u64,
    idle: u64,
    leaving: u64,
    unknown: u64,
    mostly: &'static str,
    mostly_tid: Option<i32>,
    mostly_name: String,
}

impl CpuDid {
    fn of(shares: &[Share], state: &State) -> CpuDid {
        let mut did = CpuDid::default();
        for share in shares {
            let (sum, _) = did.part(share.part);
            *sum += share.ns;
        }
        // The parts are sums of several shares: the largest share is not always of the largest part.
        let sums = [did.thread, did.interrupt, did.idle, did.leaving, did.unknown];
        let largest = sums.into_iter().max().unwrap_or_default();
        for share in shares {
            let (sum, word) = did.part(share.part);
            if *sum == largest {
                did.mostly = word;
                match share.part {
                    BudgetPart::Preempted { by: Some(tid) } => {
                        did.mostly_tid = Some(tid);
                        did.mostly_name = name(state, Some(tid)).to_string();
                    }
                    BudgetPart::WaitInterrupt(interrupt) => did.mostly_name = interrupt.to_string(),
                    _ => {}
                }
                break;
            }
        }
        did
    }

    fn part(&mut self, part: BudgetPart) -> (&mut u64, &'static str) {
        match part {
            BudgetPart::Preempted { by: Some(_) } => (&mut self.thread, "thread"),
            BudgetPart::WaitInterrupt(_) => (&mut self.interrupt, "interrupt"),
            BudgetPart::IdleExit => (&mut self.idle, "idle"),
            BudgetPart::Switching => (&mut self.leaving, "leaving"),
            _ => (&mut self.unknown, "unknown"),
        }
    }
}

impl Wakeups {
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
            let did = match self.with_cpu {
                true => CpuDid::of(&self.shares(&wait, &Thread::unknown(tid, from)), state),
                false => CpuDid::default(),
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
                did.thread.into(),
                did.interrupt.into(),
                did.idle.into(),
                did.leaving.into(),
                did.unknown.into(),
                did.mostly.into(),
                did.mostly_tid.into(),
                Cell::from(did.mostly_name.as_str()),
                doubt(wait.span.doubt.without(Doubt::END)).as_ref().into(),
                out.group.host.as_str().into(),
            ]);
        }
    }
}

pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let with_cpu = CPU_DID.into_iter().any(|column| rows.has(column));
    let (cpus, moved, pending) = (HashMap::new(), HashMap::new(), Vec::new());
    let mut wakeups = Wakeups { recorders: recorders(&group.traces), with_cpu, cpus, moved, pending };
    walk(group, scan, rows, emit, &mut wakeups, Needs::Waits)
}
