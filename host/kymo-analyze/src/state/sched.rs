// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the scheduler's events do to the state.

use super::cpu::{Cpu, Frame};
use super::fault::Fault;
use super::machine::State;
use super::step::{context_of, emit};
use super::thread::Identity;
use crate::doubt::Doubt;
use crate::event::{Event, Interrupt, Leaves, Wake};
use crate::name::Name;
use crate::sink::Sink;
use crate::span::{Context, Doing, Ready, Until, Waker};

/// What a futex call does, without its flags: it waits.
const FUTEX_WAITS: [u64; 5] = [0, 6, 9, 11, 13];
const FUTEX_COMMAND: u64 = 0x7f;

/// Whether a futex call waits, by its second argument.
#[inline]
pub(crate) fn futex_waits(operation: u64) -> bool {
    FUTEX_WAITS.contains(&(operation & FUTEX_COMMAND))
}

/// Who leaves a CPU, and who comes.
#[derive(Clone, Copy)]
struct Switch {
    prev: i32,
    leaves: Leaves,
    next: i32,
}

/// One step of a wake-up of a thread.
#[derive(Clone, Copy)]
struct Woken {
    step: Wake,
    tid: i32,
    cpu: Option<u32>,
    within: Option<Interrupt>,
}

impl State {
    pub(super) fn scheduled(&mut self, cpu: Option<u32>, event: &Event, at: i64, sink: &mut impl Sink) {
        match *event {
            Event::Switch { prev, prev_name, prev_prio, leaves, next, next_name, next_prio } => {
                self.call_thread(prev, prev_name, prev_prio, at);
                self.call_thread(next, next_name, next_prio, at);
                if let Some(cpu) = cpu {
                    self.switch(cpu, Switch { prev, leaves, next }, at, sink);
                }
            }
            Event::Wake { step, tid, name, prio, cpu: target, within } => {
                self.call_thread(tid, name, prio, at);
                self.wake(cpu, Woken { step, tid, cpu: target, within }, at, sink);
            }
            Event::Migrate { tid, cpu } => self.migrate(tid, cpu, at, sink),
            Event::Priority { tid, prio } => {
                if let Some(thread) = self.threads.entry(tid, at) {
                    thread.learn(Name::default(), Some(prio));
                }
            }
            _ => self.lives(cpu, event, at, sink),
        }
    }

    /// A record names a thread that it is not about.
    #[inline]
    fn call_thread(&mut self, tid: i32, name: Name, prio: Option<i16>, at: i64) {
        let may_be_new = self.allows_new_names();
        if let Some(thread) = self.threads.entry(tid, at) {
            thread.call_it(name, prio, may_be_new);
        }
    }

    #[inline]
    fn switch(&mut self, number: u32, switch: Switch, at: i64, sink: &mut impl Sink) {
        let Switch { prev, next, .. } = switch;
        let current = self.cpu(number).map(|cpu| cpu.current);
        if self.cpu(number).is_some_and(|cpu| cpu.current != Context::Unknown && cpu.current_doubt.is_none()) {
            let is_next = current == Some(context_of(prev));
            self.chained = self.chained.filter(|_| is_next).map(|chained| chained.saturating_add(1));
        }
        if current != Some(context_of(prev)) {
            self.put(number, prev, at, sink);
            self.settle_first(number);
        }
        let frames = self.change_current(number, next, at, sink);
        if prev != 0 {
            self.leave(switch, number, frames, at, sink);
        }
        if next == 0 {
            return;
        }
        self.leave_other_cpu(next, number, at, sink);
        self.run(next, number, at, Doubt::NONE, sink);
        let frames = self.threads.get_mut(next).map(|thread| std::mem::take(&mut thread.frames));
        let cpu = self.cpus.get_mut(number as usize).and_then(Option::as_mut);
        if let (Some(cpu), Some(frames)) = (cpu, frames.filter(|frames| !frames.is_empty())) {
            cpu.give_frames(frames, at);
        }
    }

    /// The first switch of a CPU tells without doubt who ran before it; only since when is not known.
    #[inline]
    fn settle_first(&mut self, number: u32) {
        if let Some(cpu) = self.cpu_mut(number) {
            cpu.current_doubt = Doubt::NONE;
        }
    }

    /// The CPU has another thread. Gives the frames that go with the one before.
    #[inline]
    fn change_current(&mut self, number: u32, next: i32, at: i64, sink: &mut impl Sink) -> Vec<Frame> {
        let Some(cpu) = self.cpu_mut(number) else { return Vec::new() };
        let span = cpu.cut(at);
        let frames = if cpu.has_frames() { cpu.take_frames(at) } else { Vec::new() };
        cpu.current = context_of(next);
        (cpu.current_doubt, cpu.doubt) = (Doubt::NONE, Doubt::NONE);
        if next == 0 {
            cpu.note_idle();
        } else {
            cpu.idle = None;
        }
        span.iter().for_each(|span| sink.cpu(span));
        frames
    }

