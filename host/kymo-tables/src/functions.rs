// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of functions from their entries and exits [spec/exchange.md 4], for the table `slices`.

use std::collections::HashMap;

use kymo_analyze::{Doubt, State};
use kymo_ctf::read::Trace;
use kymo_export::export::stacks::{Call, Frame, call_of, is_call};
use kymo_feed::Seen;

use crate::derived::slice::Slice;

/// Calls of a thread that are open at most: deeper ones are not rows.
const DEPTH_MAX: usize = 4096;

/// A call that has not ended.
struct Open {
    function: Frame,
    from: i64,
}

/// A thread: its trace, process and number; of one whose number is not known, its CPU.
type Who = (usize, Option<i32>, Option<i32>, Option<u32>);

/// Calls of a thread.
#[derive(Default)]
struct Stack {
    open: Vec<Open>,
    /// Deeper calls that are open: their exits are none of these.
    skipped: usize,
}

/// Open calls of all threads.
pub(crate) struct Calls {
    /// By trace and event.
    is_call: Vec<Vec<bool>>,
    open: HashMap<Who, Stack>,
    /// Records are missing before this time.
    lost_until: i64,
}

impl Calls {
    /// Of these traces.
    pub fn new(traces: &[Trace]) -> Calls {
        let of = |trace: &Trace| trace.metadata.events.iter().map(|event| is_call(&event.name)).collect();
        Calls { is_call: traces.iter().map(of).collect(), open: HashMap::new(), lost_until: i64::MIN }
    }

    /// Records are missing up to a time: of calls that were begun before, it is not known what they called.
    pub fn lost(&mut self, to: i64) {
        self.lost_until = self.lost_until.max(to);
    }

    /// Takes a record; calls that end with it are slices.
    pub fn record(&mut self, seen: &Seen<'_, '_>, state: &State, slices: &mut Vec<Slice>) {
        let record = seen.record;
        if !self.is_call[record.trace][record.event_position] {
            return;
        }
        let Some(call) = call_of(record) else { return };
        let writer = seen.writer(state);
        let cpu = if writer.tid.is_none_or(|tid| tid == 0) { record.cpu } else { None };
        let stack = self.open.entry((record.trace, writer.process, writer.tid, cpu)).or_default();
        let calls = &mut stack.open;
        let left = match call {
            Call::Enter(_) if stack.skipped > 0 || calls.len() >= DEPTH_MAX => {
                stack.skipped += 1;
                return;
            }
            Call::Enter(function) => {
                calls.push(Open { function, from: seen.head.time });
                return;
            }
            Call::Leave(_) if stack.skipped > 0 => {
                stack.skipped -= 1;
                return;
            }
            Call::Leave(None) => calls.len().checked_sub(1),
            Call::Leave(Some(function)) => calls.iter().rposition(|open| open.function == function),
        };
        // Begun before the trace.
        let Some(left) = left else { return };
        for (depth, open) in calls.drain(left..).enumerate().rev() {
            slices.push(Slice {
                from: open.from,
                to: seen.head.time,
                kind: "function",
                of: text(&open.function),
                tid: writer.tid,
                who: Some((writer.process, writer.name)),
                cpu: record.cpu,
                value: None,
                depth: Some((left + depth) as u64),
                // Without an exit, it ended with its caller.
                doubt: Doubt::MISSED.when(depth > 0) | Doubt::LOST.when(open.from < self.lost_until),
            });
        }
    }
}

fn text(function: &Frame) -> String {
    match function {
        Frame::Address(_, address) => format!("{address:#x}"),
        Frame::Name(name) => name.clone(),
    }
}
