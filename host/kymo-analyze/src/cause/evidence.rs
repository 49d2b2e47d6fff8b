// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of the records around a stretch: spans, and what no span tells of.

use crate::cause::limit::Group;
use crate::cause::stall::Times;
use crate::doubt::Doubt;
use crate::event::{CallId, Event, Interrupt, Off, Wake};
use crate::hash::Map;
use crate::history::History;
use crate::name::Name;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{Context, CpuSpan, Doing, InterruptSpan, OffSpan, Ready, ThreadSpan};
use crate::state::{Cpu, State, Thread, Threads};

/// Records of one kind that are kept at most.
const KEPT_MAX: usize = 1 << 20;
/// Signals that stop a thread: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const STOPS: std::ops::RangeInclusive<i32> = 19..=22;
/// A thread that was woken to be stopped runs for so long at most until it is, ns.
const STOP_NS: i64 = 1_000_000;
/// What a futex call does, without its flags, for a lock: waits, locks with priority inheritance.
const LOCKS: [u64; 3] = [0, 6, 13];
/// Those with priority inheritance.
const INHERITING: [u64; 2] = [6, 13];
const FUTEX_COMMAND: u64 = 0x7f;

/// A timer that is later came when its CPU went on after it had stood still, ns.
const LATE_QUOTA_NS: i64 = 1_000_000;

/// How long behind a stretch it is looked at which CPUs go to idle, ns: until the next quota.
const IDLE_AFTER_NS: i64 = 100_000_000;

/// The kernel's function that gives control groups their CPU quota anew.
pub const QUOTA_TIMER: &str = "sched_cfs_period_timer";

/// What the records do not say of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// It runs under a hypervisor: a CPU that stands still may be one that its host does not run.
    pub is_guest: bool,
    /// Version of its kernel, where it is known.
    pub kernel: Option<(u32, u32)>,
    /// Its kernel is a PREEMPT_RT one.
    pub is_preempt_rt: bool,
    /// Address of [`QUOTA_TIMER`], where it is known.
    pub quota_timer: Option<u64>,
}

impl Machine {
    /// By what `uname` says, as a trace's environment has it: release and version.
    pub fn of_uname(release: &str, version: &str) -> Machine {
        let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
        let kernel = numbers.next().flatten().zip(numbers.next().flatten());
        Machine {
            is_guest: false,
            kernel,
            is_preempt_rt: version.contains("PREEMPT_RT") || version.contains("PREEMPT RT"),
            quota_timer: None,
        }
    }
}

/// A CPU came to another frequency, and wrote so itself. The kernel writes the record when the processor has changed:
/// what lies between it and the CPU's record before it has the change in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) cpu: u32,
    pub(super) khz: u32,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Things of threads, each with its time, in the order of time.
type Told<T> = Map<i32, Vec<(i64, T)>>;

/// The records around stretches. A [`Sink`]: it takes what the state hands on.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub(crate) machine: Machine,
    pub(crate) history: History,
    pub(crate) times: Times,
    from: i64,
    to: i64,
    /// Page faults, and their addresses.
    faults: Told<u64>,
    /// Frequencies: time, CPU, kHz.
    frequencies: Vec<(i64, u32, u32)>,
    /// CPUs that changed their own frequency.
    pub(super) changes: Vec<Change>,
    /// Interrupts or preemption off, by CPU.
    offs: Map<(u32, Off), Vec<OffSpan>>,
    off_count: usize,
    /// Non-maskable interrupts by CPU: from, to.
    pub(super) nmis: Vec<(u32, i64, i64)>,
    prios: Told<i16>,
    names: Told<Name>,
    processes: Map<i32, i32>,
    /// Priorities that locks lent.
    boosts: Told<i16>,
    /// Who sent a signal that stops.
    stops: Told<i32>,
    /// When threads that were stopped were let go.
    freed: Told<()>,
    /// When threads were put to the queue of a CPU.
    queued: Told<()>,
    /// What threads do in futex calls.
    futexes: Told<u64>,
    futex: Option<CallId>,
    /// Calls that lock with priority inheritance, by when they end: since when, and who got the priority. While the
    /// owner runs, the kernel spins in them.
    spins: Told<(i64, i32)>,
    /// Such calls that have not ended.
    locking: Map<i32, (i64, Option<i32>)>,
    /// When a timer that woke a thread was due; by the time at which it did.
    dues: Told<i64>,
    /// When groups got their CPU quota anew.
    quotas: Vec<i64>,
    /// Those of them whose timer was not late, as far as that is known.
    quotas_in_time: Vec<i64>,
    /// When a CPU went to an idle state (true), and came out of one.
    idles: Map<u32, Vec<(i64, bool)>>,
    /// When a CPU switched to its idle thread.
    switched_to_idle: Map<u32, Vec<i64>>,
    handlers: Map<Interrupt, Name>,
    /// Control groups of threads.
    pub(super) groups: Map<i32, Group>,
    pub(crate) losses: Vec<(Option<u32>, i64, i64)>,
}

