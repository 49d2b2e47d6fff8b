// SPDX-License-Identifier: MIT OR Apache-2.0
//! One edit that breaks one rule in a stream file of a valid case, at a random place: where a reader must say that
//! something is wrong, and what it must read all the same.

use kymo_ctf::read::Severity;
use kymo_testing::Random;

use super::bits::{Mark, Marked, set_bits};
use super::trace::{Case, File, Placed};
use super::types::{Range, Role};

/// A rule broken.
#[derive(Clone, Copy)]
pub struct StreamBreak {
    pub name: &'static str,
    /// What is lost by it; `None` where the packet has no place for it.
    edit: fn(&mut Site<'_>) -> Option<Loses>,
}

/// A packet to edit.
struct Site<'c> {
    case: &'c Case,
    bytes: &'c mut Vec<u8>,
    packet: &'c Placed,
    is_last: bool,
    random: &'c mut Random,
}

/// What a reader can no longer read.
#[derive(Clone, Copy, Debug)]
enum Loses {
    Nothing,
    /// The packet.
    Packet,
    /// The rest of the packet, from this record on.
    From(usize),
    /// The size of the packet: its records are read, and perhaps what is behind them.
    Size,
    /// The same, and its records.
    Sizes,
    /// All from this record on, with the end of the file.
    Tail(usize),
    /// The same where the end of the packet is not known: the record itself runs past the end.
    TailOf(usize),
}

/// A case with a stream that is no longer valid.
#[derive(Debug)]
pub struct BrokenStream {
    pub case: Case,
    /// Of the case's files.
    pub file: usize,
    /// What the first thing that is said of the file must name.
    pub packet: u64,
    pub at: u64,
    pub severity: Severity,
    /// Records of the file in front of the place: all of them must be read as they were made.
    pub before: usize,
    /// Records of the packets behind it: the same, but for their times.
    pub behind: usize,
    /// Nothing else may be read.
    pub is_all: bool,
}

impl StreamBreak {
    /// Breaks the case at one of the places that there are for it.
    pub fn apply(&self, case: &Case, random: &mut Random) -> Option<BrokenStream> {
        let packets = |file: &File| file.packets.len();
        let mut places: Vec<(usize, usize)> =
            case.files.iter().enumerate().flat_map(|(f, file)| (0..packets(file)).map(move |p| (f, p))).collect();
        while !places.is_empty() {
            let (file, number) = places.swap_remove(random.below(places.len()));
            let placed = &case.files[file].packets[number];
            let is_last = number + 1 == packets(&case.files[file]);
            let mut bytes = case.files[file].bytes.clone();
            let mut site = Site { case, bytes: &mut bytes, packet: placed, is_last, random };
            let Some(loses) = (self.edit)(&mut site) else { continue };
            let mut broken = expected(case, file, number, loses);
            broken.case.files[file].bytes = bytes;
            return Some(broken);
        }
        None
    }
}

fn expected(case: &Case, file: usize, number: usize, loses: Loses) -> BrokenStream {
    let packet = &case.files[file].packets[number];
    let (first, behind) = packet.records;
    let all = case.files[file].records.len();
    let begin = packet.begin as u64;
    let at_record = |record: usize| {
        let of = packet.marks.iter().find(|mark| mark.what == Marked::Record && mark.record == Some(record));
        begin + of.map_or(0, |mark| mark.at / 8)
    };
    // Without its magic number the next packet is not found where the size of this one is not known.
    let found = if case.header.is_some() { all - behind } else { 0 };
    let (at, before, behind, is_all) = match loses {
        Loses::Nothing => (begin, behind, all - behind, true),
        Loses::Packet => (begin, first, all - behind, true),
        Loses::From(record) => (at_record(record), record, all - behind, true),
        Loses::Size => (begin, behind, found, false),
        Loses::Sizes => (begin, first, found, false),
        Loses::Tail(record) => (begin, record, 0, true),
        Loses::TailOf(record) => (at_record(record), record, 0, true),
    };
    let severity = if matches!(loses, Loses::Nothing) { Severity::OddTime } else { Severity::Unread };
    BrokenStream { case: case.clone(), file, packet: number as u64, at, severity, before, behind, is_all }
}

