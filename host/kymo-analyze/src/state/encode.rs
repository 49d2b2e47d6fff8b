// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state as bytes, and back: what an index keeps as checkpoints [spec/index.md 5].
//!
//! Times are kept as distances from the newest one, numbers as few bytes. Facts and names of system calls are those of
//! the vocabulary, and not in it: a state is taken back with the vocabulary of the same classes.

use super::cpu::{Cpu, DEPTH_MAX, Frame, Since};
use super::fault::Fault;
use super::machine::{CPUS_MAX, State};
use super::thread::{Call, THREADS_MAX, Thread};
use super::timers::Timers;
use crate::compact::{Put, Take};
use crate::doubt::Doubt;
use crate::event::{CallId, Interrupt};
use crate::name::Name;
use crate::names::Vocabulary;
use crate::span::{Context, Doing, Ready, Waker};

/// Changes with the bytes, and with what a state does by a record: checkpoints of another version are of no use.
pub const VERSION: u32 = 6;

/// Bits of a thread's flags.
const IS_FRESH: u8 = 1;
const TOLD: u8 = 2;
const IS_CREATED: u8 = 4;
const FAULT_USER: u8 = 8;
const FAULT_KERNEL: u8 = 16;
const FLAGS: u8 = IS_FRESH | TOLD | IS_CREATED | FAULT_USER | FAULT_KERNEL;

/// Puts what belongs to a state.
struct Encoder {
    put: Put,
    now: i64,
}

/// Takes it.
struct Decoder<'a> {
    take: Take<'a>,
    now: i64,
}

impl State {
    /// The state as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder { put: Put::default(), now: self.now };
        encoder.put.number(VERSION.into());
        encoder.put.byte(self.has_begun.into());
        encoder.put.signed(self.now);
        encoder.time(self.lost_until);
        encoder.put.number(self.clock_backs);
        encoder.put.option(self.chained, |put, chained| put.number(chained));
        encoder.put.number(self.cpus().count() as u64);
        self.cpus().for_each(|cpu| encoder.cpu(cpu));
        encoder.put.number(self.threads.left_out());
        encoder.put.number(self.threads.len() as u64);
        self.threads.iter().for_each(|thread| encoder.thread(thread));
        self.timers.encode(&mut encoder.put);
        encoder.put.0
    }

    /// The state of such bytes; `None` where they are not of this version, or not of a state.
    pub fn decode(bytes: &[u8], vocabulary: &Vocabulary) -> Option<State> {
        let mut decoder = Decoder { take: Take(bytes), now: 0 };
        if decoder.take.small() != Some(VERSION) {
            return None;
        }
        let mut state = State::new(vocabulary);
        state.has_begun = decoder.flag()?;
        state.now = decoder.take.signed()?;
        decoder.now = state.now;
        state.lost_until = decoder.time()?;
        state.clock_backs = decoder.take.number()?;
        state.chained = decoder.take.option(Take::number)?;
        for _ in 0..decoder.take.count()? {
            let cpu = decoder.cpu()?;
            let index = cpu.number as usize;
            if index < state.cpus.len() {
                return None;
            }
            state.cpus.resize(index, None);
            state.cpus.push(Some(cpu));
        }
        let left_out = decoder.take.number()?;
        let count = decoder.take.count().filter(|&count| count <= THREADS_MAX)?;
        for _ in 0..count {
            state.threads.put(decoder.thread()?)?;
        }
        state.threads.set_left_out(left_out);
        state.timers = Timers::decode(&mut decoder.take)?;
        (decoder.take.is_empty() && state.is_sound()).then_some(state)
    }

    /// Whether CPUs and threads agree on who runs where.
    fn is_sound(&self) -> bool {
        let runs = |tid: i32| self.thread(tid).map(|thread| thread.doing);
        let cpus = self.cpus().all(|cpu| match cpu.current {
            Context::Thread(tid) => runs(tid) == Some(Doing::Running { cpu: cpu.number }),
            Context::Interrupt(_) => false,
            Context::Idle | Context::Unknown => true,
        });
        cpus && self.threads().all(|thread| match thread.doing {
            Doing::Running { cpu } => self.cpu(cpu).is_some_and(|cpu| cpu.current == Context::Thread(thread.tid)),
            _ => true,
        })
    }
}