    /// A thread leaves its CPU.
    #[inline]
    fn leave(&mut self, switch: Switch, cpu: u32, frames: Vec<Frame>, at: i64, sink: &mut impl Sink) {
        let lost_until = self.lost_until;
        let Some(thread) = self.threads.get_mut(switch.prev) else { return };
        thread.frames = frames;
        let (before, woken) = (thread.doing, thread.woken.take());
        let doing = match switch.leaves {
            Leaves::Preempted => Doing::Runnable { why: Ready::Preempted { by: switch.next }, cpu: Some(cpu) },
            // Also what is preempted on its way back to user space leaves with 0.
            Leaves::GaveWay if thread.call.is_some_and(|call| Some(call.call) == self.sched_yield) => {
                Doing::Runnable { why: Ready::GaveWay { to: switch.next }, cpu: Some(cpu) }
            }
            Leaves::GaveWay => Doing::Runnable { why: Ready::Preempted { by: switch.next }, cpu: Some(cpu) },
            Leaves::Ended => Doing::Ended,
            Leaves::Asleep(state) => {
                if let Some(call) = &mut thread.call {
                    call.blocked = true;
                }
                match woken {
                    Some((waker, _)) => Doing::Runnable { why: Ready::Woken(waker), cpu: Some(cpu) },
                    None => {
                        // A fault from user space shows that a call is over whose return is not in the trace.
                        let open = thread.call.filter(|_| thread.fault != Some(Fault::User));
                        let call = open.map(|call| call.call);
                        Doing::Blocked { state, call, in_fault: self.faults.sleeps(thread.fault, state, call) }
                    }
                }
            }
        };
        if let Some(span) = thread.becomes(doing, at, Until::Next, lost_until) {
            emit(sink, &span, thread, before);
        }
        if let (true, Some((_, woken_at))) = (thread.is_woken(), woken) {
            thread.ready_from = woken_at;
        }
        if doing == Doing::Ended {
            thread.call = None;
        }
    }

    #[inline]
    fn wake(&mut self, cpu: Option<u32>, woken: Woken, at: i64, sink: &mut impl Sink) {
        let waker = self.waker_within(cpu, woken.within);
        let owner = self.futex_owner(waker, woken.tid);
        let (lost_until, facts) = (self.lost_until, self.facts);
        let due = cpu.and_then(|number| self.cpu(number)).and_then(Cpu::timer_due);
        let Some(thread) = self.threads.get_mut(woken.tid) else { return };
        if let (Some(owner), Some(call)) = (owner, &mut thread.call) {
            call.owner = Some(owner);
        }
        let before = thread.doing;
        let is_echo = woken.step == Wake::Wakeup && facts.waking;
        if !is_echo {
            thread.due = due;
        }
        match before {
            Doing::Running { .. } if is_echo => thread.woken = None,
            Doing::Running { .. } if woken.step == Wake::Waking && facts.wakeup => thread.woken = Some((waker, at)),
            Doing::Running { .. } => {}
            Doing::Runnable { .. } => {
                let span = woken.cpu.and_then(|cpu| thread.moves(cpu, at, lost_until));
                span.iter().for_each(|span| emit(sink, span, thread, before));
            }
            Doing::Unknown | Doing::Forked | Doing::Blocked { .. } | Doing::Ended => {
                let is_new = woken.step == Wake::New;
                let why = if is_new { Ready::New(waker) } else { Ready::Woken(waker) };
                let doubt = Doubt::START.when(before == Doing::Unknown && !is_new) | Doubt::MISSED.when(is_echo);
                thread.doubt |= Doubt::MISSED.when(is_echo && before != Doing::Unknown);
                let doing = Doing::Runnable { why, cpu: woken.cpu };
                if let Some(span) = thread.becomes(doing, at, Until::Woken(waker), lost_until) {
                    emit(sink, &span, thread, before);
                }
                thread.doubt = doubt;
            }
        }
    }

    /// The thread that wakes another in a futex call on the address that this one waits for.
    #[inline]
    fn futex_owner(&self, waker: Waker, woken: i32) -> Option<i32> {
        let Context::Thread(tid) = waker.context else { return None };
        let futex = self.futex?;
        let waits = self.threads.get(woken)?.call.filter(|call| call.call == futex && futex_waits(call.args[1]))?;
        let wakes = self.threads.get(tid)?.call.filter(|call| call.call == futex && !futex_waits(call.args[1]))?;
        (waits.args[0] == wakes.args[0]).then_some(tid)
    }

    fn migrate(&mut self, tid: i32, cpu: u32, at: i64, sink: &mut impl Sink) {
        let lost_until = self.lost_until;
        let Some(thread) = self.threads.entry(tid, at) else { return };
        let before = thread.doing;
        if let Some(span) = thread.moves(cpu, at, lost_until) {
            emit(sink, &span, thread, before);
        }
    }

