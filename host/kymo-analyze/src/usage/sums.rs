// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sink: hands what a state says to the sums of CPUs, threads, interrupts, devices and files.

use std::collections::BTreeMap;

use super::actor::{Actor, UsageScope};
use super::amounts::{CpuTime, Durations, Transfers, marks};
use super::cpu::{CpuUse, Lane, Run};
use super::disk::{DeviceUse, Disks, Request};
use super::files::{FileUse, Files};
use super::opening::Opening;
use super::roles::{Role, Roles};
use crate::event::{CallId, Event, Interrupt, Io};
use crate::hash::Map;
use crate::name::Name;
use crate::names::Vocabulary;
use crate::record::Head;
use crate::sink::Sink;
use crate::span::{CallSpan, Context, CpuSpan, Doing, InterruptSpan, ThreadSpan};
use crate::state::{CPUS_MAX, State, Thread, Threads};

/// Threads that are kept apart at most; the rest is one row.
pub const ROWS_MAX: usize = 1 << 16;
/// `fcntl` commands that copy a descriptor: to one that stays open over exec, to one that does not.
const DUPLICATES: [u64; 2] = [0, 1030];

/// What a thread used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// CPU time.
    pub cpu: CpuTime,
    /// Bytes that it moved by system calls.
    pub calls: Transfers,
    /// Bytes of block requests that it issued: not those that the kernel issued later for what it wrote.
    pub disk: Transfers,
}

impl ThreadUse {
    /// Adds that of another one.
    pub fn plus(&mut self, other: &ThreadUse) {
        self.cpu.plus(&other.cpu);
        self.calls.plus(&other.calls);
        self.disk.plus(&other.disk);
    }
}

/// Adds up who used what. Give it to a state as its sink from the trace's first record on, also if only a later stretch
/// is asked for: which files are open is known only from the begin.
#[derive(Clone, Debug)]
pub struct Usage {
    pub(super) scope: UsageScope,
    /// Only times are asked for, and not what processes are called.
    is_of_times: bool,
    /// What ends with the record that comes is asked for.
    is_taken: bool,
    roles: Roles,
    /// The stretch, as far as recording covers it.
    pub(super) begin: Option<i64>,
    end: i64,
    lanes: BTreeMap<u32, Lane>,
    threads: Map<Actor, ThreadUse>,
    /// Who was about to leave a CPU at its newest switch.
    pub(super) leaving: BTreeMap<u32, Actor>,
    process_names: Map<i32, Name>,
    interrupts: BTreeMap<(Interrupt, Name), Durations>,
    disks: Disks,
    files: Files,
    /// Paths of the calls that threads are in.
    opening: Opening,
    lost_places: u64,
    /// Records of all CPUs were lost.
    is_lost: bool,
}

impl Usage {
    /// Nothing yet.
    pub fn new(scope: UsageScope, vocabulary: &Vocabulary) -> Usage {
        Usage {
            scope,
            is_of_times: false,
            is_taken: true,
            roles: Roles::new(vocabulary),
            begin: None,
            end: i64::MIN,
            lanes: BTreeMap::new(),
            threads: Map::default(),
            leaving: BTreeMap::new(),
            process_names: Map::default(),
            interrupts: BTreeMap::new(),
            disks: Disks::default(),
            files: Files::default(),
            opening: Opening::default(),
            lost_places: 0,
            is_lost: false,
        }
    }

    /// The same, of times only: without files and requests. Processes have no names.
    pub fn of_times(self) -> Usage {
        Usage { is_of_times: true, ..self }
    }

    /// Threads with what they used, as they are kept apart now.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The same for a recording of chosen processes: it begins with them, and who ran on a CPU before its first record
    /// is not concluded from that.
    pub fn without_begin(self) -> Usage {
        Usage { is_lost: true, ..self }
    }

