// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies [spec/analyze.md 5]: a sink that makes a series of each kind, by whatever they are of.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::CallId;
use crate::doubt::Doubt;
use crate::event::{Event, Interrupt, Io, Off};
use crate::hash::{Map, Open};
use crate::name::Name;
use crate::record::Head;
use crate::recorders::Recorders;
use crate::series::{Sample, Series};
use crate::sink::Sink;
use crate::span::{CallSpan, Context, Doing, InterruptSpan, OffSpan, Ready, ThreadSpan, Unmatched, Until, Waker};
use crate::state::{State, Thread, Threads, futex_waits};
use crate::usage::Choice;

/// Series that are kept apart at most; beyond, samples go to one without details.
const SERIES_MAX: usize = 4096;

macro_rules! kinds {
    ($(#[doc = $doc:literal] $what:ident $name:literal;)*) => {
        /// A kind of latency.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub enum What {
            $(#[doc = $doc] #[serde(rename = $name)] $what,)*
        }

        impl What {
            /// All kinds, with their names.
            pub const ALL: &[(What, &'static str)] = &[$((What::$what, $name)),*];
        }
    };
}

// A row of spec/analyze.md 5 each.
kinds! {
    /// From the wake-up of a thread until it runs.
    Wakeup "wakeup";
    /// From when a thread can run until it runs.
    Runqueue "runqueue";
    /// From when a thread is preempted until it runs again.
    Preempted "preempted";
    /// An interrupt of a device.
    Irq "irq";
    /// An interrupt of the processor's own.
    Vector "vector";
    /// From when a softirq is raised until it begins.
    SoftirqRaise "softirq-raise";
    /// A softirq.
    Softirq "softirq";
    /// From when a timer should expire until it does.
    Timer "timer";
    /// Interrupts off.
    IrqsOff "irqs-off";
    /// Preemption off.
    PreemptOff "preempt-off";
    /// A system call.
    Syscall "syscall";
    /// A futex call in which a thread was blocked.
    Futex "futex";
    /// A block request.
    Block "block";
    /// A packet, from the queue to the driver.
    Net "net";
    /// What the user names: begin and end.
    Span "span";
}

impl What {
    /// Its name.
    pub fn name(self) -> &'static str {
        What::ALL[self as usize].1
    }

    /// Whether it is a thread's. What interrupts and timers take is their CPU's, whichever thread was current.
    fn is_of_thread(self) -> bool {
        !matches!(self, What::Irq | What::Vector | What::SoftirqRaise | What::Softirq | What::Timer)
    }
}

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Of {
    /// Everything of its kind.
    All,
    /// An interrupt, and what the trace calls it.
    Interrupt(Interrupt, Name),
    /// A timer's function.
    Function(u64),
    /// A system call.
    Call(CallId),
    /// A block device: the kernel's number, `major << 20 | minor`.
    Device(u64),
    /// A network device.
    Interface(Name),
    /// The user's span of that number.
    Span(u16),
    /// The same, of one key, by the number that its giver knows it by.
    Keyed(u16, u32),
    /// What was too much to be kept apart.
    Others,
}

/// Which series a sample belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind.
    pub what: What,
    /// What it is of.
    pub of: Of,
    /// The process, where they are kept apart.
    pub process: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The priority.
    pub prio: Option<i16>,
    /// The CPU.
    pub cpu: Option<u32>,
}

/// What else is kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// Processes.
    pub process: bool,
    /// Threads.
    pub thread: bool,
    /// Priorities.
    pub prio: bool,
    /// CPUs.
    pub cpu: bool,
}

/// Which latencies, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kinds.
    pub what: Vec<What>,
    /// What else is kept apart.
    pub by: By,
    /// How many of the worst are kept.
    pub worst_max: usize,
    /// Only samples that begin at or after this time.
    pub from: i64,
    /// Only samples that begin before this time.
    pub to: i64,
    /// Whose own threads do not count.
    pub recorders: Recorders,
    /// Only of this thread.
    pub thread: Option<Choice>,
    /// Only of this process.
    pub process: Option<Choice>,
}

impl Default for Options {
    fn default() -> Options {
        let what = What::ALL.iter().map(|(what, _)| *what).collect();
        Options {
            what,
            by: By::default(),
            worst_max: 10,
            from: i64::MIN,
            to: i64::MAX,
            recorders: Recorders::default(),
            thread: None,
            process: None,
        }
    }
}

/// What was counted beside the series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Ends without beginnings.
    pub unmatched: BTreeMap<Unmatched, u64>,
    /// Beginnings without ends of block, network, and timers.
    pub open: u64,
    /// Beginnings that were too many.
    pub dropped: u64,
}

/// A request that has not been done.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: i64,
    tid: Option<i32>,
    name: Name,
}

