// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting records of which nothing is wanted but what they are.
//!
//! Only the plain case is done here. Whatever is not plain (a head that needs the tape, a field that is nested, a
//! record that does not fit, a time that is odd) is left to [`Stream::advance`], which comes to the same record and
//! knows what to say of it.

use super::super::class::{EventTable, Ranges};
use super::super::plan::{Header, Stamp};
use super::{Stream, extended};

/// A head, as far as it is plain.
struct Head<'t> {
    header: &'t Header,
    events: &'t EventTable,
}

impl Head<'_> {
    /// Layout and first bit of the head at `at`.
    #[inline]
    fn stamp(&self, data: &[u8], origin: u64, at: u64) -> Option<(&Stamp, u64)> {
        match self.header {
            Header::Fixed(stamp) => Some((stamp, aligned(at, stamp.align))),
            Header::Tagged { align, tag, options } => {
                let at = aligned(at, *align);
                let value = tag.read(data, origin + at);
                // A negative tag is none of these.
                let has = |ranges: &Ranges| ranges.iter().any(|&(low, high)| is_between(value, low, high));
                let option = options.iter().find(|(ranges, _)| !tag.signed && has(ranges));
                option.map(|(_, stamp)| (stamp, at))
            }
            Header::Any(_) => None,
        }
    }
}

#[inline]
fn is_between(value: u64, low: i128, high: i128) -> bool {
    low <= i128::from(value) && i128::from(value) <= high
}

#[inline]
fn aligned(at: u64, align: u32) -> u64 {
    let mask = u64::from(align) - 1;
    (at + mask) & !mask
}

impl Stream<'_> {
    /// Counts plain records of the open packet, up to one that is not, or to the packet's end. By position of their
    /// event.
    pub fn count_plain(&mut self, counts: &mut [u64]) {
        let Some(packet) = &self.packet else { return };
        let (origin, end) = (self.cursor.bit() - self.cursor.at, self.cursor.end());
        // Nothing is searched for beyond the packet.
        let data = &self.data[..self.data.len().min((origin + end).div_ceil(8) as usize)];
        let plans = &self.layout.plans;
        let head = Head { header: &plans.headers[self.class], events: &self.metadata.streams[self.class].events };
        let (mut at, mut time, time_max) = (self.cursor.at, self.reference, packet.end.unwrap_or(u64::MAX));
        while at < end {
            let Some((stamp, begin)) = head.stamp(data, origin, at) else { break };
            let id = stamp.id.map_or(0, |id| id.read(data, origin + begin));
            let Some(event) = head.events.get(id).map(|event| event as usize) else { break };
            let fields = begin + u64::from(stamp.bits);
            let Some(behind) = plans.skips[event].pass(data, origin, fields) else { break };
            if behind > end || behind == at {
                break;
            }
            if let Some(piece) = stamp.time {
                let now = extended(time, piece.read(data, origin + begin), piece.bits);
                if now < time || now > time_max {
                    break;
                }
                time = now;
            }
            counts[event] += 1;
            at = behind;
        }
        (self.cursor.at, self.time, self.order, self.reference) = (at, time, time, time);
    }
}

#[cfg(test)]
mod tests {
    use super::is_between;

    #[test]
    fn tags_have_bounds() {
        assert!(is_between(u64::MAX, 0, i128::from(u64::MAX)));
        assert!(!is_between(5, -3, 4));
    }
}
