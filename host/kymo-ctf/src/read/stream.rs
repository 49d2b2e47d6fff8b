// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream file: packets, the records in them, and what to do where the file is damaged.
//!
//! The rule for damage: say it once, keep every record before it, and go on at the next packet. Where a packet's size
//! cannot be believed the next packet is the next place with the magic word and the trace's UUID.

mod heads;
mod open;
mod place;
mod plain;
mod seek;
mod span;
mod threads;
mod told;
mod wrap;

use std::sync::Arc;

use super::bits::{Cursor, Stop};
use super::class::{ClassKind, Metadata, Order, Role, StreamClass};
use super::error::{Caveat, Damage};
use super::files::Content;
use super::frame::Frame;
use super::plan::Header;
use super::planner::Plans;
use super::tape::Decoder;
use super::value::{Fields, Value, small};
use super::watch::Watch;
use crate::write::{EnvValue, FIRST_THREAD, PACKET_MAGIC};

pub(super) use heads::{HeadStep, Heads};
pub use place::{Inside, PacketMark, PacketPlace, PreviousPacket};
pub(super) use plain::Until;
pub(super) use seek::SliceBegin;
pub(super) use span::Moment;
pub(super) use told::CAVEATS_MAX;
use told::{Caveats, Held};
use wrap::{counted, extended, goes_on, low_mask};

/// Memory of a file that was read is given back in pieces of so many bytes: whole pages of any machine.
const FORGET_BYTES: usize = 2 << 20;

/// What is the same for all packets of all files of a trace.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Bytes that begin every packet; empty where packets have no such mark.
    pattern: Vec<u8>,
    /// Packets are read whatever UUID they have.
    pub ignores_uuid: bool,
    /// Somebody writes the trace, or did until he was killed: a file may end inside a packet.
    pub may_grow: bool,
    pub plans: Plans,
}

impl Layout {
    pub fn new(metadata: &Metadata) -> Self {
        let mut pattern = Vec::new();
        if let Some(header) = metadata.packet_header {
            if let ClassKind::Struct { members } = &metadata.classes[header as usize].kind {
                let first = members.first().map(|member| &metadata.classes[member.class as usize].kind);
                if let Some(ClassKind::Int(int)) = first {
                    if int.role == Some(Role::Magic) && int.bits == 32 {
                        pattern.extend(match int.order {
                            Order::Little => PACKET_MAGIC.to_le_bytes(),
                            Order::Big => PACKET_MAGIC.to_be_bytes(),
                            Order::LittleReversed => PACKET_MAGIC.reverse_bits().to_le_bytes(),
                            Order::BigReversed => PACKET_MAGIC.reverse_bits().to_be_bytes(),
                        });
                        pattern.extend(metadata.uuid.iter().flatten().filter(|_| metadata.uuid_member == Some(1)));
                    }
                }
            }
        }
        Self { pattern, ignores_uuid: false, may_grow: false, plans: Plans::new(metadata) }
    }

    /// From now on packets are read whatever UUID they have.
    pub fn ignore_uuid(&mut self) {
        self.ignores_uuid = true;
        self.pattern.truncate(size_of_val(&PACKET_MAGIC));
    }
}

/// What a record's packet says.
#[derive(Clone, Debug)]
pub(super) struct PacketFacts<'t> {
    /// Name of the stream file.
    pub stream: &'t str,
    pub layout: &'t Layout,
    pub class: usize,
    pub number: u64,
    /// With the tape of its context.
    pub frame: Frame<'t>,
    pub cpu: Option<u32>,
    pub vpid: Option<u32>,
    /// Of compact records: the thread, up to the next one's thread record.
    pub vtid: Option<u32>,
    pub procname: String,
}

impl<'t> PacketFacts<'t> {
    /// Before the first packet.
    fn nothing(stream: &'t str, layout: &'t Layout, frame: Frame<'t>) -> Self {
        let (cpu, vpid, vtid, procname) = (None, None, None, String::new());
        Self { stream, layout, class: 0, number: 0, frame, cpu, vpid, vtid, procname }
    }