    /// The same with the state in front of the stretch, for a stretch that is not read from the begin of the trace on.
    /// Times of threads, CPUs and interrupts are those that they would be then. What needs more than a state is not
    /// known from before: descriptors, open requests, CPUs without a record, and, after a loss, since when a CPU ran
    /// that has not written yet.
    pub fn resume(mut self, state: &State) -> Usage {
        self.begin = state.now().map(|_| self.scope.from);
        self.is_lost |= state.has_lost();
        for cpu in state.cpus().filter(|cpu| self.scope.has_cpu(cpu.number)) {
            self.lanes.insert(cpu.number, Lane::resumed(cpu));
        }
        let first = |thread: &&Thread| thread.process == Some(thread.tid) && !thread.name.is_empty();
        self.process_names = state.threads().filter(first).map(|thread| (thread.tid, thread.name)).collect();
        self
    }

    /// Says whether what ends with the next record is asked for, by a condition on that record: runs of threads,
    /// interrupts, requests, system calls. All of it, unless this was called.
    pub fn take(&mut self, is_taken: bool) {
        self.is_taken = is_taken;
    }

    /// Says that the machine has a CPU: one without records is listed, too.
    pub fn expect_cpu(&mut self, number: u32) {
        let _lane = self.lane(number);
    }

    /// Says which file the system call opens that a thread begins.
    pub fn opening(&mut self, head: &Head, state: &State, path: &str) {
        if self.is_of_times {
            return;
        }
        if let Some(tid) = writer(head, state) {
            self.opening.told(tid, path, head.time);
        }
    }

    /// Says which file the kernel opens in the system call that a thread is in.
    pub fn opened(&mut self, head: &Head, state: &State, path: &str) {
        let Some(tid) = writer(head, state).filter(|_| !self.is_of_times) else { return };
        let call = state.thread(tid).and_then(|thread| thread.call);
        if let Some(call) = call.and_then(|call| self.opens(call.call)) {
            self.opening.found(tid, path, call, head.time);
        }
    }

    /// Says what the state dump has found of a descriptor.
    pub fn dumped_file(&mut self, process: i32, fd: i32, path: &str, closes_on_exec: bool, at: i64) {
        if self.roles.has_ends() && !self.is_of_times {
            self.files.dumped(process, fd, path, closes_on_exec, at);
        }
    }

    /// Looks at a record that is no event: the thread that wrote it should be the one that runs there. To be called
    /// before the state moves by it.
    pub fn check(&mut self, head: &Head, state: &State) {
        if let Some(tid) = head.tid {
            self.check_current(head.cpu, tid, state);
        }
    }

    /// Whether what a thread does at a moment on a CPU is asked for.
    pub fn wants(&self, head: &Head, state: &State) -> bool {
        let is_there = self.is_taken && self.scope.has(head.time) && head.cpu.is_none_or(|cpu| self.scope.has_cpu(cpu));
        is_there && (self.scope.is_everybody() || self.scope.wants(&Actor::of(state, head.tid.unwrap_or(-1))))
    }

    /// Ends the sums. To be called once, when the state is finished.
    pub fn finish(&mut self, state: &State) {
        let begin = self.begin.unwrap_or(0);
        self.end = state.now().unwrap_or(begin).min(self.scope.to).max(begin);
        let over: Vec<(u32, Run)> =
            self.lanes.iter_mut().filter_map(|(number, lane)| Some((*number, lane.end()?))).collect();
        over.into_iter().for_each(|(number, run)| self.settle(number, run, None));
        let stretch_ns = self.end.abs_diff(begin);
        for lane in self.lanes.values_mut() {
            let rest_ns = stretch_ns.saturating_sub(lane.used.total_ns());
            lane.used.unknown_ns = lane.used.unknown_ns.saturating_add(rest_ns);
        }
        for (actor, used) in std::mem::take(&mut self.threads) {
            let known = Actor::of(state, actor.tid);
            let named = if actor.name.is_empty() { known } else { actor };
            let is_same = named.process == known.process && named.process_name.is_empty();
            let process_name = if is_same { known.process_name } else { named.process_name };
            self.threads.entry(Actor { process_name, ..named }).or_default().plus(&used);
        }
    }

