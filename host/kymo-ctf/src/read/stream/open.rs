// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a packet: whose it is, how long, its times, and what was lost before it.

use std::sync::Arc;

use super::super::bits::{Cursor, Stop};
use super::super::class::Role;
use super::super::error::Damage;
use super::super::value::{Fields, Number, Value};
use super::{Lost, Packet, PacketFacts, Previous, Stream, counted, extended, goes_on};
use crate::write::PACKET_MAGIC;

enum HeaderProblem {
    Short,
    Magic,
    Uuid,
    Class(u64),
}

impl<'t> Stream<'t> {
    /// Reads the head of the packet at `self.next` and moves `self.next` behind the packet. Gives the loss that the
    /// packet tells of.
    pub(super) fn open_packet(&mut self) -> Option<Lost> {
        let start = self.next;
        let number = self.packets_met;
        self.opened = self.mark();
        self.forget();
        self.tell();
        self.packets_met += 1;
        let mut cursor = Cursor::new(self.data, start, self.data.len());
        self.decoder.clear(0);
        if let Some(problem) = self.packet_header(&mut cursor) {
            let skipped = self.resync(start);
            let damage = match problem {
                HeaderProblem::Short => {
                    self.next = self.data.len();
                    self.ends_inside((self.data.len() - start) as u64, 0)
                }
                HeaderProblem::Magic => Damage::BadMagic { skipped },
                HeaderProblem::Uuid => Damage::WrongUuid { skipped },
                HeaderProblem::Class(id) => Damage::UnknownStream { id, skipped },
            };
            self.caveat(number, start as u64, damage);
            return None;
        }
        self.decoder.frame.nodes.clear();
        if let Some(context) = self.stream_class().packet_context {
            if let Err(stop) = self.decoder.decode(&self.metadata.classes, context, &mut cursor) {
                let damage = match stop {
                    Stop::PastEnd => {
                        self.next = self.data.len();
                        self.ends_inside((self.data.len() - start) as u64, 0)
                    }
                    Stop::Bad(what) => {
                        self.resync(start);
                        Damage::BadRecord { what }
                    }
                };
                self.caveat(number, start as u64, damage);
                return None;
            }
        }
        self.decoder.frame.origin = start as u64 * 8;
        self.facts = Arc::new(PacketFacts::new(&self.facts, self.class, number, self.decoder.frame.clone()));
        let truncated = self.sizes(start, number, &mut cursor);
        self.open_times(start, number, cursor, truncated)
    }

    /// Decodes the packet header; `None` when the packet is one of ours.
    fn packet_header(&mut self, cursor: &mut Cursor<'t>) -> Option<HeaderProblem> {
        let metadata = self.metadata;
        if let Some(header) = metadata.packet_header {
            let start = cursor.byte() as usize;
            let rest = &self.data[start.min(self.data.len())..];
            let magic = &self.layout.pattern[..self.layout.pattern.len().min(4)];
            if rest.len() >= magic.len() && !rest.starts_with(magic) {
                return Some(HeaderProblem::Magic);
            }
            if self.decoder.decode(&metadata.classes, header, cursor).is_err() {
                return Some(HeaderProblem::Short);
            }
            if self.decoder.roles.get(Role::Magic).is_some_and(|magic| magic != u64::from(PACKET_MAGIC)) {
                return Some(HeaderProblem::Magic);
            }
            let expected = metadata.uuid.as_ref().filter(|_| !self.layout.ignores_uuid);
            if let (Some(expected), Some(member)) = (expected, metadata.uuid_member) {
                let fields = Fields::of_tape(&self.decoder.frame);
                if !fields.at(member).is_some_and(|value| same_bytes(&value, expected)) {
                    return Some(HeaderProblem::Uuid);
                }
            }
        }
        let id = self.decoder.roles.get(Role::StreamId);
        let found = match id {
            Some(id) => metadata.streams.iter().position(|class| class.id == id),
            // The id of CTF 2 is 0 then; in CTF 1.8 there is only one.
            None if metadata.streams.len() > 1 => metadata.streams.iter().position(|class| class.id == 0),
            None => Some(0),
        };
        match found {
            Some(class) => self.class = class,
            None => return Some(HeaderProblem::Class(id.unwrap_or(0))),
        }
        None
    }