/// Makes series of latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    options: Options,
    is_wanted: [bool; What::ALL.len()],
    index: Map<Key, usize>,
    series: Vec<(Key, Series)>,
    /// Timers that have been started when the names were taken last, and those that were too many.
    timers: (u64, u64),
    block: Open<(u64, u64), Begun>,
    net: Open<u64, Begun>,
    lost_until: i64,
    /// The same, of records of programs: only users' spans are made of these.
    spans_lost_until: i64,
    /// Samples count.
    is_taken: bool,
    /// Samples of which the state has to say whose process they are of, where one is asked for by its name.
    undecided: Vec<(What, Of, Sample)>,
    /// Samples since they were taken last, where they are asked for.
    samples: Option<Vec<(Key, Sample)>>,
    left: Left,
    /// Names of threads that stand in the lists of the worst and are not those of the sample.
    names: BTreeMap<i32, Name>,
    unnamed: Vec<i32>,
    /// Names of processes and of threads that are kept apart.
    processes: BTreeMap<i32, Name>,
    threads: BTreeMap<i32, Name>,
}

impl Latency {
    /// Nothing yet.
    pub fn new(options: Options) -> Latency {
        let mut is_wanted = [false; What::ALL.len()];
        options.what.iter().for_each(|what| is_wanted[*what as usize] = true);
        Latency {
            options,
            is_wanted,
            index: Map::default(),
            series: Vec::new(),
            timers: (0, 0),
            block: Open::default(),
            net: Open::default(),
            lost_until: i64::MIN,
            spans_lost_until: i64::MIN,
            is_taken: true,
            undecided: Vec::new(),
            samples: None,
            left: Left::default(),
            names: BTreeMap::new(),
            unnamed: Vec::new(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
        }
    }

    /// All series, by kind, what they are of, and what is kept apart.
    pub fn series(&self) -> Vec<(&Key, &Series)> {
        let mut all: Vec<_> = self.series.iter().map(|(key, series)| (key, series)).collect();
        all.sort_by_key(|(key, _)| **key);
        all
    }

    /// Name of a thread that woke one of the worst, or held its futex.
    pub fn name_of(&self, tid: i32) -> Name {
        self.names.get(&tid).copied().unwrap_or_default()
    }

    /// Name of a process that is kept apart: that of its first thread, else that of the first of its threads with a
    /// sample. May be empty.
    pub fn process_name(&self, process: i32) -> Name {
        self.processes.get(&process).copied().unwrap_or_default()
    }

    /// Newest name of a thread that is kept apart; may be empty.
    pub fn thread_name(&self, tid: i32) -> Name {
        self.threads.get(&tid).copied().unwrap_or_default()
    }

    /// Takes the names of processes that the state knows at the end.
    pub fn name_processes(&mut self, state: &State) {
        for (process, name) in &mut self.processes {
            let first = state.thread(*process).map(|thread| thread.name).filter(|name| !name.is_empty());
            *name = first.unwrap_or(*name);
        }
    }

    /// What was counted beside the series.
    pub fn left(&self) -> Left {
        let (timers, timers_dropped) = self.timers;
        Left {
            open: timers + self.block.len() as u64 + self.net.len() as u64,
            dropped: timers_dropped + self.block.dropped() + self.net.dropped(),
            ..self.left.clone()
        }
    }

    /// Takes the names that are still missing, and counts the timers that are open.
    pub fn finish(&mut self, state: &State) {
        self.decide(state);
        if self.wants(What::Timer) {
            self.timers = state.timers();
        }
        for tid in self.unnamed.drain(..) {
            let name = state.thread(tid).map(|thread| thread.name).unwrap_or_default();
            self.names.entry(tid).or_insert(name);
        }
    }

    /// Keeps each sample until [`Latency::samples`] takes it, for who draws them over time.
    pub fn keep_samples(&mut self) {
        self.samples.get_or_insert_default();
    }

    /// The samples since the last call, with the series that they are in; those of an idle CPU are in none.
    pub fn samples(&mut self) -> impl Iterator<Item = (Key, Sample)> + '_ {
        self.samples.iter_mut().flat_map(|samples| samples.drain(..))
    }

    /// Whether samples that end from here on count; for who chooses among the records that end them.
    pub fn take(&mut self, is_taken: bool) {
        self.is_taken = is_taken;
    }

    /// Records of a program are missing up to a time: begins and ends of users' spans may be among them.
    pub fn lost_of_programs(&mut self, to: i64) {
        self.spans_lost_until = self.spans_lost_until.max(to);
    }

    /// Takes a sample of a user's span. `key`: where keys are kept apart.
    pub fn span(&mut self, number: u16, key: Option<u32>, mut sample: Sample) {
        sample.doubt |= Doubt::LOST.when(sample.from < self.lost_until.max(self.spans_lost_until));
        let of = key.map_or(Of::Span(number), |key| Of::Keyed(number, key));
        self.sample(What::Span, of, &sample);
    }