    /// Threads come, go, and get names.
    fn lives(&mut self, cpu: Option<u32>, event: &Event, at: i64, sink: &mut impl Sink) {
        match *event {
            Event::Fork { parent, child, name, process } => {
                let parent_name = self.threads.get(parent).map(|thread| thread.name);
                self.begin(child, at, sink);
                let Some(thread) = self.threads.get_mut(child) else { return };
                thread.learn(if name.is_empty() { parent_name.unwrap_or_default() } else { name }, None);
                thread.process = process.or(thread.process.filter(|_| thread.is_created));
                thread.is_created = false;
            }
            Event::Create { child, name, same_process } => {
                let maker = cpu.and_then(|cpu| self.cpu(cpu)).and_then(Cpu::thread);
                let maker_process = maker.and_then(|tid| self.threads.get(tid)).and_then(|thread| thread.process);
                self.begin(child, at, sink);
                let Some(thread) = self.threads.get_mut(child) else { return };
                thread.learn(name, None);
                thread.process = if same_process { maker_process } else { Some(child) };
                thread.is_created = true;
            }
            Event::Rename { tid: Some(tid), name, .. } => {
                if let Some(thread) = self.threads.entry(tid, at) {
                    thread.learn(name, None);
                }
            }
            Event::Exec { tid, old_tid, name } => self.exec(tid, old_tid, name, at, sink),
            Event::Exit { tid } => {
                if let Some(thread) = self.threads.entry(tid, at) {
                    thread.told = true;
                    thread.call = None;
                }
            }
            Event::Free { tid } => self.free(tid, at, sink),
            _ => {}
        }
    }

    /// A new thread: whatever was known of its number is over. `task_newtask` and `sched_process_fork` both tell of it.
    fn begin(&mut self, tid: i32, at: i64, sink: &mut impl Sink) {
        let Some(doing) = self.threads.entry(tid, at).map(|thread| thread.doing) else { return };
        if doing == Doing::Forked || matches!(doing, Doing::Runnable { why: Ready::New(_), .. }) {
            return;
        }
        // A number that still runs somewhere: its end is not in the trace.
        self.leave_other_cpu(tid, u32::MAX, at, sink);
        self.turn(tid, Doing::Forked, at, Doubt::NONE, sink);
        if let Some(thread) = self.threads.get_mut(tid) {
            (thread.process, thread.call, thread.woken, thread.is_fresh) = (None, None, None, true);
            thread.frames.clear();
        }
    }

    /// A thread that runs another program becomes the only one of its process, and takes the process's number.
    fn exec(&mut self, tid: i32, old_tid: i32, name: Name, at: i64, sink: &mut impl Sink) {
        let doing = self.threads.get(old_tid).map(|thread| thread.doing);
        if let (true, Some(Doing::Running { cpu })) = (old_tid != tid, doing) {
            let call = self.threads.get_mut(old_tid).and_then(|thread| thread.call.take());
            self.turn(old_tid, Doing::Ended, at, Doubt::NONE, sink);
            if let Some(known) = self.cpu_mut(cpu).filter(|known| known.current == context_of(old_tid)) {
                let span = known.cut(at);
                known.current = context_of(tid);
                span.iter().for_each(|span| sink.cpu(span));
                self.leave_other_cpu(tid, cpu, at, sink);
                self.turn(tid, Doing::Running { cpu }, at, Doubt::NONE, sink);
            }
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.call = call;
            }
        }
        if old_tid != tid && self.threads.get(old_tid).is_some() {
            self.turn(old_tid, Doing::Ended, at, Doubt::NONE, sink);
        }
        if let Some(thread) = self.threads.entry(tid, at) {
            thread.learn(name, None);
            (thread.name, thread.process, thread.is_created) = (name, Some(tid), false);
        }
    }

    fn free(&mut self, tid: i32, at: i64, sink: &mut impl Sink) {
        let lost_until = self.lost_until;
        let is_current = self.cpus().any(|cpu| cpu.current == context_of(tid));
        if is_current {
            return;
        }
        let Some(mut thread) = self.threads.remove(tid) else { return };
        let before = thread.doing;
        if let Some(span) = thread.becomes(Doing::Ended, at, Until::Next, lost_until) {
            emit(sink, &span, &mut thread, before);
        }
    }

    pub(super) fn dumped(&mut self, event: &Event, at: i64, sink: &mut impl Sink) {
        let Event::Dumped { tid, process, name, prio, asleep } = *event else { return };
        let sees_creations = self.sees_creations();
        let Some(thread) = self.threads.entry(tid, at) else { return };
        thread.find(Identity { process: Some(process), name }, prio, sees_creations);
        let is_news = !thread.told && thread.doing == Doing::Unknown && asleep;
        if is_news {
            self.turn(tid, Doing::Blocked { state: b'?', call: None, in_fault: false }, at, Doubt::START, sink);
        }
    }
}
