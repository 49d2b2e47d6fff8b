// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of one CPU.

use crate::doubt::Doubt;
use crate::event::{Interrupt, Off, SOFTIRQS};
use crate::name::Name;
use crate::span::{Context, CpuSpan};

/// Interrupts within interrupts that are followed. Hardware nests at most a few.
pub(super) const DEPTH_MAX: usize = 8;

/// An interrupt, softirq or timer call that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which.
    pub interrupt: Interrupt,
    /// What the trace calls it; may be empty.
    pub name: Name,
    /// ns.
    pub since: i64,
    /// Of a softirq: when it was raised.
    pub raised: Option<i64>,
    /// ns for which its thread did not run.
    pub(crate) away_ns: i64,
    /// When its thread left.
    pub(crate) left: i64,
    pub(crate) doubt: Doubt,
}

/// Interrupts or preemption off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// ns.
    pub at: i64,
    pub(crate) doubt: Doubt,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// A thread, idle, or not known.
    pub current: Context,
    /// The processor's idle state it is in.
    pub idle: Option<u32>,
    /// kHz, where the trace has told.
    pub khz: Option<u32>,
    /// Since when the innermost of what it does lasts, ns.
    pub since: i64,
    pub(super) frames: Vec<Frame>,
    /// Interrupts, preemption.
    pub(super) off: [Option<Since>; 2],
    pub(super) raised: [Option<i64>; SOFTIRQS.len()],
    /// Of the stretch.
    pub(crate) doubt: Doubt,
    /// Of who is current.
    pub(crate) current_doubt: Doubt,
    /// When the high-resolution timer was due whose function was called last, if its start is known.
    pub(crate) expired_due: Option<i64>,
    /// The timers' own clock as an interrupt read it last, and when it called the first timer after that.
    pub(crate) clock_read: Option<(i64, i64)>,
    /// Up to when records were lost.
    pub(crate) lost_until: i64,
    /// Newest record.
    pub(crate) newest: i64,
}

impl Cpu {
    pub(crate) fn new(number: u32, at: i64) -> Cpu {
        Cpu {
            number,
            current: Context::Unknown,
            idle: None,
            khz: None,
            since: at,
            frames: Vec::new(),
            off: [None; 2],
            raised: [None; SOFTIRQS.len()],
            doubt: Doubt::START,
            current_doubt: Doubt::START,
            expired_due: None,
            clock_read: None,
            lost_until: i64::MIN,
            newest: i64::MIN,
        }
    }

    /// The innermost of what it does.
    #[inline]
    pub fn context(&self) -> Context {
        self.frames.last().map_or(self.current, |frame| Context::Interrupt(frame.interrupt))
    }

    /// Interrupts within interrupts, the outermost first.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Since when interrupts or preemption are off.
    pub fn off(&self, what: Off) -> Option<Since> {
        self.off[what as usize]
    }

    /// When the high-resolution timer was due whose function is being called, if its start is known.
    #[inline]
    pub(crate) fn timer_due(&self) -> Option<i64> {
        self.expired_due.filter(|_| matches!(self.context(), Context::Interrupt(Interrupt::Hrtimer(_))))
    }

    /// When the timers' own clock was `now`, which the record at `at` says: an interrupt reads it once, before it calls
    /// all timers that are due. Each may take long, so it is the time of the first one.
    #[inline]
    pub(super) fn time_of_clock(&self, now: i64, at: i64) -> i64 {
        self.clock_read.filter(|(read, _)| *read == now).map_or(at, |(_, first)| first)
    }

    /// The thread that is current.
    #[inline]
    pub fn thread(&self) -> Option<i32> {
        match self.current {
            Context::Thread(tid) => Some(tid),
            _ => None,
        }
    }

    /// What is doubtful about what it does.
    #[inline]
    pub fn doubt(&self) -> Doubt {
        self.doubt | Doubt::LOST.when(self.since < self.lost_until)
    }

    /// Ends the stretch. Gives the span, if it has a length.
    #[inline]
    pub(crate) fn cut(&mut self, at: i64) -> Option<CpuSpan> {
        let doubt = self.doubt();
        let span = CpuSpan {
            cpu: self.number,
            from: self.since,
            to: at,
            context: self.context(),
            current: self.current,
            doubt,
        };
        (self.since, self.doubt) = (at, self.current_doubt);
        (at > span.from).then_some(span)
    }

