// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stretch of a thread was made of [spec/analyze.md 6].

use crate::CallId;
use crate::doubt::Doubt;
use crate::event::Interrupt;
use crate::history::History;
use crate::span::{Context, Doing, ThreadSpan, Until, Waker};

/// What a piece of time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetPart {
    /// The thread ran.
    Running,
    /// It would have run, but for this.
    Interrupt(Interrupt),
    /// It could run, and another thread had its CPU; none: it is not known which.
    Preempted {
        /// That thread.
        by: Option<i32>,
    },
    /// It could run, and its CPU was busy with this.
    WaitInterrupt(Interrupt),
    /// It could run, and its CPU had not come out of idle.
    IdleExit,
    /// It could run, and its CPU was between threads.
    Switching,
    /// It waited.
    Blocked {
        /// The kernel's letter.
        state: u8,
        /// The system call it was in.
        call: Option<CallId>,
        /// Who ended that.
        waker: Option<Waker>,
    },
    /// Not known, not yet made, or ended.
    Unknown,
}

/// One piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// What it went to.
    pub part: BudgetPart,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// The pieces of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The part.
    pub part: BudgetPart,
    /// ns in all.
    pub ns: u64,
    /// How many pieces.
    pub pieces: u64,
    /// What is doubtful about any of them.
    pub doubt: Doubt,
}

impl History {
    /// What [from, to) of a thread was made of, piece by piece, without gap and overlap.
    pub fn pieces(&self, tid: i32, from: i64, to: i64) -> Vec<Piece> {
        let mut pieces = Pieces { list: Vec::new(), at: from, to };
        for span in self.of_thread(tid, from, to) {
            pieces.fill(span.from, BudgetPart::Unknown, Doubt::START);
            match span.doing {
                Doing::Running { cpu } => self.running(span, cpu, &mut pieces),
                Doing::Runnable { cpu, .. } => self.waiting(span, cpu, &mut pieces),
                Doing::Blocked { state, call, .. } => {
                    let waker = match span.until {
                        Until::Woken(waker) => Some(waker),
                        _ => None,
                    };
                    pieces.fill(span.to, BudgetPart::Blocked { state, call, waker }, span.doubt);
                }
                Doing::Unknown | Doing::Forked | Doing::Ended => pieces.fill(span.to, BudgetPart::Unknown, span.doubt),
            }
        }
        pieces.fill(to, BudgetPart::Unknown, Doubt::END);
        pieces.list
    }

    /// The same, summed up by part, the largest first.
    pub fn budget(&self, tid: i32, from: i64, to: i64) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        let mut index = crate::hash::Map::default();
        for piece in self.pieces(tid, from, to) {
            let at = *index.entry(piece.part).or_insert(shares.len());
            if at == shares.len() {
                shares.push(Share { part: piece.part, ns: 0, pieces: 0, doubt: Doubt::NONE });
            }
            shares[at].ns += piece.to.abs_diff(piece.from);
            shares[at].pieces += 1;
            shares[at].doubt |= piece.doubt;
        }
        shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
        shares
    }

    fn running(&self, span: &ThreadSpan, cpu: u32, pieces: &mut Pieces) {
        for other in self.of_cpu(cpu, span.from, span.to) {
            if let Context::Interrupt(interrupt) = other.context {
                pieces.fill(other.from.min(span.to), BudgetPart::Running, span.doubt);
                pieces.fill(other.to.min(span.to), BudgetPart::Interrupt(interrupt), span.doubt | other.doubt);
            }
        }
        pieces.fill(span.to, BudgetPart::Running, span.doubt);
    }

    fn waiting(&self, span: &ThreadSpan, cpu: Option<u32>, pieces: &mut Pieces) {
        let ran_on = match span.until {
            Until::Runs { cpu } => Some(cpu),
            _ => None,
        };
        let nobody = BudgetPart::Preempted { by: None };
        if let Some(cpu) = cpu.or(ran_on) {
            for other in self.of_cpu(cpu, span.from, span.to) {
                let part = match other.context {
                    Context::Idle => BudgetPart::IdleExit,
                    Context::Thread(tid) if tid == span.tid => BudgetPart::Switching,
                    Context::Thread(tid) => BudgetPart::Preempted { by: Some(tid) },
                    Context::Interrupt(interrupt) => BudgetPart::WaitInterrupt(interrupt),
                    Context::Unknown => nobody,
                };
                pieces.fill(other.from.min(span.to), nobody, span.doubt);
                pieces.fill(other.to.min(span.to), part, span.doubt | other.doubt);
            }
        }
        pieces.fill(span.to, nobody, span.doubt);
    }
}

/// Pieces of [at, to), one behind the other.
struct Pieces {
    list: Vec<Piece>,
    at: i64,
    to: i64,
}

impl Pieces {
    /// Up to a time all goes to a part.
    fn fill(&mut self, until: i64, part: BudgetPart, doubt: Doubt) {
        let until = until.min(self.to);
        if until <= self.at {
            return;
        }
        match self.list.last_mut().filter(|last| last.part == part && last.doubt == doubt) {
            Some(last) => last.to = until,
            None => self.list.push(Piece { from: self.at, to: until, part, doubt }),
        }
        self.at = until;
    }
}
