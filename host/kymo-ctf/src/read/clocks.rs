// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks that several traces share.

use super::clock::{Clock, Correction};
use super::trace::Trace;

/// A clock whose rate is further off than a thousandth is another one, whatever it is called.
const RATE_SHARE: u64 = 1000;

/// Makes clocks of the same name and UUID one clock, as the last of the traces describes it: chunks of one session, or
/// sessions of one boot, know its rate ever better, and would differ by nanoseconds where their records meet.
pub fn unite_clocks(traces: &mut [Trace]) {
    for index in (1..traces.len()).rev() {
        let (before, from) = traces.split_at_mut(index);
        for clock in &from[0].metadata.clocks {
            for other in before.iter_mut().flat_map(|trace| &mut trace.metadata.clocks) {
                if is_same(clock, other) {
                    other.clone_from(clock);
                }
            }
        }
    }
}

impl Trace {
    /// From now on the times of all its clocks are given as those of another clock.
    pub fn correct(&mut self, correction: Correction) {
        self.metadata.clocks.iter_mut().for_each(|clock| clock.correction = Some(correction));
    }
}

fn is_same(one: &Clock, other: &Clock) -> bool {
    let is_near = one.frequency_hz.abs_diff(other.frequency_hz) <= one.frequency_hz / RATE_SHARE;
    one.uuid.is_some() && one.uuid == other.uuid && one.name == other.name && one.absolute == other.absolute && is_near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Memory;

    fn trace(clock: &str) -> Trace {
        let metadata = format!(
            "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\n\
             clock {{ {clock} }};\nstream {{ }};\n"
        );
        Trace::from_files(&Memory { metadata: metadata.into_bytes(), streams: Vec::new() }).unwrap().value
    }

    #[test]
    fn one_clock_is_what_the_last_trace_says_of_it() {
        let a = "uuid = \"12345678-1234-1234-1234-123456789abc\";";
        let b = "uuid = \"12345678-1234-1234-1234-123456789abd\";";
        let mut traces = [
            trace(&format!("name = tsc; {a} freq = 2999999; offset_s = 1;")),
            trace(&format!("name = tsc; {b} freq = 2999999; offset_s = 2;")),
            trace(&format!("name = mono; {a} freq = 2999999; offset_s = 3;")),
            trace(&format!("name = tsc; {a} freq = 4000000; offset_s = 4;")),
            trace("name = tsc; freq = 2999999; offset_s = 5;"),
            trace(&format!("name = tsc; {a} freq = 3000000; offset_s = 6;")),
        ];
        unite_clocks(&mut traces);
        let offsets = traces.each_ref().map(|trace| trace.metadata.clocks[0].offset_s);
        assert_eq!(offsets, [6, 2, 3, 4, 5, 6]);
        assert_eq!(traces[0].metadata.clocks[0].frequency_hz, 3_000_000);
    }
}
