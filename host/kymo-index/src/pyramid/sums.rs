// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of threads went: sums over a part of a trace, which add up to those of a longer part [spec/index.md
//! 5.1]. Made from the stretches that end in the part, whenever they began.

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::shown::{Calls, STATES};
use kymo_analyze::{Doing, Name, Ready, Thread, ThreadSpan, Until};
use kymo_feed::LossAt;

/// Threads of one part at most. A part with more has no sums of its own.
const THREADS_MAX: usize = 1 << 16;
/// The same of losses.
const LOSSES_MAX: usize = 4096;

/// A thread, as it was from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// Its name; may be empty.
    pub name: Name,
    /// Its process, where the trace tells.
    pub process: Option<i32>,
    /// The kernel's priority, where the trace tells.
    pub prio: Option<i16>,
}

impl Person {
    /// What a state knows.
    pub fn of(thread: &Thread) -> Person {
        Person { name: thread.name, process: thread.process, prio: thread.prio }
    }

    /// Priority as columns have it.
    pub fn prio(&self) -> Option<i32> {
        self.prio.map(i32::from)
    }
}

/// A stretch that began before its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// By number [`STATES`].
    pub state: u8,
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
}

/// Sums of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSums {
    /// The thread.
    pub tid: i32,
    /// By state, ns.
    pub ns: [u64; STATES.len()],
    /// Stretches that are not in `ns`, because they began before.
    pub crossing: Vec<Crossing>,
    /// Where it ran last.
    pub cpu: Option<u32>,
    /// Waits for a CPU after a wake-up that ended.
    pub wakeups: u32,
    /// Changes of its CPU.
    pub migrations: u32,
    /// Longest wait for a CPU, and when it began, ns.
    pub worst: Option<(u64, i64)>,
    /// What it was called, and from when on.
    pub people: Vec<(i64, Person)>,
}

impl ThreadSums {
    /// Of a thread of which nothing is known.
    pub fn new(tid: i32) -> ThreadSums {
        ThreadSums { tid, ..ThreadSums::default() }
    }

    /// Adds the part of a stretch that is asked for.
    pub fn spend(&mut self, state: u8, ns: u64) {
        if let Some(sum) = self.ns.get_mut(usize::from(state)) {
            *sum = sum.saturating_add(ns);
        }
    }

    /// Adds a stretch, but for its time.
    #[inline]
    pub fn note(&mut self, span: &ThreadSpan) {
        match span.doing {
            Doing::Running { cpu } => self.cpu = Some(cpu),
            Doing::Runnable { why, .. } if matches!(span.until, Until::Runs { .. }) => {
                self.wakeups = self.wakeups.saturating_add(u32::from(matches!(why, Ready::Woken(_) | Ready::New(_))));
                self.wait((span.to.abs_diff(span.ready_from), span.ready_from));
            }
            _ => {}
        }
    }

    fn wait(&mut self, wait: (u64, i64)) {
        if self.worst.is_none_or(|worst| worst.0 < wait.0) {
            self.worst = Some(wait);
        }
    }

    fn see(&mut self, from: i64, person: Person) {
        if self.people.last().is_none_or(|(_, last)| *last != person) {
            self.people.push((from, person));
        }
    }

    /// Adds what came later. Stretches that began at `from` or later are in the sums then.
    fn merge(&mut self, later: &ThreadSums, from: i64) {
        for crossing in &later.crossing {
            self.cross(*crossing, from);
        }
        later.people.iter().for_each(|(from, person)| self.see(*from, *person));
        self.add(later);
    }

    /// Adds what came later and lies in a window [from, to), but for what it was called. Stretches that began before it
    /// are cut.
    pub fn add_cut(&mut self, later: &ThreadSums, (from, to): (i64, i64)) {
        for crossing in &later.crossing {
            let cut = Crossing { from: crossing.from.max(from), to: crossing.to.min(to), ..*crossing };
            self.cross(cut, i64::MIN);
        }
        self.add(later);
    }