impl Site<'_> {
    fn role(&self, role: Role) -> Option<&Mark> {
        self.packet.marks.iter().find(|mark| mark.what == Marked::Role(role) && mark.record.is_none())
    }

    fn set(&mut self, mark: &Mark, value: i128) {
        let at = self.packet.begin as u64 * 8 + mark.at;
        set_bits(self.bytes, at, value, mark.bits, mark.big, mark.is_last_first);
    }

    fn set_role(&mut self, role: Role, value: u64) -> Option<()> {
        let mark = self.role(role)?.clone();
        self.set(&mark, value.into());
        Some(())
    }

    fn get(&self, mark: &Mark) -> u64 {
        let at = self.packet.begin as u64 * 8 + mark.at;
        let bit = |i: u32| {
            let at = at + u64::from(i);
            let place = if mark.big { 7 - at % 8 } else { at % 8 };
            u64::from(self.bytes[(at / 8) as usize] >> place & 1)
        };
        let place = |i: u32| if mark.is_last_first { mark.bits - 1 - i } else { i };
        (0..mark.bits).fold(0, |value, i| value | bit(i) << place(i))
    }

    /// One of the marks that fit.
    fn one(&mut self, fits: impl Fn(&[Mark], usize) -> bool) -> Option<usize> {
        let marks = &self.packet.marks;
        let found: Vec<usize> = (0..marks.len()).filter(|&index| fits(marks, index)).collect();
        found.get(self.random.below(found.len())).copied()
    }

    fn total_bits(&self) -> u64 {
        (self.packet.end - self.packet.begin) as u64 * 8
    }

    /// Where a record begins, bits of the packet; behind the last one: where the content ends.
    fn begin_of(&self, record: usize) -> u64 {
        let marks = self.packet.marks.iter().filter(|mark| mark.what == Marked::Record);
        marks.clone().find(|mark| mark.record == Some(record)).map_or(self.packet.content, |mark| mark.at)
    }

    fn a_record(&mut self) -> Option<usize> {
        let (first, behind) = self.packet.records;
        (first < behind).then(|| first + self.random.below(behind - first))
    }
}

fn magic(site: &mut Site<'_>) -> Option<Loses> {
    let value = 0xC1FC_1FC1 ^ 1 << site.random.below(32u64);
    site.set_role(Role::Magic, value)?;
    Some(Loses::Packet)
}

fn uuid(site: &mut Site<'_>) -> Option<Loses> {
    let mark = site.packet.marks.iter().find(|mark| mark.what == Marked::Uuid)?;
    let at = site.packet.begin + (mark.at / 8) as usize + site.random.below(16usize);
    site.bytes[at] ^= 1 << site.random.below(8u64);
    Some(Loses::Packet)
}

fn stream_class(site: &mut Site<'_>) -> Option<Loses> {
    let value = 1 + site.random.below(6u64) + 7 * site.random.below(2u64);
    site.set_role(Role::StreamClass, value)?;
    Some(Loses::Packet)
}

fn content_above(site: &mut Site<'_>) -> Option<Loses> {
    let value = site.total_bits() + 1 + site.random.below(10_000u64);
    site.set_role(Role::Content, value)?;
    Some(Loses::Size)
}

fn content_below(site: &mut Site<'_>) -> Option<Loses> {
    let value = site.random.below(8u64);
    site.set_role(Role::Content, value)?;
    Some(Loses::Sizes)
}

fn total_of_half_a_byte(site: &mut Site<'_>) -> Option<Loses> {
    let value = site.total_bits() + 1 + site.random.below(7u64);
    site.set_role(Role::Total, value)?;
    Some(Loses::Size)
}

