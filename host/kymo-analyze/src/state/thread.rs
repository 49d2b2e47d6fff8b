// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of one thread, and of all of them.

use super::cpu::Frame;
use super::fault::Fault;
use crate::doubt::Doubt;
use crate::event::CallId;
use crate::hash::Map;
use crate::name::Name;
use crate::span::{Doing, Ready, ThreadSpan, Until, Waker};

/// Threads that are followed at most at a time.
pub(super) const THREADS_MAX: usize = 1 << 18;

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its process, where the trace tells.
    pub process: Option<i32>,
    /// Its name; may be empty.
    pub name: Name,
    /// The kernel's priority, where the trace tells.
    pub prio: Option<i16>,
    /// What it does.
    pub doing: Doing,
    /// Since when, ns.
    pub since: i64,
    /// Since when it can run, ns; `since` where it does not wait for a CPU.
    pub ready_from: i64,
    /// What is doubtful about what it does.
    pub doubt: Doubt,
    /// The system call it is in.
    pub call: Option<Call>,
    /// A page fault that it is in, as far as records tell: nothing has come since of what it began by itself.
    pub(crate) fault: Option<Fault>,
    /// It was woken while it ran, and `sched_wakeup` has not come.
    pub(crate) woken: Option<(Waker, i64)>,
    /// When the timer was due that woke it last; none: no timer did, or its start is not known.
    pub(crate) due: Option<i64>,
    /// Softirqs and timer calls that it was switched away from.
    pub(crate) frames: Vec<Frame>,
    /// It was made, and returns from the system call that made it: of that it has no entry.
    pub(crate) is_fresh: bool,
    /// An event of the kernel has told of it, and wins over a dump.
    pub(crate) told: bool,
    /// `task_newtask` has told of it, and the fork that tells of the same thread has not come.
    pub(crate) is_created: bool,
}

/// Who a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its process, where the trace tells.
    pub process: Option<i32>,
    /// Its name; may be empty.
    pub name: Name,
}

impl Identity {
    /// A record calls the thread so, which tells of no new name. Where it was called otherwise, another thread may have
    /// its number: the process is not known then, unless `may_be_new`.
    pub fn call(&mut self, name: Name, may_be_new: bool) {
        if name.is_empty() || name == self.name {
            return;
        }
        let is_explained = may_be_new || self.name.is_empty();
        *self = Identity { process: self.process.filter(|_| is_explained), name };
    }

    /// The state dump has found a thread of this number. What events have told wins. `is_same`: it is this thread, by
    /// whatever name.
    pub(crate) fn find(&mut self, dumped: Identity, is_same: bool) {
        if self.name.is_empty() {
            self.name = dumped.name;
        }
        if is_same || self.name == dumped.name {
            self.process = self.process.or(dumped.process);
        }
    }
}

/// A system call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub call: CallId,
    /// Its first two arguments.
    pub args: [u64; 2],
    /// ns.
    pub since: i64,
    /// The thread was blocked in it.
    pub blocked: bool,
    /// Of a futex: who woke the thread in a futex call on the same address.
    pub owner: Option<i32>,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

impl Thread {
    /// A thread of which nothing is known.
    pub fn unknown(tid: i32, at: i64) -> Thread {
        Thread::new(tid, at)
    }

    pub(super) fn new(tid: i32, at: i64) -> Thread {
        Thread {
            tid,
            process: None,
            name: Name::default(),
            prio: None,
            doing: Doing::Unknown,
            since: at,
            ready_from: at,
            doubt: Doubt::START,
            call: None,
            fault: None,
            woken: None,
            due: None,
            frames: Vec::new(),
            is_fresh: false,
            told: false,
            is_created: false,
        }
    }

    /// Who it is; nobody where it has ended.
    pub fn identity(&self) -> Identity {
        match self.doing {
            Doing::Ended => Identity::default(),
            _ => Identity { process: self.process, name: self.name },
        }
    }

    fn set_identity(&mut self, identity: Identity) {
        (self.process, self.name) = (identity.process, identity.name);
    }

    /// A record calls it so, which tells of no new name; see [`Identity::call`].
    #[inline]
    pub(crate) fn call_it(&mut self, name: Name, prio: Option<i16>, may_be_new: bool) {
        if name != self.name && !name.is_empty() || self.doing == Doing::Ended {
            let mut identity = self.identity();
            identity.call(name, may_be_new);
            self.set_identity(identity);
        }
        (self.prio, self.told) = (prio.or(self.prio), true);
    }

    /// The state dump has found it.
    pub(crate) fn find(&mut self, dumped: Identity, prio: Option<i16>, is_same: bool) {
        let mut identity = self.identity();
        identity.find(dumped, is_same);
        self.set_identity(identity);
        self.prio = self.prio.or(prio);
    }

    /// Takes name and priority where they are told.
    #[inline]
    pub(crate) fn learn(&mut self, name: Name, prio: Option<i16>) {
        if !name.is_empty() {
            self.name = name;
        }
        self.prio = prio.or(self.prio);
        self.told = true;
    }