impl Evidence {
    /// Will keep at most `spans_max` spans that touch [from, to).
    pub fn new(from: i64, to: i64, spans_max: usize, machine: Machine) -> Evidence {
        Evidence {
            machine,
            history: History::new(from, to, spans_max),
            times: Times::new(from, to, spans_max),
            from,
            to,
            faults: Told::default(),
            frequencies: Vec::new(),
            changes: Vec::new(),
            offs: Map::default(),
            off_count: 0,
            nmis: Vec::new(),
            prios: Told::default(),
            names: Told::default(),
            processes: Map::default(),
            boosts: Told::default(),
            stops: Told::default(),
            freed: Told::default(),
            queued: Told::default(),
            futexes: Told::default(),
            futex: None,
            spins: Told::default(),
            locking: Map::default(),
            dues: Told::default(),
            quotas: Vec::new(),
            quotas_in_time: Vec::new(),
            idles: Map::default(),
            switched_to_idle: Map::default(),
            handlers: Map::default(),
            groups: Map::default(),
            losses: Vec::new(),
        }
    }

    /// The last time in [from, to] at which groups got their quota anew.
    pub(super) fn quota_given(&self, from: i64, to: i64) -> Option<i64> {
        let last = self.quotas.partition_point(|time| *time <= to).checked_sub(1)?;
        Some(self.quotas[last]).filter(|time| *time >= from)
    }

    /// The last time until then at which groups got their quota anew by a timer that was not late.
    pub(super) fn quota_given_in_time(&self, to: i64) -> Option<i64> {
        let last = self.quotas_in_time.partition_point(|time| *time <= to).checked_sub(1)?;
        Some(self.quotas_in_time[last])
    }

    /// Whether a CPU switched to its idle thread in [from, to); `None`: that is too far away to be known.
    pub(super) fn went_idle(&self, cpu: u32, from: i64, to: i64) -> Option<bool> {
        let told = self.switched_to_idle.get(&cpu).map_or(&[][..], Vec::as_slice);
        let is_known = to <= self.to.saturating_add(IDLE_AFTER_NS) && told.len() < KEPT_MAX;
        let first = told.partition_point(|at| *at < from);
        is_known.then(|| told.get(first).is_some_and(|at| *at < to))
    }