    fn add(&mut self, later: &ThreadSums) {
        for (sum, ns) in self.ns.iter_mut().zip(later.ns) {
            *sum = sum.saturating_add(ns);
        }
        self.cpu = later.cpu.or(self.cpu);
        self.wakeups = self.wakeups.saturating_add(later.wakeups);
        self.migrations = self.migrations.saturating_add(later.migrations);
        later.worst.into_iter().for_each(|wait| self.wait(wait));
    }

    #[inline]
    fn cross(&mut self, of: Crossing, from: i64) {
        if of.from < from {
            return self.crossing.push(of);
        }
        let ns = if of.from < of.to { of.to.abs_diff(of.from) } else { 0 };
        self.spend(of.state, ns);
    }
}

/// All of a part of a trace.
#[derive(Clone, Debug, Default)]
pub struct PartSums {
    /// Time of its first item, ns; `None` before there is one.
    pub from: Option<i64>,
    threads: Vec<ThreadSums>,
    places: Map<i32, usize>,
    /// In their order.
    pub losses: Vec<LossAt>,
    /// There was more than is kept.
    is_over: bool,
}

impl PartSums {
    /// The threads, by what came first.
    pub fn threads(&self) -> &[ThreadSums] {
        &self.threads
    }

    /// The same, sorted by number; nothing is left in it.
    fn sorted(&self) -> Vec<&ThreadSums> {
        let mut all: Vec<&ThreadSums> = self.threads.iter().collect();
        all.sort_by_key(|sums| sums.tid);
        all
    }

    #[inline]
    fn of(&mut self, tid: i32) -> Option<&mut ThreadSums> {
        let place = match self.places.get(&tid) {
            Some(place) => *place,
            None if self.threads.len() >= THREADS_MAX => {
                self.is_over = true;
                return None;
            }
            None => {
                self.places.insert(tid, self.threads.len());
                self.threads.push(ThreadSums::new(tid));
                self.threads.len() - 1
            }
        };
        self.threads.get_mut(place)
    }

    /// A stretch has ended.
    #[inline]
    pub fn thread(&mut self, span: &ThreadSpan, thread: &Thread, states: &Calls) {
        let from = self.from.unwrap_or(i64::MAX);
        let Some(sums) = self.of(span.tid) else { return };
        sums.see(span.from, Person::of(thread));
        sums.cross(Crossing { state: states.state(&span.doing), from: span.from, to: span.to }, from);
        sums.note(span);
    }

    /// A thread changes its CPU.
    pub fn migrate(&mut self, tid: i32) {
        if let Some(sums) = self.of(tid) {
            sums.migrations = sums.migrations.saturating_add(1);
        }
    }

    /// Records were lost.
    pub fn lose(&mut self, loss: LossAt) {
        match self.losses.len() < LOSSES_MAX {
            true => self.losses.push(loss),
            false => self.is_over = true,
        }
    }

    /// Adds what came later.
    pub fn merge(&mut self, later: &PartSums) {
        self.from = self.from.or(later.from);
        self.is_over |= later.is_over;
        let from = self.from.unwrap_or(i64::MAX);
        for of in &later.threads {
            if let Some(sums) = self.of(of.tid) {
                sums.merge(of, from);
            }
        }
        later.losses.iter().for_each(|loss| self.lose(*loss));
    }

