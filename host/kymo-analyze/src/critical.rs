// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread waited for, across threads and CPUs [spec/analyze.md 7].

use crate::CallId;
use crate::doubt::Doubt;
use crate::history::History;
use crate::span::{Context, Doing, Ready, ThreadSpan, Until, Waker};

/// Threads that wait for each other are followed so deep.
const DEPTH_MAX: usize = 64;
/// Steps of a path at most.
const STEPS_MAX: usize = 100_000;

/// What a thread of the path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It runs.
    Runs {
        /// On this CPU.
        cpu: u32,
    },
    /// It waits for a CPU.
    Waits {
        /// Why it can run.
        why: Ready,
        /// The CPU.
        cpu: Option<u32>,
    },
    /// It waits for what is no thread, or what is not known.
    Blocked {
        /// The kernel's letter.
        state: u8,
        /// The system call it is in.
        call: Option<CallId>,
        /// It sleeps in a page fault.
        in_fault: bool,
        /// Who ended that.
        waker: Option<Waker>,
    },
    /// Not known.
    Unknown,
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The thread.
    pub tid: i32,
    /// What it does.
    pub act: Act,
    /// How many threads wait for this one, one for the other.
    pub depth: usize,
    /// Who waits for it; none: it is the thread that is asked about.
    pub waiter: Option<i32>,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// What [from, to) of a thread depended on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// In the order of time, without gap and overlap.
    pub steps: Vec<PathStep>,
    /// There were too many steps: the first one is the rest, and has the mark [`Doubt::CUT`].
    pub is_cut: bool,
}

/// A thread that is followed backwards to `low`.
#[derive(Clone, Copy)]
struct Follow {
    tid: i32,
    low: i64,
}

impl History {
    /// The critical path of [from, to) of a thread.
    pub fn critical(&self, tid: i32, from: i64, to: i64) -> Path {
        let mut walk = Walk { stack: vec![Follow { tid, low: from }], at: to.max(from), steps: Vec::new() };
        while let Some(&follow) = walk.stack.last() {
            if walk.at <= follow.low {
                walk.stack.pop();
                continue;
            }
            if walk.steps.len() >= STEPS_MAX {
                walk.stack.truncate(1);
                walk.step(from, tid, Act::Unknown, Doubt::CUT);
                walk.steps.reverse();
                return Path { steps: walk.steps, is_cut: true };
            }
            self.step_back(follow, &mut walk);
        }
        walk.steps.reverse();
        Path { steps: walk.steps, is_cut: false }
    }

    fn step_back(&self, follow: Follow, walk: &mut Walk) {
        let Follow { tid, low } = follow;
        let spans = self.thread(tid);
        // The last span that begins before this moment and is not empty.
        let behind = spans.partition_point(|span| span.from < walk.at);
        let Some(span) = spans[..behind].iter().rev().find(|span| span.to > span.from) else {
            return walk.step(low, tid, Act::Unknown, Doubt::START);
        };
        if span.to < walk.at {
            return walk.step(span.to.max(low), tid, Act::Unknown, Doubt::MISSED);
        }
        let begin = span.from.max(low);
        match span.doing {
            Doing::Running { cpu } => walk.step(begin, tid, Act::Runs { cpu }, span.doubt),
            Doing::Runnable { why, cpu } => walk.step(begin, tid, Act::Waits { why, cpu }, span.doubt),
            Doing::Blocked { .. } | Doing::Forked => match waking_thread(span, walk) {
                Some(waker) if walk.stack.len() < DEPTH_MAX => walk.stack.push(Follow { tid: waker, low: begin }),
                waker => {
                    let act = match span.doing {
                        Doing::Blocked { state, call, in_fault } => {
                            Act::Blocked { state, call, in_fault, waker: waker_of(span) }
                        }
                        _ => Act::Unknown,
                    };
                    walk.step(begin, tid, act, span.doubt | Doubt::CUT.when(waker.is_some()));
                }
            },
            Doing::Unknown | Doing::Ended => walk.step(begin, tid, Act::Unknown, span.doubt),
        }
    }
}

/// The thread that ended a wait at this very moment, if it is one to follow.
fn waking_thread(span: &ThreadSpan, walk: &Walk) -> Option<i32> {
    let Context::Thread(waker) = waker_of(span)?.context else { return None };
    let is_new = walk.stack.iter().all(|follow| follow.tid != waker);
    (span.to == walk.at && is_new).then_some(waker)
}

fn waker_of(span: &ThreadSpan) -> Option<Waker> {
    match span.until {
        Until::Woken(waker) => Some(waker),
        _ => None,
    }
}

/// The way back: steps behind each other, the last first.
struct Walk {
    stack: Vec<Follow>,
    at: i64,
    steps: Vec<PathStep>,
}

impl Walk {
    fn step(&mut self, from: i64, tid: i32, act: Act, doubt: Doubt) {
        let depth = self.stack.len().saturating_sub(1);
        let waiter = depth.checked_sub(1).and_then(|above| self.stack.get(above)).map(|follow| follow.tid);
        let same = |last: &&mut PathStep| (last.tid, last.act, last.depth, last.waiter) == (tid, act, depth, waiter);
        match self.steps.last_mut().filter(same) {
            Some(last) => (last.from, last.doubt) = (from, last.doubt | doubt),
            None => self.steps.push(PathStep { from, to: self.at, tid, act, depth, waiter, doubt }),
        }
        self.at = from;
    }
}