impl Doing {
    /// As part of bytes that keep their meaning as long as [`VERSION`] does.
    pub fn put(self, put: &mut Put) {
        with_encoder(put, |encoder| encoder.doing(self));
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<Doing> {
        with_decoder(take, Decoder::doing)
    }
}

impl Context {
    /// As [`Doing::put`].
    pub fn put(self, put: &mut Put) {
        with_encoder(put, |encoder| encoder.context(self));
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<Context> {
        with_decoder(take, Decoder::context)
    }
}

impl Interrupt {
    /// As [`Doing::put`].
    pub fn put(self, put: &mut Put) {
        with_encoder(put, |encoder| encoder.interrupt(self));
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<Interrupt> {
        with_decoder(take, Decoder::interrupt)
    }
}

fn with_encoder(put: &mut Put, encode: impl FnOnce(&mut Encoder)) {
    let mut encoder = Encoder { put: std::mem::take(put), now: 0 };
    encode(&mut encoder);
    *put = encoder.put;
}

fn with_decoder<'a, T>(take: &mut Take<'a>, decode: impl FnOnce(&mut Decoder<'a>) -> Option<T>) -> Option<T> {
    let mut decoder = Decoder { take: *take, now: 0 };
    let found = decode(&mut decoder);
    *take = decoder.take;
    found
}

impl Encoder {
    fn time(&mut self, time: i64) {
        self.put.signed(self.now.wrapping_sub(time));
    }

    fn doubt(&mut self, doubt: Doubt) {
        self.put.byte(doubt.bits());
    }

    fn interrupt(&mut self, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Irq(number) => {
                self.put.byte(0);
                self.put.signed(number.into());
            }
            Interrupt::Softirq(vec) => self.put.0.extend([1, vec]),
            Interrupt::Vector(vector) => self.put.0.extend([2, vector]),
            Interrupt::Hrtimer(function) => {
                self.put.byte(3);
                self.put.number(function);
            }
            Interrupt::Timer(function) => {
                self.put.byte(4);
                self.put.number(function);
            }
            Interrupt::Hard => self.put.byte(5),
            Interrupt::Soft => self.put.byte(6),
        }
    }

    fn context(&mut self, context: Context) {
        match context {
            Context::Unknown => self.put.byte(0),
            Context::Idle => self.put.byte(1),
            Context::Thread(tid) => {
                self.put.byte(2);
                self.put.signed(tid.into());
            }
            Context::Interrupt(interrupt) => {
                self.put.byte(3);
                self.interrupt(interrupt);
            }
        }
    }

    fn waker(&mut self, waker: Waker) {
        self.put.number(waker.cpu.into());
        self.context(waker.context);
    }

    fn ready(&mut self, why: Ready) {
        match why {
            Ready::Woken(waker) => {
                self.put.byte(0);
                self.waker(waker);
            }
            Ready::New(waker) => {
                self.put.byte(1);
                self.waker(waker);
            }
            Ready::Preempted { by } => {
                self.put.byte(2);
                self.put.signed(by.into());
            }
            Ready::GaveWay { to } => {
                self.put.byte(3);
                self.put.signed(to.into());
            }
        }
    }

    fn doing(&mut self, doing: Doing) {
        match doing {
            Doing::Unknown => self.put.byte(0),
            Doing::Forked => self.put.byte(1),
            Doing::Running { cpu } => {
                self.put.byte(2);
                self.put.number(cpu.into());
            }
            Doing::Runnable { why, cpu } => {
                self.put.byte(3);
                self.ready(why);
                self.put.option(cpu, |put, cpu| put.number(cpu.into()));
            }
            Doing::Blocked { state, call, in_fault } => {
                self.put.0.extend([if in_fault { 6 } else { 4 }, state]);
                self.put.option(call, |put, call| put.number(call.0.into()));
            }
            Doing::Ended => self.put.byte(5),
        }
    }

    fn frame(&mut self, frame: &Frame) {
        self.interrupt(frame.interrupt);
        self.put.text(frame.name.as_str());
        self.time(frame.since);
        self.maybe_time(frame.raised);
        self.put.signed(frame.away_ns);
        self.time(frame.left);
        self.doubt(frame.doubt);
    }

    fn frames(&mut self, frames: &[Frame]) {
        self.put.number(frames.len() as u64);
        frames.iter().for_each(|frame| self.frame(frame));
    }