fn total_below(site: &mut Site<'_>) -> Option<Loses> {
    let value = site.random.below(site.packet.content / 8) * 8;
    site.set_role(Role::Total, value)?;
    Some(Loses::Size)
}

fn end_before(site: &mut Site<'_>) -> Option<Loses> {
    let (begin, end) = (site.role(Role::Begin)?.clone(), site.role(Role::End)?.clone());
    let time = site.get(&begin);
    // An end of 0 is one that a tracer did not come to.
    if begin.bits < 64 || end.bits < 64 || time < 2 {
        return None;
    }
    let value = 1 + site.random.below(time - 1);
    site.set(&end, value.into());
    Some(Loses::Nothing)
}

fn content_inside_of_a_record(site: &mut Site<'_>) -> Option<Loses> {
    let record = site.a_record()?;
    let value = site.begin_of(record) + 1;
    site.set_role(Role::Content, value)?;
    Some(Loses::From(record))
}

fn event_id(site: &mut Site<'_>) -> Option<Loses> {
    let record = site.a_record()?;
    let of_record = |mark: &&Mark| mark.record == Some(record) && mark.what == Marked::Role(Role::EventClass);
    // The last one: a short form has a word in front that leads to the id.
    let mark = site.packet.marks.iter().rfind(of_record)?.clone();
    let value_bits = if mark.is_leb { mark.bits / 8 * 7 } else { mark.bits };
    let most = (1u64 << value_bits.min(20)) - 1;
    let is_free = |id: u64| site.case.streams.iter().all(|class| class.events.iter().all(|event| event.id != id));
    let id = (0..50).map(|_| site.random.below(most)).find(|&id| is_free(id))?;
    if mark.is_leb {
        // Of as many bytes as the number had, if need be with zeros in front.
        let (begin, count) = (site.packet.begin + (mark.at / 8) as usize, mark.bits as usize / 8);
        for at in 0..count {
            let more = if at + 1 < count { 0x80 } else { 0 };
            site.bytes[begin + at] = (id >> (7 * at)) as u8 & 0x7f | more;
        }
    } else {
        site.set(&mark, id.into());
    }
    Some(Loses::From(record))
}

/// All bytes from one of the number on say that more follow.
fn leb_without_end(site: &mut Site<'_>) -> Option<Loses> {
    let index = site.one(|marks, index| marks[index].what == Marked::Leb && marks[index].record.is_some())?;
    let mark = &site.packet.marks[index];
    let begin = site.packet.begin + (mark.at / 8) as usize;
    let end = site.packet.end.min(begin + 11);
    site.bytes[begin..end].fill(0x80);
    Some(Loses::From(mark.record?))
}

/// The number of the mark where a field says something of the one at `index`, in the same record.
fn target_of(marks: &[Mark], index: usize, id: usize) -> Option<usize> {
    let record = marks[index].record?;
    let is_it = |mark: &Mark| matches!(mark.what, Marked::Target { id: of, .. } if of == id);
    marks[..index].iter().rposition(is_it).filter(|&target| marks[target].record == Some(record))
}

/// Uses of the number that the target has, up to the next time that it has one.
fn uses(marks: &[Mark], target: usize, id: usize) -> usize {
    let is_it = |mark: &&Mark| !matches!(mark.what, Marked::Target { id: of, .. } if of == id);
    let is_use = |mark: &&Mark| matches!(mark.what, Marked::Use(of) | Marked::WideText(of) if of == id);
    marks[target + 1..].iter().take_while(is_it).filter(is_use).count()
}

/// The text has one byte more than it may have.
fn half_a_character(site: &mut Site<'_>) -> Option<Loses> {
    let fitting = |marks: &[Mark], index: usize| {
        let Marked::WideText(id) = marks[index].what else { return None };
        target_of(marks, index, id).filter(|&target| uses(marks, target, id) == 1)
    };
    let index = site.one(|marks, index| fitting(marks, index).is_some())?;
    let mark = site.packet.marks[fitting(&site.packet.marks, index)?].clone();
    let value = site.get(&mark) + 1;
    if mark.bits < 64 && value >> mark.bits > 0 {
        return None;
    }
    site.set(&mark, value.into());
    Some(Loses::From(mark.record?))
}