    /// What a CPU did in [from, to): it went to an idle state (true), or came out of one.
    pub(super) fn idle_states(&self, cpu: u32, from: i64, to: i64) -> impl Iterator<Item = bool> + '_ {
        let told = self.idles.get(&cpu).map_or(&[][..], Vec::as_slice);
        within(told, from, to).iter().map(|(_, enters)| *enters)
    }

    /// The spans.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// From when on there was too much to keep.
    pub fn full_from(&self) -> Option<i64> {
        self.history.full_from()
    }

    /// Priority of a thread at a time: the newest that was told until then, else the first that was told.
    pub fn prio(&self, tid: i32, at: i64) -> Option<i16> {
        newest(self.prios.get(&tid)?, at)
    }

    /// Name of a thread at a time; may be empty.
    pub fn name(&self, tid: i32, at: i64) -> Name {
        self.names.get(&tid).and_then(|told| newest(told, at)).unwrap_or_default()
    }

    /// The names that a thread had.
    pub(crate) fn names_of(&self, tid: i32) -> impl Iterator<Item = &str> {
        self.names.get(&tid).into_iter().flatten().map(|(_, name)| name.as_str())
    }

    /// The process of a thread.
    pub fn process(&self, tid: i32) -> Option<i32> {
        self.processes.get(&tid).copied()
    }

    /// Priority of a thread that runs at a time: no event tells of one that a thread gives itself, but when it leaves
    /// its CPU, it shows.
    pub(crate) fn prio_running(&self, tid: i32, at: i64) -> Option<i16> {
        let span = self.history.of_thread(tid, at, at.saturating_add(1)).next();
        let running = span.filter(|span| matches!(span.doing, Doing::Running { .. }));
        let when_it_left = running.and_then(|span| self.prio(tid, span.to));
        self.prio(tid, at).into_iter().chain(when_it_left).min()
    }

    /// The priority that a lock lent to a thread in [from, to).
    pub(crate) fn boost(&self, tid: i32, from: i64, to: i64) -> Option<i16> {
        let told = within(self.boosts.get(&tid)?, from, to);
        told.iter().map(|(_, prio)| *prio).min()
    }

    /// What the trace calls an interrupt; may be empty.
    pub(crate) fn handler(&self, interrupt: Interrupt) -> Name {
        self.handlers.get(&interrupt).copied().unwrap_or_default()
    }

    /// The frequency that a CPU came to in [from, to), if it changed.
    pub(super) fn frequency(&self, cpu: u32, from: i64, to: i64) -> Option<u32> {
        let of = |(at, number, _): &&(i64, u32, u32)| *number == cpu && (from..to).contains(at);
        self.frequencies.iter().rev().find(of).map(|(_, _, khz)| *khz)
    }

    /// Stretches of a CPU with interrupts or preemption off that touch [from, to).
    pub(crate) fn offs_of(&self, cpu: u32, from: i64, to: i64) -> impl Iterator<Item = &OffSpan> {
        let of = move |what| {
            let all = self.offs.get(&(cpu, what)).map_or(&[][..], Vec::as_slice);
            let first = all.partition_point(|span| span.to <= from);
            all[first..].iter().take_while(move |span| span.from < to)
        };
        of(Off::Irqs).chain(of(Off::Preemption))
    }

    /// Page faults of a thread in [from, to): time, address.
    pub(crate) fn faults_of(&self, tid: i32, from: i64, to: i64) -> impl Iterator<Item = (i64, u64)> {
        let all = self.faults.get(&tid).map_or(&[][..], Vec::as_slice);
        within(all, from, to).iter().copied()
    }

    /// Whether a thread that sleeps at a time went to sleep in a page fault: what the state has found.
    pub(super) fn sleeps_in_fault(&self, tid: i32, at: i64) -> bool {
        let span = self.history.of_thread(tid, at, at.saturating_add(1)).next();
        span.is_some_and(|span| matches!(span.doing, Doing::Blocked { in_fault: true, .. }))
    }

    /// When a thread was put to a queue within [from, to].
    pub(super) fn queued(&self, tid: i32, from: i64, to: i64) -> Option<i64> {
        within(self.queued.get(&tid)?, from, to.saturating_add(1)).first().map(|(at, ())| *at)
    }

    /// When the timer that woke a thread at that time was due.
    pub(super) fn due(&self, tid: i32, woken: i64) -> Option<i64> {
        let told = self.dues.get(&tid)?;
        let at = told.binary_search_by_key(&woken, |(time, _)| *time).ok()?;
        Some(told[at].1)
    }

    /// What a thread does in the futex call that it sleeps in from that time on.
    fn futex_of(&self, tid: i32, call: Option<CallId>, at: i64) -> Option<u64> {
        let told = self.futexes.get(&tid).filter(|_| call.is_some() && call == self.futex)?;
        newest(told, at).map(|operation| operation & FUTEX_COMMAND)
    }

    /// Whether it is a lock that a thread waits for in a call; a condition variable is none. `None`: not known.
    pub(super) fn waits_for_lock(&self, tid: i32, call: Option<CallId>, at: i64) -> Option<bool> {
        match call {
            Some(_) if call == self.futex => self.futex_of(tid, call, at).map(|operation| LOCKS.contains(&operation)),
            Some(_) => Some(false),
            None => None,
        }
    }

    /// Whether that lock lends its owner the priority of who waits for it.
    pub(crate) fn inherits(&self, tid: i32, call: Option<CallId>, at: i64) -> bool {
        self.futex_of(tid, call, at).is_some_and(|operation| INHERITING.contains(&operation))
    }

    /// Who stopped a thread, as far as it can be known: who sent the signal; who woke it so that it could stop; the
    /// debugger that let it go on.
    pub(super) fn stopper(
        &self,
        tid: i32,
        at: i64,
        (traced, continued_by): (bool, Option<i32>),
    ) -> (Option<i32>, crate::cause::Ground) {
        use crate::cause::Ground;
        // It may have been stopped before what is asked about.
        let since = self.history.of_thread(tid, at, at.saturating_add(1)).next().map_or(at, |span| span.from);
        // A signal from before it was stopped and let go another time has had its effect.
        let freed = self.freed.get(&tid).and_then(|told| {
            let before = told.partition_point(|(time, ())| *time <= since).checked_sub(1)?;
            Some(told[before].0)
        });
        let of_process = self.process(tid).filter(|process| *process != tid);
        let targets = || [Some(tid), of_process].into_iter().flatten();
        let sent = targets().filter_map(|target| {
            let told = self.stops.get(&target)?;
            let before = told.partition_point(|(time, _)| *time <= since).checked_sub(1)?;
            Some(told[before]).filter(|(time, _)| freed.is_none_or(|freed| *time >= freed))
        });
        if let Some((_, by)) = sent.max_by_key(|(time, _)| *time).filter(|_| !traced) {
            return (Some(by), Ground::Seen);
        }
        let spans = self.history.thread(tid);
        let before = spans.partition_point(|span| span.from < at);
        let ready = spans[..before].iter().rev().take(2).find_map(|span| match span.doing {
            Doing::Runnable { why: Ready::Woken(waker), .. } if at.saturating_sub(span.to) <= STOP_NS => Some(waker),
            _ => None,
        });
        let woken_by = match ready.map(|waker| waker.context) {
            Some(Context::Thread(by)) if !traced => Some(by),
            _ => None,
        };
        match woken_by.or(continued_by) {
            // That it was stopped is certain.
            None => (None, Ground::Seen),
            by => (by, Ground::Inferred),
        }
    }

    /// Where a thread that runs in [from, to) waits for a lock all the same: from, to, and the owner.
    pub(super) fn spins_of(&self, tid: i32, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, i32)> {
        let all = self.spins.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(end, _)| *end <= from);
        let near = all[first..].iter().take_while(move |(_, (begin, _))| *begin < to);
        near.map(move |(end, (begin, owner))| ((*begin).max(from), (*end).min(to), *owner))
    }

    /// A call begins or ends that may spin for a lock.
    fn locks(&mut self, tid: i32, event: &Event, at: i64) {
        match *event {
            Event::Call { call, args }
                if Some(call) == self.futex && INHERITING.contains(&(args[1] & FUTEX_COMMAND)) =>
            {
                self.locking.insert(tid, (at, None));
            }
            Event::Call { .. } | Event::Return { .. } => {
                if let Some((since, Some(owner))) = self.locking.remove(&tid) {
                    add(&mut self.spins, tid, at, (since, owner));
                }
            }
            _ => {}
        }
    }

    fn note_prio(&mut self, tid: i32, at: i64, prio: Option<i16>) {
        let Some(prio) = prio else { return };
        let told = self.prios.entry(tid).or_default();
        if told.last().is_none_or(|(_, last)| *last != prio) && told.len() < KEPT_MAX {
            told.push((at, prio));
        }
    }

    fn note_name(&mut self, tid: i32, at: i64, name: Name) {
        // The idle threads of all CPUs have one number.
        if name.is_empty() || tid == 0 {
            return;
        }
        let told = self.names.entry(tid).or_default();
        match told.last() {
            Some((_, last)) if *last == name => {}
            _ if told.len() >= KEPT_MAX => {}
            last => {
                let at = last.map_or(at, |(time, _)| at.max(*time));
                told.push((at, name));
            }
        }
    }

    fn is_near(&self, at: i64) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// What a thread does by itself: faults and calls.
    fn began(&mut self, tid: i32, event: &Event, at: i64) {
        let Event::Fault { address, .. } = *event else {
            self.locks(tid, event, at);
            if let Event::Call { call, args } = *event {
                if Some(call) == self.futex && self.is_near(at) {
                    add(&mut self.futexes, tid, at, args[1]);
                }
            }
            return;
        };
        if self.is_near(at) {
            add(&mut self.faults, tid, at, address);
        }
    }

    fn switched(&mut self, cpu: Option<u32>, event: &Event, at: i64) {
        let Event::Switch { prev, prev_prio, next, next_prio, .. } = *event else { return };
        if next == 0 && (self.from..=self.to.saturating_add(IDLE_AFTER_NS)).contains(&at) {
            let told = cpu.map(|cpu| self.switched_to_idle.entry(cpu).or_default());
            told.into_iter().filter(|told| told.len() < KEPT_MAX).for_each(|told| told.push(at));
        }
        self.note_prio(prev, at, prev_prio);
        self.note_prio(next, at, next_prio);
    }

    fn woken(&mut self, head: &Head, event: &Event, state: &State) {
        let Event::Wake { step, tid, prio, .. } = *event else { return };
        let at = head.time;
        self.note_prio(tid, at, prio);
        if self.is_near(at) && step == Wake::Wakeup {
            add(&mut self.queued, tid, at, ());
        }
        // A thread that sleeps at the end of the stretch is woken behind it.
        let last = self.dues.get(&tid).and_then(|told| told.last());
        let is_first_behind = at > self.to && last.is_none_or(|(last, _)| *last <= self.to);
        if self.is_near(at) || is_first_behind {
            let due = head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(Cpu::timer_due);
            due.into_iter().for_each(|due| add(&mut self.dues, tid, at, due));
        }
    }

    fn clocked(&mut self, head: &Head, event: &Event, before: Option<i64>) {
        let Event::Frequency { cpu, khz } = *event else { return };
        if self.frequencies.len() < KEPT_MAX {
            let changed = cpu.or(head.cpu);
            self.frequencies.extend(changed.map(|cpu| (head.time, cpu, khz)));
            let own = changed.filter(|_| changed == head.cpu).zip(before);
            self.changes.extend(own.map(|(cpu, from)| Change { cpu, khz, from, to: head.time }));
        }
    }
}