    fn maybe_time(&mut self, time: Option<i64>) {
        self.put.byte(time.is_some().into());
        time.into_iter().for_each(|time| self.time(time));
    }

    fn cpu(&mut self, cpu: &Cpu) {
        self.put.number(cpu.number.into());
        self.context(cpu.current);
        self.put.option(cpu.idle, |put, state| put.number(state.into()));
        self.put.option(cpu.khz, |put, khz| put.number(khz.into()));
        self.time(cpu.since);
        self.frames(cpu.frames());
        for since in cpu.off {
            self.maybe_time(since.map(|since| since.at));
            since.into_iter().for_each(|since| self.doubt(since.doubt));
        }
        cpu.raised.iter().for_each(|raised| self.maybe_time(*raised));
        self.maybe_time(cpu.expired_due);
        self.maybe_time(cpu.clock_read.map(|(_, first)| first));
        cpu.clock_read.into_iter().for_each(|(now, _)| self.put.signed(now));
        self.doubt(cpu.doubt);
        self.doubt(cpu.current_doubt);
        self.time(cpu.lost_until);
        self.time(cpu.newest);
    }

    fn call(&mut self, call: &Call) {
        self.put.number(call.call.0.into());
        call.args.iter().for_each(|arg| self.put.number(*arg));
        self.time(call.since);
        self.put.byte(call.blocked.into());
        self.put.option(call.owner, |put, owner| put.signed(owner.into()));
        self.doubt(call.doubt);
    }

