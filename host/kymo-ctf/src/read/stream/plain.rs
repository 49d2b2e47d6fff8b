// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passing over records of which nothing is wanted but what they are and when they were written.
//!
//! Only the plain case is done here. Whatever is not plain (a head that needs the tape, a field that is nested, a
//! record that does not fit, a time that is odd, a thread record) is left to [`Stream::advance`], which comes to the
//! same record and knows what to say of it.

use super::super::class::{EventTable, Ranges};
use super::super::head_word::{HeadWord, Stamped};
use super::super::plan::{Header, Stamp, aligned};
use super::super::skip::Skip;
use super::{Cursor, Stream, extended};

/// How far [`Stream::pass_plain`] goes at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Until {
    /// In front of the first record that begins at this bit of the packet or behind it.
    pub bits: u64,
    /// In front of the first record that stands at this time or behind it, cycles.
    pub time: u64,
    /// In front of the first record whose fields begin within a byte.
    pub whole_bytes: bool,
    /// Behind so many records.
    pub records: u64,
}

impl Until {
    /// To the packet's end.
    pub const END: Self = Self { bits: u64::MAX, time: u64::MAX, whole_bytes: false, records: u64::MAX };
}

/// A head, as far as it is plain.
struct PlainHead<'t> {
    header: &'t Header,
    word: Option<&'t HeadWord>,
    events: &'t EventTable,
}

impl PlainHead<'_> {
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

    /// Reads the head at `at`.
    #[inline]
    fn read(&self, data: &[u8], origin: u64, at: u64) -> Option<Stamped> {
        if let Some(stamped) = self.word.and_then(|word| word.read(data, origin, at)) {
            return Some(stamped);
        }
        let (stamp, begin) = self.stamp(data, origin, at)?;
        Some(Stamped {
            id: stamp.id.map_or(0, |id| id.read(data, origin + begin)),
            time: stamp.time.map(|time| (time.read(data, origin + begin), time.bits)),
            fields: begin + u64::from(stamp.bits),
        })
    }
}

#[inline]
fn is_between(value: u64, low: i128, high: i128) -> bool {
    low <= i128::from(value) && i128::from(value) <= high
}

/// An event that records were of, and how they are passed.
#[derive(Clone, Copy)]
struct KnownEvent<'t> {
    id: u64,
    event: usize,
    skip: &'t Skip,
}

impl Stream<'_> {
    /// Counts plain records of the open packet, up to one that is not, or to the packet's end. By position of their
    /// event.
    pub fn count_plain(&mut self, counts: &mut [u64]) {
        self.pass_plain(Until::END, |event, _| counts[event] += 1);
    }

    /// Passes over plain records of the open packet, up to one that is not, to the packet's end, or as far as `until`
    /// says. `note` gets the event of each, its position, and its time. Whether there was one.
    #[inline]
    pub(in crate::read) fn pass_plain(&mut self, until: Until, mut note: impl FnMut(usize, u64)) -> bool {
        self.pass_fields(until, |event, time, _| note(event, time))
    }

    /// The same; `note` also gets the bit of the file at which the fields begin.
    #[inline]
    pub(in crate::read) fn pass_fields(&mut self, until: Until, note: impl FnMut(usize, u64, u64)) -> bool {
        self.pass_chosen(until, |_| true, note)
    }

    /// The same of events that are chosen: up to a record of another one.
    #[inline]
    pub(in crate::read) fn pass_chosen(
        &mut self,
        until: Until,
        is_chosen: impl Fn(usize) -> bool,
        mut note: impl FnMut(usize, u64, u64),
    ) -> bool {
        let Some(packet) = &self.packet else { return false };
        let (origin, end) = (self.cursor.bit() - self.cursor.at, self.cursor.end());
        // Nothing is searched for beyond the packet.
        let data = &self.data[..self.data.len().min((origin + end).div_ceil(8) as usize)];
        let plans = &self.layout.plans;
        let header = &plans.headers[self.class];
        let events = &self.metadata.streams[self.class].events;
        let head = PlainHead { header, word: plans.head_words[self.class].as_ref(), events };
        let (first, stop) = (self.cursor.at, end.min(until.bits));
        let (mut at, time_max) = (first, packet.end.unwrap_or(u64::MAX));
        let (mut time, mut order, mut reference) = (self.time, self.order, self.reference);
        // Of the record before: mostly the next one is of the same event, and then its length need not wait for tables.
        let mut known: Option<KnownEvent<'_>> = None;
        let mut left = until.records;
        while at < stop && left > 0 {
            let Some(stamped) = head.read(data, origin, at) else { break };
            let of = match known {
                Some(known) if known.id == stamped.id => known,
                _ => {
                    let Some(event) = head.events.get(stamped.id).map(|event| event as usize) else { break };
                    if plans.threads[self.class] == Some(event) || !is_chosen(event) {
                        break;
                    }
                    KnownEvent { id: stamped.id, event, skip: &plans.skips[event] }
                }
            };
            known = Some(of);
            let Some(behind) = of.skip.pass(data, origin, stamped.fields) else { break };
            if behind > end || behind == at {
                break;
            }
            let now = stamped.time.map(|(low, bits)| extended(reference, low, bits));
            if now.is_some_and(|now| now < reference || now > time_max) || now.unwrap_or(order) >= until.time {
                break;
            }
            if until.whole_bytes && (origin + stamped.fields) % 8 != 0 {
                break;
            }
            if let Some(now) = now {
                (time, order, reference) = (now, now, now);
            }
            left -= 1;
            note(of.event, time, origin + stamped.fields);
            at = behind;
        }
        self.cursor.at = at;
        (self.time, self.order, self.reference) = (time, order, reference);
        at != first
    }

    /// Passes over the head of the record at the cursor, where one word has it and the packet has it whole: its id, and
    /// its time stamp, bits and how many they are.
    #[inline]
    pub(super) fn pass_head_word(&self, cursor: &mut Cursor<'_>) -> Option<(u64, Option<(u64, u8)>)> {
        let word = self.layout.plans.head_words[self.class].as_ref()?;
        let stamped = word.read(self.data, cursor.bit() - cursor.at, cursor.at)?;
        if stamped.fields > cursor.end() {
            return None;
        }
        cursor.at = stamped.fields;
        Some((stamped.id, stamped.time))
    }

    /// Passes over records of the open packet, plain or not, up to the first one that begins at bit `until` of the
    /// packet or behind it. The one in front of it has no odd time, because a place has one time only. Gives the
    /// highest place that one of those has in the order of a merge. `None` where no record is left, or none that can be
    /// read; then the packet is of no use any more.
    pub(super) fn pass_to(&mut self, until: u64) -> Option<u64> {
        let mut highest = 0;
        while self.cursor.at < until || (self.time, self.order) != (self.reference, self.reference) {
            if self.pass_plain(Until { bits: until, ..Until::END }, |_, _| {}) {
                highest = highest.max(self.order);
                continue;
            }
            if self.content.is_damaged() || !self.record() {
                return None;
            }
            highest = highest.max(self.order);
        }
        Some(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_bounds() {
        assert!(is_between(u64::MAX, 0, i128::from(u64::MAX)));
        assert!(!is_between(5, -3, 4));
    }
}