    /// What the context on the tape of `frame` says.
    fn new(before: &Self, class: usize, number: u64, frame: Frame<'t>) -> Self {
        let mut facts = Self::nothing(before.stream, before.layout, Frame::new(frame.metadata, frame.data));
        for (name, value) in Fields::of_tape(&frame).iter() {
            match (name, value) {
                ("cpu_id", value) => facts.cpu = small(&value),
                ("vpid" | "pid", value) => facts.vpid = small(&value),
                ("procname", Value::Text(text)) => facts.procname = text.into_owned(),
                _ => {}
            }
        }
        facts.take_environment(frame.metadata);
        if before.layout.plans.threads[class].is_some() {
            facts.vtid = Fields::of_tape(&frame).get(FIRST_THREAD).and_then(|value| small(&value));
        }
        (facts.class, facts.number, facts.frame) = (class, number, frame);
        facts
    }
}

impl PacketFacts<'_> {
    /// Traces of one process each may say in their environment which it is.
    fn take_environment(&mut self, metadata: &Metadata) {
        for (name, value) in &metadata.env {
            match (name.as_str(), value) {
                ("vpid", EnvValue::Int(pid)) if self.vpid.is_none() => self.vpid = u32::try_from(*pid).ok(),
                ("procname", EnvValue::Text(text)) if self.procname.is_empty() => self.procname.clone_from(text),
                _ => {}
            }
        }
    }
}

/// A packet that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    number: u64,
    /// The file ends inside it; that has been said.
    truncated: bool,
    begin: u64,
    pub end: Option<u64>,
    /// Bits that the end was written with.
    end_bits: u8,
    said_outside: bool,
    said_backwards: bool,
    /// When the next packet begins, once somebody asked; at the last one `u64::MAX`.
    next_begin: Option<u64>,
}

/// Records that were lost, between two times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub records: u64,
    pub packets: u64,
    pub from: u64,
    pub to: u64,
}

/// What [`Stream::advance`] found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Record,
    Lost(Lost),
    End,
}

pub(super) struct Stream<'t> {
    pub metadata: &'t Metadata,
    pub layout: &'t Layout,
    pub name: &'t str,
    pub data: &'t [u8],
    content: &'t Content,
    /// Up to where the content's memory was given back.
    forgotten: usize,
    /// Position in `metadata.streams`.
    pub class: usize,
    pub decoder: Decoder<'t>,
    /// The current packet: shared with those who keep its records.
    pub facts: Arc<PacketFacts<'t>>,
    /// Clock of the current record, as it was written, and its event: position in `metadata.events`.
    pub time: u64,
    pub event: usize,
    /// Where the record stands among others: its time, unless its packets say otherwise.
    pub order: u64,
    /// What the next time stamp is extended from.
    reference: u64,
    /// Bits of the current record: head, contexts, payload, and what aligns them.
    pub bits: u64,
    pub caveats: Caveats,
    pub held: Held,
    /// The packet that is open, if any, and where its next record begins.
    pub(super) packet: Option<Packet>,
    pub(super) cursor: Cursor<'t>,
    packets_met: u64,
    next: usize,
    /// Where the content of the last good packet ended: a bad place after it is searched from there.
    content_end: usize,
    previous: Option<Previous>,
    /// Number of the packet that is another's work, as are those behind it.
    packets_end: u64,
    /// Where the packet that was opened last begins.
    opened: PacketMark,
    /// Damage at times before this is not told of, cycles.
    pub quiet_before: u64,
    /// The file was cut short while it was read. That is told wherever reading is: all that comes later is missing.
    cut_short: Option<Caveat>,
    /// Is told how far the stream has come, and up to where it has been.
    pub watch: Option<&'t dyn Watch>,
    told: usize,
}

/// Where a part of a stream begins: all that the packets in front of it leave behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub packet: u64,
    pub next: usize,
    content_end: usize,
    previous: Option<Previous>,
    time: u64,
}

/// The last good packet, for comparison with the next.
#[derive(Clone, Copy, Debug)]
struct Previous {
    end: Option<u64>,
    discarded: Option<u64>,
    sequence: Option<u64>,
}

