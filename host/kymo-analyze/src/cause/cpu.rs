// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stretch of a CPU as segments: who had it, and with what switched off.

use crate::cause::evidence::Evidence;
use crate::cause::segments::{Segment, within};
use crate::cause::{Cause, Ground};
use crate::doubt::Doubt;
use crate::event::Off;
use crate::span::Context;

impl Evidence {
    /// Who had a CPU in [from, to), without gap.
    pub fn segments_of_cpu(&self, cpu: u32, from: i64, to: i64) -> Vec<Segment> {
        let mut list: Vec<Segment> = Vec::new();
        let mut put = |cause, (from, to), doubt| {
            if to > from {
                list.push(Segment { from, to, cpu: Some(cpu), cause, ground: Ground::Seen, doubt });
            }
        };
        let mut at = from;
        for span in self.history.of_cpu(cpu, from, to) {
            let (begin, end) = (span.from.max(at), span.to.min(to));
            put(Cause::Remainder, (at, begin), Doubt::START);
            let doubt = within(span.doubt, span.context == Context::Unknown);
            match span.context {
                Context::Unknown => put(Cause::Remainder, (begin, end), doubt),
                Context::Idle => put(Cause::Idle, (begin, end), doubt),
                Context::Interrupt(interrupt) => put(Cause::Interrupt(interrupt), (begin, end), doubt),
                Context::Thread(tid) => {
                    for (begin, end, off) in self.by_off(cpu, begin, end) {
                        let cause = match off {
                            Some(Off::Irqs) => Cause::IrqsOff { by: tid },
                            Some(Off::Preemption) => Cause::PreemptionOff { by: tid },
                            None => Cause::Ran { tid },
                        };
                        put(cause, (begin, end), doubt);
                    }
                }
            }
            at = end.max(at);
        }
        put(Cause::Remainder, (at, to), Doubt::END);
        list
    }
}