    #[inline]
    pub(crate) fn push(&mut self, interrupt: Interrupt, name: Name, at: i64) {
        if self.frames.len() == DEPTH_MAX {
            self.frames.remove(0);
            self.doubt |= Doubt::MISSED;
        }
        let raised = match interrupt {
            Interrupt::Softirq(vec) => self.raised.get_mut(usize::from(vec)).and_then(Option::take),
            _ => None,
        };
        self.frames.push(Frame { interrupt, name, since: at, raised, away_ns: 0, left: at, doubt: Doubt::NONE });
    }

    /// Takes the frame of an interrupt; those within it had exits that are missing. `None` where it was not entered.
    #[inline]
    pub(crate) fn pop(&mut self, interrupt: Interrupt) -> Option<Frame> {
        let at = self.frames.iter().rposition(|frame| same(frame.interrupt, interrupt))?;
        let missing = self.frames.len() - at - 1;
        self.frames.truncate(at + 1);
        let mut frame = self.frames.pop()?;
        frame.doubt |= Doubt::MISSED.when(missing > 0) | Doubt::LOST.when(frame.since < self.lost_until);
        Some(frame)
    }

    /// The frames that go with a thread that is switched away. Where one of hardware is left, its exit is missing:
    /// none go.
    #[inline]
    pub(crate) fn take_frames(&mut self, at: i64) -> Vec<Frame> {
        if self.frames.iter().any(|frame| frame.interrupt.is_hard()) {
            self.frames.clear();
            self.doubt |= Doubt::MISSED;
            return Vec::new();
        }
        self.frames.iter_mut().for_each(|frame| frame.left = at);
        std::mem::take(&mut self.frames)
    }

    #[inline]
    pub(crate) fn give_frames(&mut self, mut frames: Vec<Frame>, at: i64) {
        frames.iter_mut().for_each(|frame| frame.away_ns = frame.away_ns.saturating_add(at.saturating_sub(frame.left)));
        self.frames = frames;
    }

    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    #[inline]
    pub(crate) fn raise(&mut self, vec: u8, at: i64) {
        if let Some(raised) = self.raised.get_mut(usize::from(vec)) {
            raised.get_or_insert(at);
        }
    }

    pub(crate) fn switch_off(&mut self, what: Off, at: i64) {
        let doubt = Doubt::IDLE.when(self.is_idle());
        self.off[what as usize].get_or_insert(Since { at, doubt });
    }

    pub(crate) fn switch_on(&mut self, what: Off) -> Option<Since> {
        let mut since = self.off[what as usize].take()?;
        since.doubt |= Doubt::IDLE.when(self.is_idle()) | Doubt::LOST.when(since.at < self.lost_until);
        Some(since)
    }

    /// Marks what is open: that the CPU idles in it.
    #[inline]
    pub(crate) fn note_idle(&mut self) {
        self.mark_off(Doubt::IDLE);
    }

    /// Marks everything that is open.
    pub(crate) fn mark(&mut self, doubt: Doubt) {
        self.doubt |= doubt;
        self.frames.iter_mut().for_each(|frame| frame.doubt |= doubt);
        self.mark_off(doubt);
    }

    #[inline]
    fn mark_off(&mut self, doubt: Doubt) {
        self.off.iter_mut().flatten().for_each(|since| since.doubt |= doubt);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.current == Context::Idle || self.idle.is_some()
    }

    /// Records are missing: nothing is known any more.
    #[inline]
    pub(crate) fn forget(&mut self) {
        (self.current, self.current_doubt) = (Context::Unknown, Doubt::NONE);
        self.idle = None;
        self.frames.clear();
        self.off = [None; 2];
        self.raised = [None; SOFTIRQS.len()];
    }
}

/// Exits of timer calls do not say which.
#[inline]
fn same(entered: Interrupt, left: Interrupt) -> bool {
    match (entered, left) {
        (Interrupt::Hrtimer(_), Interrupt::Hrtimer(_)) | (Interrupt::Timer(_), Interrupt::Timer(_)) => true,
        (entered, left) => entered == left,
    }
}