fn add<T>(told: &mut Told<T>, tid: i32, at: i64, what: T) {
    let list = told.entry(tid).or_default();
    if list.len() < KEPT_MAX {
        list.push((at, what));
    }
}

/// The newest until a time, else the first.
fn newest<T: Copy>(told: &[(i64, T)], at: i64) -> Option<T> {
    let next = told.partition_point(|(time, _)| *time <= at);
    told.get(next.saturating_sub(1)).map(|(_, what)| *what)
}

/// Those of [from, to).
fn within<T>(told: &[(i64, T)], from: i64, to: i64) -> &[(i64, T)] {
    let first = told.partition_point(|(time, _)| *time < from);
    let told = &told[first..];
    &told[..told.partition_point(|(time, _)| *time < to)]
}

impl Sink for Evidence {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        let at = head.time;
        let before = head.cpu.and_then(|cpu| self.times.last(cpu));
        if let Some(cpu) = head.cpu {
            self.times.note(cpu, at);
        }
        if let Event::Wake { cpu: Some(cpu), .. } | Event::Migrate { cpu, .. } = *event {
            self.times.name(cpu, at);
        }
        match *event {
            Event::Switch { next: tid, next_name: name, .. }
            | Event::Wake { tid, name, .. }
            | Event::Fork { child: tid, name, .. }
            | Event::Exec { tid, name, .. }
            | Event::Rename { tid: Some(tid), name, .. } => self.note_name(tid, at, name),
            _ => {}
        }
        self.futex = state.futex();
        let running = || head.tid.or(head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread()));
        match *event {
            Event::Switch { .. } => self.switched(head.cpu, event, at),
            Event::Wake { .. } => self.woken(head, event, state),
            Event::Priority { tid, prio } => {
                self.note_prio(tid, at, Some(prio));
                add(&mut self.boosts, tid, at, prio);
                if let Some((_, owner)) = running().and_then(|waiter| self.locking.get_mut(&waiter)) {
                    owner.get_or_insert(tid);
                }
            }
            Event::Fault { .. } | Event::Call { .. } | Event::Return { .. } => {
                running().into_iter().for_each(|tid| self.began(tid, event, at));
            }
            Event::Frequency { .. } => self.clocked(head, event, before),
            Event::TimerExpire { function, .. }
                if Some(function) == self.machine.quota_timer && self.is_near(at) && self.quotas.len() < KEPT_MAX =>
            {
                self.quotas.push(at);
                let is_late =
                    state.due_of(head.cpu, event, at).is_some_and(|due| at.saturating_sub(due) >= LATE_QUOTA_NS);
                self.quotas_in_time.extend((!is_late).then_some(at));
            }
            Event::Idle { cpu, state } => {
                let told = cpu.or(head.cpu).filter(|_| self.is_near(at)).map(|cpu| self.idles.entry(cpu).or_default());
                told.into_iter().filter(|told| told.len() < KEPT_MAX).for_each(|told| told.push((at, state.is_some())));
            }
            Event::Signal { tid, number } if STOPS.contains(&number) => {
                running().into_iter().for_each(|by| add(&mut self.stops, tid, at, by));
            }
            // The tracer has its own clock; the record stands at the end of the noise.
            Event::Noise { kind: "nmi", duration, .. } if self.nmis.len() < KEPT_MAX => {
                self.nmis.extend(head.cpu.map(|cpu| (cpu, at.saturating_sub(duration), at)));
            }
            _ => {}
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        // As it ends: what changed in it, events have told.
        self.note_name(span.tid, span.from, thread.name);
        if matches!(span.doing, Doing::Blocked { state: b'T' | b't', .. }) {
            add(&mut self.freed, span.tid, span.to, ());
        }
        if self.prios.get(&span.tid).is_none_or(Vec::is_empty) {
            self.note_prio(span.tid, span.from, thread.prio);
        }
        thread.process.into_iter().for_each(|process| {
            self.processes.insert(span.tid, process);
        });
        Sink::thread(&mut self.history, span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        Sink::cpu(&mut self.history, span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, _: Threads<'_>) {
        if !span.name.is_empty() {
            self.handlers.insert(span.interrupt, span.name);
        }
    }

    fn off(&mut self, span: &OffSpan, _: Threads<'_>) {
        let is_near = span.from <= self.to && span.to >= self.from;
        if is_near && !span.doubt.has(Doubt::IDLE) && self.off_count < KEPT_MAX {
            self.off_count += 1;
            self.offs.entry((span.cpu, span.what)).or_default().push(*span);
        }
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        if from <= self.to && to >= self.from && self.losses.len() < KEPT_MAX {
            self.losses.push((cpu, from, to));
        }
    }
}