    /// The stretch, ns: from the first event, or what is asked for if that is later; after [`Usage::finish`].
    pub fn stretch(&self) -> Option<(i64, i64)> {
        self.begin.map(|begin| (begin, self.end))
    }

    /// CPUs by number.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &CpuUse)> {
        self.lanes.iter().map(|(number, lane)| (*number, &lane.used))
    }

    /// Threads, each by its names, in no particular order.
    pub fn threads(&self) -> impl Iterator<Item = (&Actor, &ThreadUse)> {
        self.threads.iter()
    }

    /// The same of processes: thread and its name are those of the process (-1: not known), with how many threads.
    pub fn processes(&self) -> Vec<(Actor, ThreadUse, usize)> {
        let mut all: BTreeMap<Actor, (ThreadUse, std::collections::BTreeSet<i32>)> = BTreeMap::new();
        for (actor, used) in &self.threads {
            let (process, process_name) = (actor.process, actor.process_name);
            let first = Actor { process, process_name, tid: process.unwrap_or(-1), name: process_name };
            let of = if actor.tid == 0 { *actor } else { first };
            let (sum, tids) = all.entry(of).or_default();
            sum.plus(used);
            tids.insert(actor.tid);
        }
        all.into_iter().map(|(actor, (sum, tids))| (actor, sum, tids.len())).collect()
    }

    /// Interrupts of devices and of the processor's own, and softirqs, each with what the trace calls it.
    pub fn interrupts(&self) -> impl Iterator<Item = (Interrupt, Name, &Durations)> {
        self.interrupts.iter().map(|((interrupt, name), durations)| (*interrupt, *name, durations))
    }

    /// Block devices by the kernel's number, `major << 20 | minor`.
    pub fn devices(&self) -> impl Iterator<Item = (u64, &DeviceUse)> {
        self.disks.devices.iter().map(|(number, device)| (*number, device))
    }

    /// Files, in the order of their names.
    pub fn files(&self) -> Vec<FileUse> {
        self.files.uses()
    }

    /// Block requests that were not done at the end, and those that were too many to be followed.
    pub fn open_requests(&self) -> (u64, u64) {
        self.disks.open()
    }

    /// Places in the stretch where records were lost.
    pub fn lost_places(&self) -> u64 {
        self.lost_places
    }

    /// Files and descriptors that were too many to be followed.
    pub fn files_left_out(&self) -> u64 {
        self.files.left_out()
    }

    /// The trace has system calls that move bytes.
    pub fn has_transfers(&self) -> bool {
        self.roles.has_transfers()
    }

    /// The name of a call, if it opens a file.
    fn opens(&self, call: CallId) -> Option<&'static str> {
        self.roles.of(call).filter(|(role, _)| *role == Role::Opens).map(|(_, name)| name)
    }

    pub(super) fn lane(&mut self, number: u32) -> Option<&mut Lane> {
        if number >= CPUS_MAX || !self.scope.has_cpu(number) {
            return None;
        }
        let is_lost = self.is_lost;
        Some(self.lanes.entry(number).or_insert_with(|| {
            let mut lane = Lane::default();
            if is_lost {
                lane.lose();
            }
            lane
        }))
    }

    pub(super) fn thread_row(&mut self, actor: Actor) -> &mut ThreadUse {
        let is_full = self.threads.len() >= ROWS_MAX && !self.threads.contains_key(&actor);
        let actor = if is_full { Actor { name: Name::new("(others)"), ..Actor::bare(-1) } } else { actor };
        self.threads.entry(actor).or_default()
    }

    /// Adds a run that is over to its CPU and thread.
    pub(super) fn settle(&mut self, number: u32, run: Run, actor: Option<Actor>) {
        let leaving = self.leaving.get(&number).copied();
        let actor = run.thread().map(|tid| {
            let known = [actor, leaving].into_iter().flatten().find(|actor| actor.tid == tid);
            known.unwrap_or_else(|| Actor::bare(tid))
        });
        let is_asked = actor.map_or(self.scope.is_everybody(), |actor| self.scope.wants(&actor));
        let is_wanted = is_asked && self.is_taken;
        let Some(lane) = self.lane(number) else { return };
        lane.used.settle(&run, actor.is_some(), is_wanted);
        if let Some(actor) = actor.filter(|_| is_wanted) {
            let time = run.time;
            self.thread_row(actor).cpu.plus(&CpuTime { runs: 1, longest_ns: time.ns, ..time });
        }
    }

    /// Holds the thread that a record names against the one that should run.
    fn check_current(&mut self, cpu: Option<u32>, tid: i32, state: &State) {
        let Some(number) = cpu else { return };
        let known = state.cpu(number).map_or(Context::Unknown, |cpu| cpu.current);
        let is_contested = known != Context::Unknown && known != context_of(tid);
        if let Some(lane) = self.lane(number) {
            lane.contest(Some(known).filter(|_| is_contested));
        }
        self.check_elsewhere(number, tid, state);
    }

    /// A thread that runs here has left the CPU that it ran on before, and no switch has told.
    fn check_elsewhere(&mut self, here: u32, tid: i32, state: &State) {
        let Some(Doing::Running { cpu }) = state.thread(tid).map(|thread| thread.doing) else { return };
        if cpu != here {
            let left = self.lane(cpu);
            left.into_iter().for_each(|lane| lane.contest(Some(Context::Thread(tid))));
        }
    }

    fn switched(&mut self, number: u32, (prev, next): (i32, i32), at: i64, state: &State) {
        self.check_current(Some(number), prev, state);
        self.check_elsewhere(number, next, state);
        let is_first = state.cpu(number).is_none_or(|cpu| cpu.current == Context::Unknown);
        if is_first {
            self.first_switch(number, context_of(prev), at);
        }
        if prev != 0 {
            let actor = self.called(Actor::of(state, prev));
            self.learn_process(&actor);
            self.leaving.insert(number, actor);
        }
    }

    /// The first switch of a CPU that the state knows of.
    pub(super) fn first_switch(&mut self, number: u32, leaves: Context, at: i64) {
        let (begin, stretch) = (self.begin.unwrap_or(at), self.scope.stretch());
        self.lane(number).into_iter().for_each(|lane| lane.first_switch(leaves, at, begin, stretch));
    }

    /// Somebody, with the name of the process where that matters.
    fn called(&self, actor: Actor) -> Actor {
        if self.is_of_times { actor.without_process_name() } else { actor }
    }

    /// A thread has left a CPU.
    pub(super) fn left(&mut self, number: u32, actor: Actor) {
        let lane = self.lane(number).filter(|lane| lane.current() == Context::Thread(actor.tid));
        if let Some(run) = lane.and_then(Lane::end) {
            self.settle(number, run, Some(actor));
        }
    }

    fn learn_process(&mut self, actor: &Actor) {
        if let Some(process) = actor.process.filter(|_| !actor.process_name.is_empty()) {
            self.process_names.insert(process, actor.process_name);
        }
    }

    /// A thread is about to take another name: what it did until now belongs to the name that it has.
    fn renamed(&mut self, tid: i32, name: Name, head: &Head, state: &State) {
        let Some(until_now) = Usage::until_rename(tid, name, head, state) else { return };
        self.cpu(&until_now);
        let actor = self.called(Actor::of(state, tid));
        if let Some(run) = self.lane(until_now.cpu).and_then(Lane::end) {
            self.settle(until_now.cpu, run, Some(actor));
        }
        if actor.process == Some(tid) {
            self.process_names.insert(tid, name);
        }
    }

    /// What the CPU of a thread did up to where that takes another name. `None`: it does not, or does not run.
    pub(super) fn until_rename(tid: i32, name: Name, head: &Head, state: &State) -> Option<CpuSpan> {
        let thread = state.thread(tid).filter(|thread| !name.is_empty() && thread.name != name)?;
        let Doing::Running { cpu: number } = thread.doing else { return None };
        let cpu = state.cpu(number).filter(|cpu| cpu.current == Context::Thread(tid))?;
        let to = state.now().map_or(head.time, |now| now.max(head.time));
        let (context, current, doubt) = (cpu.context(), cpu.current, cpu.doubt());
        Some(CpuSpan { cpu: number, from: cpu.since, to, context, current, doubt })
    }

    fn request(&mut self, head: &Head, event: &Event, at: i64, state: &State) {
        let Event::Io { step, device, key, bytes, writes, .. } = *event else { return };
        let request = Request { at, cpu: head.cpu, bytes, writes };
        match step {
            Io::BlockIssue => {
                let actor = Actor::of(state, writer(head, state).unwrap_or(-1));
                self.disks.issue((device, key), request, actor);
            }
            Io::BlockComplete => {
                if let Some((actor, one)) = self.disks.complete((device, key), request, (&self.scope, self.is_taken)) {
                    self.thread_row(actor).disk.plus(&one);
                }
            }
            Io::NetQueue | Io::NetXmit => {}
        }
    }

    /// What events say of descriptors, before the state moves by them.
    fn follow_files(&mut self, head: &Head, event: &Event, state: &State) {
        let process_of = |tid: i32| state.thread(tid).and_then(|thread| thread.process).unwrap_or(tid);
        match *event {
            // A number is free as soon as its call begins.
            Event::Call { call, args: [first, second] } => {
                let opens = self.opens(call);
                if let Some(tid) = writer(head, state) {
                    self.opening.begins(tid, opens, call.is_by_number(), head.time);
                }
                let Some((role, _)) = self.roles.of(call) else { return };
                let Some(process) = writer(head, state).map(process_of) else { return };
                match role {
                    Role::Closes => self.files.close(process, first as i32, first as i32),
                    Role::ClosesRange => {
                        let last = i32::try_from(second as u32).unwrap_or(i32::MAX);
                        self.files.close(process, first as i32, last);
                    }
                    _ => {}
                }
            }
            Event::Create { child, same_process: false, .. } => {
                if let Some(maker) = writer(head, state) {
                    self.files.fork(process_of(maker), child);
                }
            }
            Event::Fork { parent, child, process: Some(process), .. } if process == child => {
                self.files.fork(process_of(parent), child);
            }
            Event::Exec { tid, .. } => self.files.exec(tid),
            Event::Exit { tid } => self.opening.forget(tid),
            Event::Free { tid } => self.files.end(tid),
            _ => {}
        }
    }

    /// A system call that moved bytes.
    fn transfer(&mut self, role: Role, span: &CallSpan, actor: Actor, process: (i32, Name)) {
        let is_there = self.is_taken && self.scope.has(span.to) && self.scope.has_cpu(span.cpu);
        if !is_there || !self.scope.wants(&actor) {
            return;
        }
        let [first, second] = span.args.map(|arg| Some(arg as i32));
        let (source, target) = match role {
            Role::Writes => (None, Some(first)),
            Role::Sends => (Some(second), Some(first)),
            Role::Moves => (Some(first), Some(None)),
            _ => (Some(first), None),
        };
        let bytes = u64::try_from(span.value).ok();
        for (side, writes) in [(source, false), (target, true)] {
            let Some(fd) = side else { continue };
            let mut one = Transfers::default();
            one.add(Some(writes), bytes, marks(span.doubt));
            self.thread_row(actor).calls.plus(&one);
            if let Some(fd) = fd {
                self.files.transfer(process, fd, span.to, one);
            }
        }
    }
}