    #[inline]
    fn wants(&self, what: What) -> bool {
        self.is_wanted[what as usize]
    }

    fn sample(&mut self, what: What, of: Of, sample: &Sample) {
        if !self.is_taken || sample.from < self.options.from || sample.from >= self.options.to {
            return;
        }
        let recorders = &self.options.recorders;
        if what.is_of_thread() && recorders.own(sample.tid, sample.process, sample.name.as_str()) {
            return;
        }
        if self.options.thread.as_ref().is_some_and(|wanted| !wanted.is(sample.tid, sample.name)) {
            return;
        }
        match &self.options.process {
            Some(Choice::Name(_)) => self.undecided.push((what, of, *sample)),
            Some(Choice::Number(wanted)) if sample.process != Some(*wanted) => {}
            _ => self.put(what, of, sample),
        }
    }

    /// Takes those of the process that is asked for by its name, which is that of its first thread.
    fn decide(&mut self, state: &State) {
        let Some(wanted) = self.options.process.clone() else { return };
        for (what, of, sample) in std::mem::take(&mut self.undecided) {
            let first = sample.process.and_then(|process| state.thread(process)).map(|thread| thread.name);
            let is_first = sample.tid.is_some() && sample.tid == sample.process;
            let name = if is_first { sample.name } else { first.unwrap_or_default() };
            if wanted.is(sample.process, name) {
                self.put(what, of, &sample);
            }
        }
    }

    fn put(&mut self, what: What, of: Of, sample: &Sample) {
        let by = self.options.by;
        let key = Key {
            what,
            of,
            process: sample.process.filter(|_| by.process),
            tid: sample.tid.filter(|_| by.thread),
            prio: sample.prio.filter(|_| by.prio),
            cpu: sample.cpu.filter(|_| by.cpu),
        };
        self.name(&key, sample);
        let index = self.place(key);
        if let Some(samples) = self.samples.as_mut().filter(|_| !sample.doubt.has(Doubt::IDLE)) {
            samples.push((self.series[index].0, *sample));
        }
        if self.series[index].1.add(sample, self.options.worst_max) {
            let waker = sample.waker.and_then(|waker| match waker.context {
                Context::Thread(tid) => Some(tid),
                _ => None,
            });
            self.unnamed.extend(waker.into_iter().chain(sample.owner));
        }
    }

    fn name(&mut self, key: &Key, sample: &Sample) {
        if sample.name.is_empty() {
            return;
        }
        if let Some(process) = key.process {
            let known = self.processes.entry(process).or_insert(sample.name);
            *known = if sample.tid == Some(process) { sample.name } else { *known };
        }
        if let Some(tid) = key.tid {
            self.threads.insert(tid, sample.name);
        }
    }

    fn place(&mut self, key: Key) -> usize {
        if let Some(&index) = self.index.get(&key) {
            return index;
        }
        let is_full = self.series.len() >= SERIES_MAX;
        let others = Key { of: Of::Others, process: None, tid: None, prio: None, cpu: None, ..key };
        let key = if is_full { others } else { key };
        let next = self.series.len();
        let index = *self.index.entry(key).or_insert(next);
        if index == next {
            self.series.push((key, Series::new()));
        }
        index
    }

    /// How late the timer was that woke a thread, ns; 0 if no timer did, or its start is not in the trace. `thread`: as
    /// it was in that wait.
    pub fn late_ns(span: &ThreadSpan, thread: &Thread) -> u64 {
        let by_timer = matches!(
            span.doing,
            Doing::Runnable { why: Ready::Woken(Waker { context: Context::Interrupt(Interrupt::Hrtimer(_)), .. }), .. }
        );
        let due = thread.due.filter(|_| by_timer);
        due.map_or(0, |due| span.ready_from.saturating_sub(due).max(0) as u64)
    }

