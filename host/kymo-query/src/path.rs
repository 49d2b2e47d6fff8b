// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the steps of a critical path are called: the same for `kymo critical` and for the question of that name.

use kymo_analyze::cause::Evidence;
use kymo_analyze::{Act, CallId, Context, PathStep, Ready, Vocabulary, Waker};

use crate::names::FunctionNames;

/// Names for a critical path.
#[derive(Clone, Copy)]
pub struct PathNames<'a> {
    /// Names of threads.
    pub evidence: &'a Evidence,
    /// System calls.
    pub vocabulary: &'a Vocabulary,
    /// Functions of timers.
    pub functions: &'a dyn FunctionNames,
    /// Threads have the names that they have then: the end of the stretch, but see [`PathNames::of`].
    pub at: i64,
}

impl PathNames<'_> {
    /// The same with the names of a step's moment: its begin, or the end of what a thread was blocked in.
    #[must_use]
    pub fn of(&self, step: &PathStep) -> Self {
        let at = match step.act {
            Act::Blocked { .. } => step.to.saturating_sub(1).max(step.from),
            _ => step.from,
        };
        PathNames { at, ..*self }
    }

    /// What a step is.
    pub fn act(&self, act: Act) -> String {
        match act {
            Act::Runs { cpu } => format!("runs on cpu {cpu}"),
            Act::Waits { why, cpu } => {
                let on = cpu.map_or(String::new(), |cpu| format!(" {cpu}"));
                let why = match why {
                    Ready::Woken(by) | Ready::New(by) => format!("woken by {}", self.waker(&by)),
                    Ready::Preempted { by } => format!("preempted by {}", self.thread(by)),
                    Ready::GaveWay { to } => format!("gave way to {}", self.thread(to)),
                };
                format!("waits for cpu{on}, {why}")
            }
            Act::Blocked { in_fault: true, waker, .. } => {
                let by = waker.map_or(String::new(), |by| format!(", woken by {}", self.waker(&by)));
                format!("blocked in a page fault{by}")
            }
            Act::Blocked { state, call, waker, .. } => self.blocked(state, call, waker),
            Act::Unknown => "not known".to_owned(),
        }
    }

    /// The kind of a step, in a word.
    pub fn word(act: Act) -> &'static str {
        match act {
            Act::Runs { .. } => "runs",
            Act::Waits { .. } => "waits",
            Act::Blocked { .. } => "blocked",
            Act::Unknown => "unknown",
        }
    }

    fn blocked(&self, state: u8, call: Option<CallId>, by: Option<Waker>) -> String {
        let call = call.map_or(String::new(), |call| format!(" in {}", self.vocabulary.call_name(call)));
        let by = by.map_or(String::new(), |by| format!(", woken by {}", self.waker(&by)));
        match state {
            b'D' => format!("blocked uninterruptibly{call}{by}"),
            b'T' => format!("stopped by a signal{by}"),
            b't' => format!("stopped under a debugger{by}"),
            _ => format!("blocked{call}{by}"),
        }
    }

    fn waker(&self, waker: &Waker) -> String {
        let what = match waker.context {
            Context::Unknown => "somebody".to_owned(),
            Context::Idle => "the idle CPU".to_owned(),
            Context::Thread(tid) => self.thread(tid),
            Context::Interrupt(interrupt) => self.functions.interrupt(interrupt),
        };
        if waker.cpu == u32::MAX { what } else { format!("{what} on cpu {}", waker.cpu) }
    }

    /// Name and number of a thread.
    pub fn thread(&self, tid: i32) -> String {
        let name = self.evidence.name(tid, self.at);
        match tid {
            0 => "idle".to_owned(),
            _ if name.is_empty() => format!("thread {tid}"),
            _ => format!("{name}[{tid}]"),
        }
    }
}