    fn thread(&mut self, thread: &Thread) {
        self.put.signed(thread.tid.into());
        self.put.option(thread.process, |put, process| put.signed(process.into()));
        self.put.text(thread.name.as_str());
        self.put.option(thread.prio, |put, prio| put.signed(prio.into()));
        self.doing(thread.doing);
        self.time(thread.since);
        self.put.signed(thread.since.wrapping_sub(thread.ready_from));
        self.doubt(thread.doubt);
        self.put.byte(thread.call.is_some().into());
        thread.call.iter().for_each(|call| self.call(call));
        self.put.byte(thread.woken.is_some().into());
        if let Some((waker, at)) = thread.woken {
            self.waker(waker);
            self.time(at);
        }
        self.maybe_time(thread.due);
        self.frames(&thread.frames);
        let flags = [
            (thread.is_fresh, IS_FRESH),
            (thread.told, TOLD),
            (thread.is_created, IS_CREATED),
            (thread.fault == Some(Fault::User), FAULT_USER),
            (thread.fault == Some(Fault::Kernel), FAULT_KERNEL),
        ];
        self.put.byte(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    }
}

impl Decoder<'_> {
    fn time(&mut self) -> Option<i64> {
        Some(self.now.wrapping_sub(self.take.signed()?))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn int(&mut self) -> Option<i32> {
        i32::try_from(self.take.signed()?).ok()
    }

    fn maybe_int(&mut self) -> Option<Option<i32>> {
        if self.flag()? { self.int().map(Some) } else { Some(None) }
    }

    fn maybe_number(&mut self) -> Option<Option<u32>> {
        self.take.option(Take::small)
    }

    fn maybe_time(&mut self) -> Option<Option<i64>> {
        if self.flag()? { self.time().map(Some) } else { Some(None) }
    }

    fn doubt(&mut self) -> Option<Doubt> {
        self.take.byte().map(Doubt::from_bits)
    }

    fn name(&mut self) -> Option<Name> {
        let text = self.take.text()?;
        Some(Name::new(text)).filter(|name| name.as_str() == text)
    }

    fn interrupt(&mut self) -> Option<Interrupt> {
        Some(match self.take.byte()? {
            0 => Interrupt::Irq(self.int()?),
            1 => Interrupt::Softirq(self.take.byte()?),
            2 => Interrupt::Vector(self.take.byte()?),
            3 => Interrupt::Hrtimer(self.take.number()?),
            4 => Interrupt::Timer(self.take.number()?),
            5 => Interrupt::Hard,
            6 => Interrupt::Soft,
            _ => return None,
        })
    }

    fn context(&mut self) -> Option<Context> {
        Some(match self.take.byte()? {
            0 => Context::Unknown,
            1 => Context::Idle,
            2 => Context::Thread(self.int()?),
            3 => Context::Interrupt(self.interrupt()?),
            _ => return None,
        })
    }

    fn waker(&mut self) -> Option<Waker> {
        Some(Waker { cpu: self.take.small()?, context: self.context()? })
    }

    fn ready(&mut self) -> Option<Ready> {
        Some(match self.take.byte()? {
            0 => Ready::Woken(self.waker()?),
            1 => Ready::New(self.waker()?),
            2 => Ready::Preempted { by: self.int()? },
            3 => Ready::GaveWay { to: self.int()? },
            _ => return None,
        })
    }

    fn doing(&mut self) -> Option<Doing> {
        Some(match self.take.byte()? {
            0 => Doing::Unknown,
            1 => Doing::Forked,
            2 => Doing::Running { cpu: self.take.small()? },
            3 => Doing::Runnable { why: self.ready()?, cpu: self.maybe_number()? },
            kind @ (4 | 6) => Doing::Blocked {
                state: self.take.byte()?,
                call: self.take.option(|take| take.small().map(CallId))?,
                in_fault: kind == 6,
            },
            5 => Doing::Ended,
            _ => return None,
        })
    }

    fn frames(&mut self) -> Option<Vec<Frame>> {
        let count = self.take.count().filter(|&count| count <= DEPTH_MAX)?;
        (0..count).map(|_| self.frame()).collect()
    }

    fn frame(&mut self) -> Option<Frame> {
        Some(Frame {
            interrupt: self.interrupt()?,
            name: self.name()?,
            since: self.time()?,
            raised: self.maybe_time()?,
            away_ns: self.take.signed()?,
            left: self.time()?,
            doubt: self.doubt()?,
        })
    }

    fn cpu(&mut self) -> Option<Cpu> {
        let number = self.take.small().filter(|&number| number < CPUS_MAX)?;
        let mut cpu = Cpu::new(number, 0);
        cpu.current = self.context()?;
        cpu.idle = self.maybe_number()?;
        cpu.khz = self.maybe_number()?;
        cpu.since = self.time()?;
        cpu.frames = self.frames()?;
        for index in 0..cpu.off.len() {
            cpu.off[index] = match self.maybe_time()? {
                Some(at) => Some(Since { at, doubt: self.doubt()? }),
                None => None,
            };
        }
        for index in 0..cpu.raised.len() {
            cpu.raised[index] = self.maybe_time()?;
        }
        cpu.expired_due = self.maybe_time()?;
        cpu.clock_read = match self.maybe_time()? {
            Some(first) => Some((self.take.signed()?, first)),
            None => None,
        };
        cpu.doubt = self.doubt()?;
        cpu.current_doubt = self.doubt()?;
        cpu.lost_until = self.time()?;
        cpu.newest = self.time()?;
        Some(cpu)
    }

    fn call(&mut self) -> Option<Call> {
        Some(Call {
            call: CallId(self.take.small()?),
            args: [self.take.number()?, self.take.number()?],
            since: self.time()?,
            blocked: self.flag()?,
            owner: self.maybe_int()?,
            doubt: self.doubt()?,
        })
    }

    fn thread(&mut self) -> Option<Thread> {
        let tid = self.int()?;
        let mut thread = Thread::new(tid, 0);
        thread.process = self.maybe_int()?;
        thread.name = self.name()?;
        thread.prio = self.maybe_int()?.map(i16::try_from).transpose().ok()?;
        thread.doing = self.doing()?;
        thread.since = self.time()?;
        thread.ready_from = thread.since.wrapping_sub(self.take.signed()?);
        thread.doubt = self.doubt()?;
        thread.call = if self.flag()? { Some(self.call()?) } else { None };
        thread.woken = if self.flag()? { Some((self.waker()?, self.time()?)) } else { None };
        thread.due = self.maybe_time()?;
        thread.frames = self.frames()?;
        let flags = self.take.byte().filter(|flags| *flags <= FLAGS)?;
        (thread.is_fresh, thread.told) = (flags & IS_FRESH != 0, flags & TOLD != 0);
        thread.is_created = flags & IS_CREATED != 0;
        thread.fault = match (flags & FAULT_USER != 0, flags & FAULT_KERNEL != 0) {
            (true, true) => return None,
            (true, false) => Some(Fault::User),
            (false, is_kernel) => is_kernel.then_some(Fault::Kernel),
        };
        Some(thread)
    }
}