    fn io(&mut self, head: &Head, event: &Event, state: &State) {
        let Event::Io { step, device, key, name, .. } = *event else { return };
        let tid = head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread()).or(head.tid);
        let begun = Begun { at: head.time, tid, name };
        match step {
            Io::BlockIssue if self.wants(What::Block) => self.block.replace((device, key), begun),
            Io::NetQueue if self.wants(What::Net) => self.net.replace(key, begun),
            Io::BlockComplete => {
                if let Some(begun) = self.block.pop(&(device, key)) {
                    self.done(What::Block, Of::Device(device), begun, head, state);
                }
            }
            Io::NetXmit => {
                if let Some(begun) = self.net.pop(&key) {
                    self.done(What::Net, Of::Interface(begun.name), begun, head, state);
                }
            }
            Io::BlockIssue | Io::NetQueue => {}
        }
    }

    fn done(&mut self, what: What, of: Of, begun: Begun, head: &Head, state: &State) {
        let doubt = Doubt::LOST.when(begun.at < self.lost_until);
        let thread = begun.tid.and_then(|tid| state.thread(tid));
        let sample = Sample { tid: begun.tid, doubt, ..sample(begun.at, head.time, thread, head.cpu) };
        self.sample(what, of, &sample);
    }

    fn timer(&mut self, head: &Head, event: &Event, state: &State) {
        let Event::TimerExpire { timer, function, now } = *event else { return };
        let Some(expires) = state.timer_due(timer) else { return };
        let value_ns = now.saturating_sub(expires).max(0) as u64;
        let thread = current(head, state).and_then(|tid| state.thread(tid));
        let from = head.time.saturating_sub_unsigned(value_ns);
        let doubt = Doubt::LOST.when(from < self.lost_until);
        let sample = Sample { value_ns, doubt, ..sample(from, head.time, thread, head.cpu) };
        self.sample(What::Timer, Of::Function(function), &sample);
    }
}

fn current(head: &Head, state: &State) -> Option<i32> {
    head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread())
}

/// A sample from one time to another; the rest is for the caller.
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

impl Sink for Latency {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if !self.undecided.is_empty() || !self.unnamed.is_empty() {
            self.finish(state);
        }
        match event {
            Event::Io { .. } => self.io(head, event, state),
            Event::TimerExpire { .. } if self.wants(What::Timer) => self.timer(head, event, state),
            _ => {}
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        let (Doing::Runnable { why, .. }, Until::Runs { cpu }) = (span.doing, span.until) else { return };
        let waker = match why {
            Ready::Woken(waker) | Ready::New(waker) => Some(waker),
            Ready::Preempted { .. } | Ready::GaveWay { .. } => None,
        };
        let doubt = span.doubt;
        let sample = Sample { waker, doubt, ..sample(span.ready_from, span.to, Some(thread), Some(cpu)) };
        if waker.is_some() && self.wants(What::Wakeup) {
            let late_ns = Latency::late_ns(span, thread);
            let (from, value_ns) = (sample.from.saturating_sub_unsigned(late_ns), sample.value_ns + late_ns);
            let from_due = Sample { late_ns, from, value_ns, ..sample };
            self.sample(What::Wakeup, Of::All, &from_due);
        }
        if matches!(why, Ready::Preempted { .. }) && self.wants(What::Preempted) {
            self.sample(What::Preempted, Of::All, &sample);
        }
        if self.wants(What::Runqueue) {
            self.sample(What::Runqueue, Of::All, &sample);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        let what = match span.interrupt {
            Interrupt::Irq(_) => What::Irq,
            Interrupt::Vector(_) => What::Vector,
            Interrupt::Softirq(_) => What::Softirq,
            Interrupt::Hrtimer(_) | Interrupt::Timer(_) | Interrupt::Hard | Interrupt::Soft => return,
        };
        let thread = thread_of(span.current, threads);
        let mut whole = sample(span.from, span.to, thread, Some(span.cpu));
        whole.doubt = span.doubt;
        whole.value_ns = whole.value_ns.saturating_sub(span.away_ns.max(0) as u64);
        let of = Of::Interrupt(span.interrupt, span.name);
        if self.wants(what) {
            self.sample(what, of, &whole);
        }
        if let Some(raised) = span.raised.filter(|_| self.wants(What::SoftirqRaise)) {
            let doubt = Doubt::LOST.when(raised < self.lost_until);
            let sample = Sample { doubt, ..sample(raised, span.from, thread, Some(span.cpu)) };
            self.sample(What::SoftirqRaise, of, &sample);
        }
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        let sample =
            Sample { owner: span.owner, doubt: span.doubt, ..sample(span.from, span.to, Some(thread), Some(span.cpu)) };
        if self.wants(What::Syscall) {
            self.sample(What::Syscall, Of::Call(span.call), &sample);
        }
        if self.wants(What::Futex) && span.is_futex && span.blocked && futex_waits(span.args[1]) {
            self.sample(What::Futex, Of::All, &sample);
        }
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        let what = match span.what {
            Off::Irqs => What::IrqsOff,
            Off::Preemption => What::PreemptOff,
        };
        if self.wants(what) {
            let thread = thread_of(span.current, threads);
            let sample = Sample { doubt: span.doubt, ..sample(span.from, span.to, thread, Some(span.cpu)) };
            self.sample(what, Of::All, &sample);
        }
    }

    fn lost(&mut self, _cpu: Option<u32>, _from: i64, to: i64) {
        self.lost_until = self.lost_until.max(to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        *self.left.unmatched.entry(of).or_default() += 1;
    }
}

fn thread_of(current: Context, threads: Threads<'_>) -> Option<&Thread> {
    match current {
        Context::Thread(tid) => threads.get(tid),
        _ => None,
    }
}
