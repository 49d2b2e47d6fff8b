// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who used something, and whose use is asked for.

use crate::name::Name;
use crate::state::{State, Thread};

/// A thread as it was at a moment: one that takes another name is another actor from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Actor {
    /// Its process, where the trace tells.
    pub process: Option<i32>,
    /// Name of the process: that of its first thread. May be empty.
    pub process_name: Name,
    /// The thread.
    pub tid: i32,
    /// Its name; may be empty.
    pub name: Name,
}

impl Actor {
    /// A thread of which only the number is known.
    pub(super) fn bare(tid: i32) -> Actor {
        Actor { tid, ..Actor::default() }
    }

    /// A thread; the name of its process is `process_name` unless it is the process's first thread.
    pub(super) fn new(thread: &Thread, process_name: Name) -> Actor {
        let is_first = thread.process == Some(thread.tid);
        Actor {
            process: thread.process,
            process_name: if is_first { thread.name } else { process_name },
            tid: thread.tid,
            name: thread.name,
        }
    }

    /// The same where it does not matter what the process is called.
    pub(super) fn without_process_name(self) -> Actor {
        Actor { process_name: Name::default(), ..self }
    }

    /// A thread as a state knows it.
    pub(super) fn of(state: &State, tid: i32) -> Actor {
        let Some(thread) = state.thread(tid) else { return Actor::bare(tid) };
        let first = thread.process.and_then(|process| state.thread(process));
        Actor::new(thread, first.map(|first| first.name).unwrap_or_default())
    }
}

/// A thread or process by its number, or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Its number.
    Number(i32),
    /// Its name.
    Name(String),
}

impl Choice {
    /// From what a user types.
    pub fn parse(text: &str) -> Choice {
        text.parse().map_or_else(|_| Choice::Name(text.to_owned()), Choice::Number)
    }

    /// Whether it is the one of that number and name.
    pub(crate) fn is(&self, number: Option<i32>, name: Name) -> bool {
        match self {
            Choice::Number(wanted) => number == Some(*wanted),
            Choice::Name(wanted) => name.as_str() == wanted,
        }
    }
}

/// A stretch of time: [from, to), ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActorStretch {
    from: i64,
    to: i64,
}

impl ActorStretch {
    /// The part of [from, to) that is in it.
    pub fn cut(self, from: i64, to: i64) -> Option<(i64, i64)> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }
}

/// What is added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageScope {
    /// ns; `i64::MIN`: from the first event on.
    pub from: i64,
    /// ns, not included; `i64::MAX`: to the last record.
    pub to: i64,
    /// Only on these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Only by this thread.
    pub thread: Option<Choice>,
    /// Only by this process.
    pub process: Option<Choice>,
}

impl Default for UsageScope {
    fn default() -> UsageScope {
        UsageScope { from: i64::MIN, to: i64::MAX, cpus: None, thread: None, process: None }
    }
}

impl UsageScope {
    /// Everybody is asked for.
    pub fn is_everybody(&self) -> bool {
        self.thread.is_none() && self.process.is_none()
    }

    /// Whether a CPU is asked for.
    pub fn has_cpu(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// Whether a thread is asked for.
    pub fn wants(&self, actor: &Actor) -> bool {
        let is_thread = self.thread.as_ref().is_none_or(|wanted| wanted.is(Some(actor.tid), actor.name));
        is_thread && self.process.as_ref().is_none_or(|wanted| wanted.is(actor.process, actor.process_name))
    }

    /// The stretch of time.
    pub(super) fn stretch(&self) -> ActorStretch {
        ActorStretch { from: self.from, to: self.to }
    }

    /// Whether a moment is asked for.
    pub(super) fn has(&self, at: i64) -> bool {
        (self.from..self.to).contains(&at)
    }
}