    /// As bytes; `None` where there was too much for one part.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let from = self.from.filter(|_| !self.is_over)?;
        let mut put = Put::default();
        put.signed(from);
        put.number(self.threads.len() as u64);
        let mut before = 0i32;
        for sums in self.sorted() {
            put.signed(i64::from(sums.tid) - i64::from(before));
            put_thread(&mut put, sums, from);
            before = sums.tid;
        }
        put.number(self.losses.len() as u64);
        for loss in &self.losses {
            put.signed(loss.from.wrapping_sub(from));
            put.signed(loss.to.wrapping_sub(loss.from));
            put.option(loss.cpu, |put, cpu| put.number(cpu.into()));
            put.option(loss.process, |put, process| put.number(process.into()));
            put.number(loss.records);
            put.number(loss.packets);
        }
        Some(put.0)
    }

    /// The same again.
    pub(crate) fn decode(bytes: &[u8]) -> Option<PartSums> {
        let mut take = Take(bytes);
        let from = take.signed()?;
        let mut part = PartSums { from: Some(from), ..PartSums::default() };
        let mut tid = 0i64;
        for at in 0..take.count().filter(|count| *count <= THREADS_MAX)? {
            let step = take.signed()?;
            tid = tid.checked_add(step).filter(|_| at == 0 || step > 0)?;
            let sums = take_thread(&mut take, i32::try_from(tid).ok()?, from)?;
            part.places.insert(sums.tid, at);
            part.threads.push(sums);
        }
        for _ in 0..take.count().filter(|count| *count <= LOSSES_MAX)? {
            let begin = from.wrapping_add(take.signed()?);
            part.losses.push(LossAt {
                from: begin,
                to: begin.wrapping_add(take.signed()?),
                cpu: take.option(Take::small)?,
                process: take.option(Take::small)?,
                records: take.number()?,
                packets: take.number()?,
            });
        }
        take.is_empty().then_some(part)
    }
}

fn put_thread(put: &mut Put, sums: &ThreadSums, from: i64) {
    let mask = (0..STATES.len()).filter(|state| sums.ns[*state] > 0).fold(0, |mask, state| mask | 1 << state);
    put.number(mask);
    sums.ns.iter().filter(|ns| **ns > 0).for_each(|ns| put.number(*ns));
    put.number(sums.crossing.len() as u64);
    for crossing in &sums.crossing {
        put.byte(crossing.state);
        put.signed(crossing.from.wrapping_sub(from));
        put.signed(crossing.to.wrapping_sub(from));
    }
    put.option(sums.cpu, |put, cpu| put.number(cpu.into()));
    put.number(sums.wakeups.into());
    put.number(sums.migrations.into());
    put.option(sums.worst, |put, (ns, at)| {
        put.number(ns);
        put.signed(at.wrapping_sub(from));
    });
    put.number(sums.people.len() as u64);
    for (since, person) in &sums.people {
        put.signed(since.wrapping_sub(from));
        put.text(person.name.as_str());
        put.option(person.process, |put, process| put.signed(process.into()));
        put.option(person.prio, |put, prio| put.signed(prio.into()));
    }
}

fn take_thread(take: &mut Take<'_>, tid: i32, from: i64) -> Option<ThreadSums> {
    let mut sums = ThreadSums::new(tid);
    let mask = take.number().filter(|mask| mask >> STATES.len() == 0)?;
    for (state, ns) in sums.ns.iter_mut().enumerate().filter(|(state, _)| mask >> state & 1 != 0) {
        *ns = take.number().filter(|ns| *ns > 0 && state < STATES.len())?;
    }
    let time = |take: &mut Take<'_>| take.signed().map(|behind| from.wrapping_add(behind));
    for _ in 0..take.count()? {
        let state = take.byte().filter(|state| usize::from(*state) < STATES.len())?;
        sums.crossing.push(Crossing { state, from: time(take)?, to: time(take)? });
    }
    sums.cpu = take.option(Take::small)?;
    (sums.wakeups, sums.migrations) = (take.small()?, take.small()?);
    sums.worst = take.option(|take| Some((take.number()?, time(take)?)))?;
    for _ in 0..take.count()? {
        let since = time(take)?;
        let name = Name::new(take.text()?);
        let process = take.option(|take| take.signed().and_then(|process| i32::try_from(process).ok()))?;
        let prio = take.option(|take| take.signed().and_then(|prio| i16::try_from(prio).ok()))?;
        sums.people.push((since, Person { name, process, prio }));
    }
    Some(sums)
}