impl Sink for Usage {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        let at = state.now().map_or(head.time, |now| now.max(head.time));
        self.begin.get_or_insert(at.max(self.scope.from));
        match *event {
            Event::Switch { prev, next, .. } => {
                if let Some(number) = head.cpu {
                    self.switched(number, (prev, next), at, state);
                }
            }
            // It is written about a thread, not by it.
            Event::Dumped { .. } => {}
            _ => self.check(head, state),
        }
        match *event {
            Event::Rename { tid: Some(tid), name, .. } => self.renamed(tid, name, head, state),
            Event::Exec { old_tid, name, .. } => self.renamed(old_tid, name, head, state),
            Event::Io { .. } if !self.is_of_times => self.request(head, event, at, state),
            _ => {}
        }
        if !self.is_of_times {
            self.follow_files(head, event, state);
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        let Doing::Running { cpu } = span.doing else { return };
        let name = thread.process.and_then(|process| self.process_names.get(&process).copied());
        let actor = self.called(Actor::new(thread, name.unwrap_or_default()));
        self.left(cpu, Actor { tid: span.tid, ..actor });
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let stretch = self.scope.stretch();
        let begin = *self.begin.get_or_insert(span.from.max(self.scope.from));
        let over = self.lane(span.cpu).and_then(|lane| lane.span(span, begin, stretch));
        if let Some(run) = over {
            self.settle(span.cpu, run, None);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        if self.is_of_times {
            return;
        }
        let is_listed = matches!(span.interrupt, Interrupt::Irq(_) | Interrupt::Vector(_) | Interrupt::Softirq(_));
        let thread = match span.current {
            Context::Thread(tid) => threads.get(tid),
            _ => None,
        };
        let is_wanted = thread.map_or(self.scope.is_everybody(), |thread| {
            let name = thread.process.and_then(|process| self.process_names.get(&process).copied());
            self.scope.wants(&Actor::new(thread, name.unwrap_or_default()))
        });
        if !is_listed || !is_wanted || !self.is_taken || !self.scope.has_cpu(span.cpu) {
            return;
        }
        let ns = match self.scope.stretch().cut(span.from, span.to) {
            Some((from, to)) => to.abs_diff(from).saturating_sub(span.away_ns.max(0) as u64),
            None if span.from == span.to && self.scope.has(span.from) => 0,
            None => return,
        };
        self.interrupts.entry((span.interrupt, span.name)).or_default().add(ns, marks(span.doubt));
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        if self.is_of_times {
            return;
        }
        // Without the calls that end it, nobody knows for how long a path is that of the number.
        let path = self.opening.take(span.tid).filter(|_| self.roles.has_ends());
        let Some((role, call)) = self.roles.of(span.call) else { return };
        let process = thread.process.unwrap_or(thread.tid);
        let name = self.process_names.get(&process).copied().unwrap_or_default();
        let actor = Actor::new(thread, name);
        let of = (process, actor.process_name);
        let (fd, at) = (i32::try_from(span.value).ok().filter(|fd| *fd >= 0), span.to);
        match (role, fd) {
            (Role::Opens, Some(fd)) => self.files.open(of, fd, (call, path), at),
            (Role::Makes, Some(fd)) => self.files.open(of, fd, (call, None), at),
            (Role::Copies, Some(fd)) => {
                // The third argument of dup3 may say that exec closes it.
                self.files.copy(process, (span.args[0] as i32, fd), call != "dup3", at);
            }
            (Role::Controls, Some(fd)) if DUPLICATES.contains(&span.args[1]) => {
                self.files.copy(process, (span.args[0] as i32, fd), span.args[1] == DUPLICATES[0], at);
            }
            (role, _) if role.is_transfer() => self.transfer(role, span, actor, of),
            _ => {}
        }
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.lost_places += u64::from(self.scope.stretch().cut(from, to).is_some() || self.scope.has(from));
        match cpu {
            Some(number) => self.lane(number).into_iter().for_each(Lane::lose),
            None => {
                self.is_lost = true;
                self.lanes.values_mut().for_each(Lane::lose);
            }
        }
        self.disks.lose(to);
        self.files.lose(to);
        self.opening.forget_all();
    }
}

/// The thread that wrote a record: what its head says, or who runs on its CPU.
fn writer(head: &Head, state: &State) -> Option<i32> {
    head.tid.or_else(|| state.cpu(head.cpu?)?.thread())
}

/// A thread, or idle.
pub(super) fn context_of(tid: i32) -> Context {
    if tid == 0 { Context::Idle } else { Context::Thread(tid) }
}
