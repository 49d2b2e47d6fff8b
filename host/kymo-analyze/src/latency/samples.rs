// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which spans are samples of which latencies [spec/analyze.md 5]. What becomes of the samples is for others.

use super::kinds::{Of, SampleGroup, What};
use crate::doubt::Doubt;
use crate::event::{Event, Interrupt, Io, Off};
use crate::hash::Open;
use crate::name::Name;
use crate::record::Head;
use crate::series::Sample;
use crate::span::{CallSpan, Context, Doing, InterruptSpan, OffSpan, Ready, ThreadSpan, Until, Waker};
use crate::state::{State, Thread, Threads, futex_waits};

/// A request of a device, by what its records have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// A block device, and the request.
    Block(u64, u64),
    /// A packet.
    Net(u64),
}

/// A request that has not been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// When it began, ns.
    pub at: i64,
    /// The thread that ran then.
    pub tid: Option<i32>,
    /// Of a packet: the network device.
    pub name: Name,
}

/// Who takes samples.
pub trait TakeSamples {
    /// A sample of these kinds.
    fn sample(&mut self, group: SampleGroup, of: Of, sample: &Sample);
    /// A request has begun.
    fn begun(&mut self, _request: &Request) {}
    /// A request that has begun is over, or begins anew.
    fn ended(&mut self, _request: &Request) {}
}

/// Makes samples of spans.
#[derive(Clone, Debug)]
pub struct Sampler {
    is_wanted: [bool; What::ALL.len()],
    block: Open<(u64, u64), Begun>,
    net: Open<u64, Begun>,
    lost_until: i64,
}

impl Sampler {
    /// Of these kinds.
    pub fn new(kinds: &[What]) -> Sampler {
        let mut is_wanted = [false; What::ALL.len()];
        kinds.iter().for_each(|what| is_wanted[*what as usize] = true);
        Sampler { is_wanted, block: Open::default(), net: Open::default(), lost_until: i64::MIN }
    }

    /// Whether it makes samples of a kind.
    #[inline]
    pub fn wants(&self, what: What) -> bool {
        self.is_wanted[what as usize]
    }

    #[inline]
    fn wants_some(&self, group: SampleGroup) -> bool {
        group.kinds().iter().any(|what| self.wants(*what))
    }

    /// Records of a kernel are missing up to a time.
    pub fn lost(&mut self, to: i64) {
        self.lost_until = self.lost_until.max(to);
    }

    /// Up to when records of a kernel are missing, ns.
    pub fn lost_until(&self) -> i64 {
        self.lost_until
    }

    /// Requests that have begun, and those that were too many.
    pub fn requests(&self) -> (u64, u64) {
        (self.block.len() as u64 + self.net.len() as u64, self.block.dropped() + self.net.dropped())
    }

    /// A request that has begun.
    pub fn request(&mut self, request: &Request) -> Option<Begun> {
        match *request {
            Request::Block(device, key) => self.block.newest_where(&(device, key), |_| true).copied(),
            Request::Net(key) => self.net.newest_where(&key, |_| true).copied(),
        }
    }

    /// A request begins, in place of what has begun with the same key.
    pub fn begin(&mut self, request: &Request, begun: Begun) {
        match *request {
            Request::Block(device, key) => self.block.replace((device, key), begun),
            Request::Net(key) => self.net.replace(key, begun),
        }
    }

    /// A request is over.
    pub fn end(&mut self, request: &Request) -> Option<Begun> {
        match *request {
            Request::Block(device, key) => self.block.pop(&(device, key)),
            Request::Net(key) => self.net.pop(&key),
        }
    }

    /// An event, before the state moves by it.
    #[inline]
    pub fn event(&mut self, head: &Head, event: &Event, state: &State, to: &mut impl TakeSamples) {
        match event {
            Event::Io { .. } => self.io(head, event, state, to),
            Event::TimerExpire { .. } if self.wants(What::Timer) => self.timer(head, event, state, to),
            _ => {}
        }
    }