    /// Limits `cursor` to the packet's content and moves `self.next` behind the packet. True when the file ends first.
    fn sizes(&mut self, start: usize, number: u64, cursor: &mut Cursor<'t>) -> bool {
        let remaining = (self.data.len() - start) as u64;
        let roles = &self.decoder.roles;
        let packet_bits = roles.get(Role::PacketSize).or(roles.get(Role::ContentSize)).unwrap_or(remaining * 8);
        let content_bits = roles.get(Role::ContentSize).unwrap_or(packet_bits);
        let head_bits = cursor.at;
        let consistent = packet_bits % 8 == 0 && content_bits <= packet_bits && content_bits >= head_bits;
        if consistent && packet_bits / 8 <= remaining && packet_bits > 0 {
            cursor.limit(content_bits);
            self.next = start + (packet_bits / 8) as usize;
            self.content_end = start + content_bits.div_ceil(8) as usize;
            return false;
        }
        let head_bytes = head_bits.div_ceil(8) as usize;
        let found = self.search((start + head_bytes.max(1)).min(self.data.len()), self.data.len());
        let end = found.unwrap_or(self.data.len());
        let truncated = consistent && found.is_none();
        let used_bytes = (end - start) as u64;
        // A content size that fits is right even where the packet size is not; one below the head leaves no records.
        cursor.limit(content_bits.min(used_bytes * 8));
        self.next = end;
        self.content_end = end;
        let damage = if truncated {
            self.ends_inside(used_bytes, packet_bits / 8)
        } else {
            Damage::Sizes { content_bits, packet_bits, used_bytes }
        };
        self.caveat(number, start as u64, damage);
        truncated
    }

    /// The file ends inside a packet, of which it has so many of the bytes that the packet says it has.
    fn ends_inside(&self, have: u64, said: u64) -> Damage {
        match self.layout.may_grow {
            true => Damage::Unfinished { have, said },
            false => Damage::Truncated { have, said },
        }
    }

    /// Times and counters of a packet whose sizes are known.
    fn open_times(&mut self, start: usize, number: u64, cursor: Cursor<'t>, truncated: bool) -> Option<Lost> {
        let roles = self.decoder.roles;
        let at = start as u64;
        let previous_end = self.previous.and_then(|previous| previous.end);
        let begin = roles.get(Role::Begin);
        let begin =
            begin.map_or(self.reference, |low| goes_on(self.reference, previous_end, low, roles.bits(Role::Begin)));
        // A crashed tracer leaves 0 for an end that it did not come to.
        let mut end = roles.get(Role::End).filter(|&end| end != 0 || begin == 0);
        end = end.map(|end| extended(begin, end, roles.bits(Role::End)));
        if let Some(wrong) = end.filter(|&end| end < begin) {
            self.caveat(number, at, Damage::EndBeforeBegin { begin, end: wrong });
            end = None;
        }
        if let Some(previous_end) =
            previous_end.filter(|&previous_end| begin < previous_end && roles.get(Role::Begin).is_some())
        {
            self.caveat(number, at, Damage::Overlap { begin, previous_end });
        }
        let (discarded, sequence) = (roles.get(Role::Discarded), roles.get(Role::Sequence));
        let before = self.previous.and_then(|previous| previous.discarded).unwrap_or(0);
        let records = discarded.map(|now| counted(before, now, roles.bits(Role::Discarded)));
        if let (Some(now), Some(None)) = (discarded, records) {
            self.caveat(number, at, Damage::LossBackwards { now, before });
        }
        let records = records.flatten().unwrap_or(0);
        let packets = match (self.previous.and_then(|previous| previous.sequence), sequence) {
            (Some(before), Some(now)) => {
                counted(before, now, roles.bits(Role::Sequence)).unwrap_or(0).saturating_sub(1)
            }
            _ => 0,
        };
        (self.time, self.order, self.reference) = (begin, begin, begin);
        self.previous = Some(Previous { end: end.or(Some(begin)), discarded: discarded.or(Some(before)), sequence });
        self.packet = Some(Packet {
            number,
            truncated,
            begin,
            end,
            end_bits: roles.bits(Role::End),
            said_outside: false,
            said_backwards: false,
            next_begin: None,
        });
        self.cursor = cursor;
        let from = previous_end.unwrap_or(begin).min(begin);
        (records > 0 || packets > 0).then(|| Lost { records, packets, from, to: end.unwrap_or(begin) })
    }
}

fn same_bytes(value: &Value<'_>, expected: &[u8; 16]) -> bool {
    match value {
        Value::Bytes(bytes) => bytes == expected,
        Value::Array(elements) => {
            let byte = |value| match value {
                Value::Int(Number::Unsigned(value), _) => u8::try_from(value).ok(),
                _ => None,
            };
            elements.len() == 16 && elements.iter().map(byte).eq(expected.iter().map(|&b| Some(b)))
        }
        _ => false,
    }
}
