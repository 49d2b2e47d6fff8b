// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of records as events make them: which open, which close, and by which keys. `latency` and `wakeup` make
//! pairs of an expression; `matcher` finds them in records.

use crate::ast::Expr;
use crate::plan::{Cond, OperandSource, Record, Value};
use crate::schema::Event;

/// Which events open and close a pair, and by which keys. All by event.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub opens: Vec<Option<Opening>>,
    pub closes: Vec<Option<Vec<OperandSource>>>,
    /// Both are of one thread: the key is its number.
    pub is_of_thread: bool,
    /// Wake-ups: a thread ceases to run.
    pub leaves: Vec<Option<Leaving>>,
}

impl Pair {
    pub fn is_of_wakeups(&self) -> bool {
        !self.leaves.is_empty()
    }
}

/// How an event opens.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub keys: Vec<OperandSource>,
    /// Holds for the records that open; others take away what was open.
    pub when: Cond,
    /// Whether it takes the place of an opening with the same keys.
    pub replaces: bool,
}

/// Makes the plan of a condition for one event.
pub(crate) type Planner<'p> = dyn FnMut(&Expr, &Event) -> Cond + 'p;

/// Values of `prev_state` of a thread that could go on: it gave way, or was preempted (by the number of states that
/// kernels report).
const RUNNABLE: [i128; 3] = [0, 0x100, 0x200];
/// Bits of `prev_state` of a thread that ends.
const DEAD: i128 = 0x30;

/// What a switch says of the thread that ran before it.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub thread: OperandSource,
    pub state: OperandSource,
}

/// How a thread ceased to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Runnable,
    Asleep,
    Dead,
    /// The idle thread of a CPU, which nobody wakes.
    Idle,
}

impl Leaving {
    pub(crate) fn how<R: Record>(&self, record: &R) -> Left {
        let number = |source: &OperandSource| match source {
            OperandSource::Place(place) => match record.field(place) {
                Value::Int(value) | Value::Label(value, _) => Some(value),
                _ => None,
            },
            OperandSource::Context(_) => None,
        };
        match (number(&self.thread), number(&self.state)) {
            (Some(0), _) => Left::Idle,
            (_, Some(state)) if RUNNABLE.contains(&state) => Left::Runnable,
            (_, Some(state)) if state & DEAD != 0 => Left::Dead,
            _ => Left::Asleep,
        }
    }
}