fn tag_without_option(site: &mut Site<'_>) -> Option<Loses> {
    let fitting = |marks: &[Mark], index: usize| {
        let Marked::Variant(id, ref ranges) = marks[index].what else { return None };
        let target = target_of(marks, index, id)?;
        unused(&marks[target], ranges).map(|value| (target, value))
    };
    let index = site.one(|marks, index| fitting(marks, index).is_some())?;
    let (target, value) = fitting(&site.packet.marks, index)?;
    let mark = site.packet.marks[target].clone();
    site.set(&mark, value);
    Some(Loses::From(mark.record?))
}

/// A value of the field that no range has.
fn unused(mark: &Mark, ranges: &[Range]) -> Option<i128> {
    let Marked::Target { signed, .. } = mark.what else { return None };
    let bits = mark.bits.min(10);
    let least = if signed { -(1i128 << (bits - 1)) } else { 0 };
    (least..least + (1 << bits)).find(|&value| ranges.iter().all(|&(low, high)| value < low || high < value))
}

fn length_beyond_the_packet(site: &mut Site<'_>) -> Option<Loses> {
    let index = site.one(|marks, index| match marks[index].what {
        Marked::Target { id, .. } => {
            marks[index].bits >= 32 && marks[index].record.is_some() && uses(marks, index, id) > 0
        }
        _ => false,
    })?;
    let mark = site.packet.marks[index].clone();
    let value = (1 << 31) + site.random.below(1i64 << 31);
    site.set(&mark, value.into());
    Some(Loses::From(mark.record?))
}

fn file_inside_of_a_packet(site: &mut Site<'_>) -> Option<Loses> {
    let bytes = site.packet.end - site.packet.begin;
    if !site.is_last || bytes < 2 {
        return None;
    }
    let kept = 1 + site.random.below(bytes - 1);
    let bits = kept as u64 * 8;
    let (first, behind) = site.packet.records;
    let whole = (first..behind).take_while(|&record| site.begin_of(record + 1) <= bits).count();
    site.bytes.truncate(site.packet.begin + kept);
    let has_size = site.role(Role::Total).is_some();
    let is_in_head = bits < site.begin_of(first);
    match (has_size || is_in_head, site.begin_of(first + whole) < bits) {
        (true, _) => Some(Loses::Tail(first + whole)),
        // Between two records of a packet without a size nothing is wrong.
        (false, true) => Some(Loses::TailOf(first + whole)),
        (false, false) => None,
    }
}

/// All of them.
pub const BREAKS: &[StreamBreak] = &[
    StreamBreak { name: "a packet of another magic number", edit: magic },
    StreamBreak { name: "a packet of another UUID", edit: uuid },
    StreamBreak { name: "a packet of no stream class", edit: stream_class },
    StreamBreak { name: "a content larger than the packet", edit: content_above },
    StreamBreak { name: "a content smaller than the head", edit: content_below },
    StreamBreak { name: "a packet that ends inside of a byte", edit: total_of_half_a_byte },
    StreamBreak { name: "a packet smaller than its content", edit: total_below },
    StreamBreak { name: "an end before the begin", edit: end_before },
    StreamBreak { name: "a content that ends inside of a record", edit: content_inside_of_a_record },
    StreamBreak { name: "a record of no event", edit: event_id },
    StreamBreak { name: "LEB128 without an end", edit: leb_without_end },
    StreamBreak { name: "a text of half a character", edit: half_a_character },
    StreamBreak { name: "a tag that no option has", edit: tag_without_option },
    StreamBreak { name: "a length beyond the packet", edit: length_beyond_the_packet },
    StreamBreak { name: "a file that ends inside of a packet", edit: file_inside_of_a_packet },
];