    fn io(&mut self, head: &Head, event: &Event, state: &State, to: &mut impl TakeSamples) {
        let Event::Io { step, device, key, name, .. } = *event else { return };
        let (request, group) = match step {
            Io::BlockIssue | Io::BlockComplete => (Request::Block(device, key), SampleGroup::Block),
            Io::NetQueue | Io::NetXmit => (Request::Net(key), SampleGroup::Net),
        };
        if !self.wants_some(group) {
            return;
        }
        if let Io::BlockIssue | Io::NetQueue = step {
            if self.request(&request).is_some() {
                to.ended(&request);
            }
            let tid = head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread()).or(head.tid);
            self.begin(&request, Begun { at: head.time, tid, name });
            return to.begun(&request);
        }
        let Some(begun) = self.end(&request) else { return };
        to.ended(&request);
        let of = if group == SampleGroup::Block { Of::Device(device) } else { Of::Interface(begun.name) };
        let doubt = Doubt::LOST.when(begun.at < self.lost_until);
        let thread = begun.tid.and_then(|tid| state.thread(tid));
        let sample = Sample { tid: begun.tid, doubt, ..sample(begun.at, head.time, thread, head.cpu) };
        to.sample(group, of, &sample);
    }

    fn timer(&mut self, head: &Head, event: &Event, state: &State, to: &mut impl TakeSamples) {
        let Event::TimerExpire { timer, function, now } = *event else { return };
        let Some(expires) = state.timer_due(timer) else { return };
        let value_ns = now.saturating_sub(expires).max(0) as u64;
        let thread = current(head, state).and_then(|tid| state.thread(tid));
        let from = head.time.saturating_sub_unsigned(value_ns);
        let doubt = Doubt::LOST.when(from < self.lost_until);
        let sample = Sample { value_ns, doubt, ..sample(from, head.time, thread, head.cpu) };
        to.sample(SampleGroup::Timer, Of::Function(function), &sample);
    }

    /// A stretch of a thread is over.
    #[inline]
    pub fn thread(&self, span: &ThreadSpan, thread: &Thread, to: &mut impl TakeSamples) {
        let (Doing::Runnable { why, .. }, Until::Runs { cpu }) = (span.doing, span.until) else { return };
        let is_wanted = [What::Wakeup, What::Runqueue, What::Preempted].iter().any(|what| self.wants(*what));
        if !is_wanted {
            return;
        }
        let waker = match why {
            Ready::Woken(waker) | Ready::New(waker) => Some(waker),
            Ready::Preempted { .. } | Ready::GaveWay { .. } => None,
        };
        let doubt = span.doubt;
        let sample = Sample { waker, doubt, ..sample(span.ready_from, span.to, Some(thread), Some(cpu)) };
        let late_ns = if waker.is_some() { late_ns(span, thread) } else { 0 };
        let is_real_time = sample.is_real_time();
        match why {
            Ready::Woken(_) | Ready::New(_) if late_ns == 0 => {
                let group = if is_real_time { SampleGroup::WokenRealTime } else { SampleGroup::Woken };
                to.sample(group, Of::All, &sample);
            }
            Ready::Woken(_) | Ready::New(_) => {
                let (from, value_ns) = (sample.from.saturating_sub_unsigned(late_ns), sample.value_ns + late_ns);
                let group = if is_real_time { SampleGroup::WokenLateRealTime } else { SampleGroup::WokenLate };
                to.sample(group, Of::All, &Sample { late_ns, from, value_ns, ..sample });
                to.sample(SampleGroup::Waited, Of::All, &sample);
            }
            Ready::Preempted { .. } => to.sample(SampleGroup::Preempted, Of::All, &sample),
            Ready::GaveWay { .. } => to.sample(SampleGroup::Waited, Of::All, &sample),
        }
    }

    /// An interrupt is over.
    #[inline]
    pub fn interrupt(&self, span: &InterruptSpan, threads: Threads<'_>, to: &mut impl TakeSamples) {
        let group = match span.interrupt {
            Interrupt::Irq(_) => SampleGroup::Irq,
            Interrupt::Vector(_) => SampleGroup::Vector,
            Interrupt::Softirq(_) => SampleGroup::Softirq,
            Interrupt::Hrtimer(_) | Interrupt::Timer(_) | Interrupt::Hard | Interrupt::Soft => return,
        };
        let (is_wanted, raised) = (self.wants_some(group), span.raised.filter(|_| self.wants(What::SoftirqRaise)));
        if !is_wanted && raised.is_none() {
            return;
        }
        let thread = thread_of(span.current, threads);
        let mut whole = sample(span.from, span.to, thread, Some(span.cpu));
        whole.doubt = span.doubt;
        whole.value_ns = whole.value_ns.saturating_sub(span.away_ns.max(0) as u64);
        let of = Of::Interrupt(span.interrupt, span.name);
        if is_wanted {
            to.sample(group, of, &whole);
        }
        if let Some(raised) = raised {
            let doubt = Doubt::LOST.when(raised < self.lost_until);
            let sample = Sample { doubt, ..sample(raised, span.from, thread, Some(span.cpu)) };
            to.sample(SampleGroup::SoftirqRaise, of, &sample);
        }
    }

    /// A system call is over.
    #[inline]
    pub fn call(&self, span: &CallSpan, thread: &Thread, to: &mut impl TakeSamples) {
        let is_wait = span.is_futex && span.blocked && futex_waits(span.args[1]);
        let group = if is_wait { SampleGroup::Futex } else { SampleGroup::Syscall };
        if self.wants_some(group) {
            let whole = sample(span.from, span.to, Some(thread), Some(span.cpu));
            let sample = Sample { owner: span.owner, doubt: span.doubt, ..whole };
            to.sample(group, Of::Call(span.call), &sample);
        }
    }

    /// Interrupts or preemption are on again.
    #[inline]
    pub fn off(&self, span: &OffSpan, threads: Threads<'_>, to: &mut impl TakeSamples) {
        let group = match span.what {
            Off::Irqs => SampleGroup::IrqsOff,
            Off::Preemption => SampleGroup::PreemptOff,
        };
        if self.wants_some(group) {
            let thread = thread_of(span.current, threads);
            let sample = Sample { doubt: span.doubt, ..sample(span.from, span.to, thread, Some(span.cpu)) };
            to.sample(group, Of::All, &sample);
        }
    }
}