impl<'t> Stream<'t> {
    pub fn new(metadata: &'t Metadata, layout: &'t Layout, name: &'t str, content: &'t Content) -> Self {
        let data: &[u8] = content;
        Self {
            metadata,
            layout,
            name,
            data,
            content,
            forgotten: 0,
            class: 0,
            decoder: Decoder::new(metadata, data),
            facts: Arc::new(PacketFacts::nothing(name, layout, Frame::new(metadata, data))),
            time: 0,
            event: 0,
            order: 0,
            reference: 0,
            bits: 0,
            caveats: Caveats::default(),
            held: Held::default(),
            packet: None,
            cursor: Cursor::new(data, 0, 0),
            packets_met: 0,
            next: 0,
            content_end: 0,
            previous: None,
            packets_end: u64::MAX,
            opened: PacketMark::default(),
            quiet_before: 0,
            cut_short: None,
            watch: None,
            told: 0,
        }
    }

    /// Goes to a part that [`Stream::parts`] has found; the packet `end` is not of it.
    pub fn go_to(&mut self, start: &Start, end: u64) {
        (self.packets_met, self.packets_end) = (start.packet, end);
        (self.next, self.content_end) = (start.next, start.content_end);
        (self.previous, self.reference) = (start.previous, start.time);
        self.forgotten = start.next.next_multiple_of(FORGET_BYTES);
        self.told = start.next;
    }

    /// Reads the heads of all packets: begins of parts of at least `part_bytes`, which can be read one without the
    /// other. `None` where packets do not say their full time, or are so small that their heads are most of the work.
    pub fn parts(&mut self, part_bytes: usize) -> Option<Vec<Start>> {
        const PACKET_BYTES_MIN: u64 = 8192;
        const PACKETS_JUDGED: u64 = 64;
        let packet_bytes_min = PACKET_BYTES_MIN.min(part_bytes as u64);
        let mut parts: Vec<Start> = Vec::new();
        while self.next < self.data.len() {
            let start = self.start();
            let (packet, next) = (start.packet, start.next);
            if parts.last().is_none_or(|last| next.saturating_sub(last.next) >= part_bytes) {
                parts.push(start);
            }
            self.open_packet();
            if self.packet.is_some() && !self.has_full_time() {
                return None;
            }
            self.packet = None;
            if packet + 1 == PACKETS_JUDGED && (self.next as u64) < PACKETS_JUDGED * packet_bytes_min {
                return None;
            }
        }
        Some(parts)
    }

    /// Where the next packet begins.
    pub fn start(&self) -> Start {
        Start {
            packet: self.packets_met,
            next: self.next,
            content_end: self.content_end,
            previous: self.previous,
            time: self.reference,
        }
    }

    /// Whether the packet that was opened last says its whole time: those before it do not matter.
    pub fn has_full_time(&self) -> bool {
        let roles = &self.decoder.roles;
        let is_whole = |role: Role| roles.bits(role) == 64;
        roles.get(Role::Begin).is_some()
            && is_whole(Role::Begin)
            && (roles.get(Role::End).is_none() || is_whole(Role::End))
    }