    /// Ends the stretch, and begins one of `doing`. Gives the span that is over, if it has a length or was a wait for
    /// a CPU.
    #[inline]
    pub(crate) fn becomes(&mut self, doing: Doing, at: i64, until: Until, lost_until: i64) -> Option<ThreadSpan> {
        let doubt = self.doubt | Doubt::LOST.when(self.since < lost_until);
        let was_ready = matches!(self.doing, Doing::Runnable { .. });
        let span = ThreadSpan {
            tid: self.tid,
            from: self.since,
            to: at,
            doing: self.doing,
            ready_from: self.ready_from,
            until,
            doubt,
        };
        (self.doing, self.since, self.ready_from, self.doubt) = (doing, at, at, Doubt::NONE);
        // What it does when it runs again, no record tells.
        self.fault = None;
        (at > span.from || was_ready).then_some(span)
    }

    /// The same for a wait that goes on, on another CPU.
    #[inline]
    pub(crate) fn moves(&mut self, cpu: u32, at: i64, lost_until: i64) -> Option<ThreadSpan> {
        let Doing::Runnable { why, cpu: before } = self.doing else { return None };
        if before == Some(cpu) {
            return None;
        }
        let (since, ready_from) = (self.since, self.ready_from);
        if at == since {
            self.doing = Doing::Runnable { why, cpu: Some(cpu) };
            return None;
        }
        let span = self.becomes(Doing::Runnable { why, cpu: Some(cpu) }, at, Until::Next, lost_until);
        self.ready_from = ready_from;
        self.doubt = span.map_or(Doubt::NONE, |span| span.doubt);
        span
    }

    /// Whether it waits because of a wake-up.
    #[inline]
    pub fn is_woken(&self) -> bool {
        matches!(self.doing, Doing::Runnable { why: Ready::Woken(_) | Ready::New(_), .. })
    }
}

/// All threads that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    threads: Vec<Thread>,
    by_tid: Map<i32, u32>,
    /// Where threads were found that were asked for lately, by the low bits of their tids: may be out of date.
    recent: Recent,
    /// Threads that were too many to be followed.
    left_out: u64,
}

/// Threads that are found again without the map: each event asks several times for the same two.
const RECENT: usize = 512;

#[derive(Clone)]
struct Recent(Box<[u32; RECENT]>);

impl std::fmt::Debug for Recent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent(Box::new([0; RECENT]))
    }
}

impl Table {
    #[inline]
    fn index(&self, tid: i32) -> Option<usize> {
        let guess = self.recent.0[tid as usize % RECENT] as usize;
        match self.threads.get(guess) {
            Some(thread) if thread.tid == tid => Some(guess),
            _ => self.by_tid.get(&tid).map(|&index| index as usize),
        }
    }

    /// The same, and remembers it.
    #[inline]
    fn find(&mut self, tid: i32) -> Option<usize> {
        let index = self.index(tid)?;
        self.recent.0[tid as usize % RECENT] = index as u32;
        Some(index)
    }

    #[inline]
    pub fn get(&self, tid: i32) -> Option<&Thread> {
        self.index(tid).map(|index| &self.threads[index])
    }

    #[inline]
    pub fn get_mut(&mut self, tid: i32) -> Option<&mut Thread> {
        self.find(tid).map(|index| &mut self.threads[index])
    }

    /// A thread, as unknown from `at` on where it was not known. None for the idle thread, and where there are too
    /// many.
    #[inline]
    pub fn entry(&mut self, tid: i32, at: i64) -> Option<&mut Thread> {
        if let Some(index) = self.find(tid) {
            return Some(&mut self.threads[index]);
        }
        if tid <= 0 || self.threads.len() >= THREADS_MAX {
            self.left_out += u64::from(tid > 0);
            return None;
        }
        self.by_tid.insert(tid, self.threads.len() as u32);
        self.threads.push(Thread::new(tid, at));
        self.threads.last_mut()
    }

    /// Puts a whole thread. `None` where its number is none, or is there already.
    pub fn put(&mut self, thread: Thread) -> Option<()> {
        let index = u32::try_from(self.threads.len()).ok()?;
        if thread.tid <= 0 || self.by_tid.insert(thread.tid, index).is_some() {
            return None;
        }
        self.threads.push(thread);
        Some(())
    }

    pub fn remove(&mut self, tid: i32) -> Option<Thread> {
        let index = self.by_tid.remove(&tid)? as usize;
        let thread = self.threads.swap_remove(index);
        if let Some(moved) = self.threads.get(index) {
            self.by_tid.insert(moved.tid, index as u32);
        }
        Some(thread)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.threads.iter_mut()
    }

    pub fn len(&self) -> usize {
        self.threads.len()
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    pub fn set_left_out(&mut self, left_out: u64) {
        self.left_out = left_out;
    }
}

/// The same threads in the same state; in which order they came to be known does not matter.
impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.threads.len() == other.threads.len() && self.iter().all(|thread| other.get(thread.tid) == Some(thread))
    }
}

/// The threads that are known, while the state moves.
#[derive(Clone, Copy)]
pub struct Threads<'a>(pub(super) &'a Table);

impl<'a> Threads<'a> {
    /// A thread.
    pub fn get(&self, tid: i32) -> Option<&'a Thread> {
        self.0.get(tid)
    }
}