/// How late the timer was that woke a thread, ns; 0 if no timer did, or its start is not in the trace. `thread`: as it
/// was in that wait.
pub(super) fn late_ns(span: &ThreadSpan, thread: &Thread) -> u64 {
    let by_timer = matches!(
        span.doing,
        Doing::Runnable { why: Ready::Woken(Waker { context: Context::Interrupt(Interrupt::Hrtimer(_)), .. }), .. }
    );
    let due = thread.due.filter(|_| by_timer);
    due.map_or(0, |due| span.ready_from.saturating_sub(due).max(0) as u64)
}

fn current(head: &Head, state: &State) -> Option<i32> {
    head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread())
}

/// A sample from one time to another; the rest is for the caller.
#[inline]
fn sample(from: i64, to: i64, thread: Option<&Thread>, cpu: Option<u32>) -> Sample {
    Sample {
        value_ns: to.saturating_sub(from).max(0) as u64,
        from,
        to,
        tid: thread.map(|thread| thread.tid),
        process: thread.and_then(|thread| thread.process),
        name: thread.map(|thread| thread.name).unwrap_or_default(),
        prio: thread.and_then(|thread| thread.prio),
        cpu,
        waker: None,
        owner: None,
        doubt: Doubt::NONE,
        late_ns: 0,
    }
}

fn thread_of(current: Context, threads: Threads<'_>) -> Option<&Thread> {
    match current {
        Context::Thread(tid) => threads.get(tid),
        _ => None,
    }
}