    #[inline]
    pub fn stream_class(&self) -> &'t StreamClass {
        &self.metadata.streams[self.class]
    }

    fn caveat(&mut self, packet: u64, at: u64, damage: Damage) {
        if self.reference < self.quiet_before {
            return;
        }
        self.file(packet, Caveat { file: self.name.into(), packet: Some(packet), at, damage });
    }

    /// Goes to the next record, or to a loss that lies before it.
    #[inline]
    pub fn advance(&mut self) -> Next {
        loop {
            if self.packet.is_some() {
                let is_record = self.record();
                // Zeros stand in the place of what is gone: a record may have been made of them.
                if self.content.is_damaged() {
                    return self.give_up();
                }
                match is_record {
                    true if self.is_thread_record() => {}
                    true => return Next::Record,
                    false => self.packet = None,
                }
            } else if self.content.is_damaged() {
                return self.give_up();
            } else if self.next >= self.data.len() || self.packets_met >= self.packets_end {
                return Next::End;
            } else if let Some(lost) = self.open_packet() {
                return Next::Lost(lost);
            }
        }
    }

    /// The file was cut short under us: says so once, and ends.
    #[cold]
    fn give_up(&mut self) -> Next {
        (self.packet, self.next) = (None, self.data.len());
        if self.cut_short.is_none() {
            let (packet, at) = (self.packets_met.saturating_sub(1), self.cursor.byte());
            let cut = Caveat { file: self.name.into(), packet: Some(packet), at, damage: Damage::CutShort };
            self.caveats.push(cut.clone());
            self.cut_short = Some(cut);
        }
        Next::End
    }

    /// Gives memory of packets that were read back: a reader of a large file keeps little of it.
    fn forget(&mut self) {
        let end = self.next / FORGET_BYTES * FORGET_BYTES;
        if end > self.forgotten {
            self.content.forget(self.forgotten..end);
            self.forgotten = end;
        }
    }

    /// Tells who watches that all lies behind that the last packets had.
    fn tell(&mut self) {
        if let Some(watch) = self.watch {
            watch.passed(self.next.saturating_sub(self.told) as u64);
            self.told = self.told.max(self.next);
        }
    }

    /// Gives all memory back that lies from `start` to where the stream is: a part that was counted is not looked at
    /// again, and [`Stream::forget`] leaves what is at its ends.
    pub fn forget_from(&self, start: usize) {
        self.content.forget(start..self.next.max(start));
    }

    /// Passes over bytes up to the next packet; how many.
    fn resync(&mut self, start: usize) -> u64 {
        // The bad place may be one that the last packet's size led to, past packets that lie behind its content.
        let again = self.content_end..start;
        // Only once: what is found there moves on to its own content's end.
        self.content_end = self.content_end.max(start + 1);
        let passed = if again.start > 0 { self.search(again.start, again.end) } else { None };
        let found = passed.or_else(|| self.search(start + 1, self.data.len()));
        self.next = found.unwrap_or(self.data.len());
        self.next.saturating_sub(start) as u64
    }

    /// The first packet that begins in `from..to`.
    fn search(&self, from: usize, to: usize) -> Option<usize> {
        let pattern = &self.layout.pattern;
        let first = *pattern.first()?;
        let mut at = from;
        while at < to {
            at += self.data[at..to].iter().position(|&b| b == first)?;
            if self.data[at..].starts_with(pattern) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Passes over the next record of the packet; false when there is none, or none that can be read.
    #[inline]
    fn record(&mut self) -> bool {
        let mut cursor = self.cursor;
        if cursor.at_end() {
            return false;
        }
        let at = cursor.byte();
        let passed = self.pass_record(&mut cursor);
        self.bits = cursor.at - self.cursor.at;
        let has_bits = self.bits > 0;
        self.cursor.at = cursor.at;
        match passed {
            Ok(time) if has_bits => {
                if let Some((stamp, bits)) = time {
                    self.record_time(at, stamp, bits);
                }
                self.pass_thread_record()
            }
            Ok(_) => self.end_packet(at, Damage::BadRecord { what: "a record without any bits" }),
            Err(damage) => self.end_packet(at, damage),
        }
    }

    /// Gives up the rest of the packet; always false.
    #[cold]
    fn end_packet(&mut self, at: u64, damage: Damage) -> bool {
        if let Some(packet) = self.packet.filter(|packet| !(packet.truncated && damage == Damage::PastEnd)) {
            self.caveat(packet.number, at, damage);
        }
        false
    }

    /// Passes over the record at the cursor; gives the bits of its time stamp, and how many they are.
    #[inline]
    fn pass_record(&mut self, cursor: &mut Cursor<'t>) -> Result<Option<(u64, u8)>, Damage> {
        let damage = |stop| match stop {
            Stop::PastEnd => Damage::PastEnd,
            Stop::Bad(what) => Damage::BadRecord { what },
        };
        let (metadata, plans) = (self.metadata, &self.layout.plans);
        let (id, time) = match self.pass_head_word(cursor) {
            Some(head) => head,
            None => self.pass_header(&plans.headers[self.class], cursor).map_err(damage)?,
        };
        let event = metadata.streams[self.class].events.get(id).ok_or(Damage::UnknownEvent { id })?;
        self.event = event as usize;
        self.decoder.clear(cursor.at);
        self.decoder.pass(&plans.events[self.event], cursor).map_err(damage)?;
        Ok(time)
    }

    /// The id of the record, and its time stamp: bits, and how many they are.
    #[inline]
    fn pass_header(&mut self, header: &Header, cursor: &mut Cursor<'t>) -> Result<(u64, Option<(u64, u8)>), Stop> {
        if let Some(stamp) = header.stamp(self.data, cursor)? {
            let at = cursor.bit();
            cursor.skip(u64::from(stamp.bits))?;
            let id = stamp.id.map_or(0, |id| id.read(self.data, at));
            return Ok((id, stamp.time.map(|time| (time.read(self.data, at), time.bits))));
        }
        self.decoder.clear(cursor.at);
        if let Header::Any(header) = *header {
            self.decoder.decode(&self.metadata.classes, header, cursor)?;
        }
        let roles = &self.decoder.roles;
        Ok((roles.get(Role::EventId).unwrap_or(0), roles.get(Role::Time).map(|time| (time, roles.bits(Role::Time)))))
    }

    #[inline]
    fn record_time(&mut self, at: u64, stamp: u64, bits: u8) {
        let Some(packet) = &self.packet else { return };
        let (before, end) = (self.reference, packet.end.unwrap_or(u64::MAX));
        let time = extended(before, stamp, bits);
        match time >= before && time <= end {
            true => (self.time, self.order, self.reference) = (time, time, time),
            false => self.odd_time(*packet, at, stamp, bits),
        }
    }

    /// A time that goes back, or lies outside of the packet: says so once a packet. The record keeps it.
    #[cold]
    fn odd_time(&mut self, mut packet: Packet, at: u64, stamp: u64, bits: u8) {
        let before = self.reference;
        let mut time = extended(before, stamp, bits);
        // An end of few bits is the first time that ends in them. If the packet goes on behind it, it is a later one.
        if let Some(end) = packet.end.filter(|&end| time > end && time >= before && packet.end_bits < 64) {
            packet.end = Some(extended(time, end, packet.end_bits));
            (self.time, self.order, self.reference) = (time, time, time);
            self.packet = Some(packet);
            return;
        }
        // A step back looks like a wrap. It is one only when the packet lasts that long.
        if let Some(end) = packet.end.filter(|&end| time > end && bits < 64) {
            let unwrapped = before & !low_mask(bits) | stamp;
            if unwrapped < before && unwrapped <= end {
                time = unwrapped;
            }
        }
        if time < before && before != packet.begin && !packet.said_backwards {
            packet.said_backwards = true;
            self.caveat(packet.number, at, Damage::TimeBackwards { cycles: before - time });
        }
        let end = packet.end.unwrap_or(u64::MAX);
        if (time < packet.begin || time > end) && !packet.said_outside && !packet.said_backwards {
            packet.said_outside = true;
            self.caveat(packet.number, at, Damage::TimeOutside { time, begin: packet.begin, end });
        }
        // One wrong stamp must not hold back what follows in the file, which may be another program's; but where the
        // next packet begins later, it is this packet's end that is wrong.
        (self.time, self.reference) = (time, time.clamp(packet.begin, end));
        self.order = self.reference;
        if time > end {
            let next_begin = packet.next_begin.get_or_insert_with(|| self.next_begin());
            self.order = time.min(*next_begin).max(self.reference);
        }
        self.packet = Some(packet);
    }

    /// When the next packet begins; `u64::MAX` where there is none.
    fn next_begin(&self) -> u64 {
        let mut next = Stream::new(self.metadata, self.layout, self.name, self.content);
        next.go_to_place(&PacketPlace { packet: self.mark(), inside: None });
        while next.next < next.data.len() {
            next.open_packet();
            if let Some(packet) = next.packet {
                return packet.begin;
            }
        }
        u64::MAX
    }
}

impl Stream<'_> {
    /// Files a caveat of packet `packet`.
    fn file(&mut self, packet: u64, caveat: Caveat) {
        match packet >= self.held.from_packet {
            true => self.held.caveats.push(caveat),
            false => self.caveats.push(caveat),
        }
    }

    /// The last item is in front of the cut, and so is what was wrong up to there.
    #[inline]
    pub(super) fn take_held(&mut self) {
        if self.held.caveats.count() > 0 {
            self.caveats.take_from(&mut self.held.caveats);
        }
    }

    /// The last item is in front of the slice: what was wrong up to there has been told by the slice before. But that
    /// the file was cut short is told by each, because the one before may have left it to this one.
    #[inline]
    pub(super) fn forget_caveats(&mut self) {
        if self.caveats.count() > 0 || self.held.caveats.count() > 0 {
            self.caveats.clear();
            self.held.caveats.clear();
            self.cut_short.clone().into_iter().for_each(|cut| self.caveats.push(cut));
        }
    }
}
