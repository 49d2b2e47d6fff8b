// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one stream has: its packets, how many records of each event and when, losses. Made record by record.

use kymo_analyze::compact::{Put, Take};
use kymo_ctf::read::{PacketMark, PreviousPacket};

use crate::counts::buckets::Buckets;
use crate::counts::fine::FineCounts;
use crate::file::Piece;

/// Small packets share an entry, until they have so many bytes.
const ENTRY_BYTES_MIN: u64 = 64 << 10;

/// One packet, or several small ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins.
    pub mark: PacketMark,
    /// Packets that have records or tell of losses.
    pub packets: u64,
    /// Records in it.
    pub records: u64,
    /// Records that it tells were lost.
    pub lost: u64,
    /// Lowest time of a record or a loss, cycles.
    pub first: u64,
    /// Highest time.
    pub last: u64,
    /// Highest time up to its end, cycles: all before is older.
    pub newest: u64,
}

/// Records of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCount {
    /// Position in the metadata.
    pub event: usize,
    /// Records.
    pub records: u64,
    /// Lowest time, cycles.
    pub first: u64,
    /// Highest time, cycles.
    pub last: u64,
}

/// Counts of one stream. What records add is kept aside as long as their times are in one column of the buckets, and
/// [`Account::finish`] adds the last of it.
#[derive(Debug)]
pub struct Account {
    /// By event, those without records too.
    pub events: Vec<EventCount>,
    /// Packets, in the order of the file.
    pub entries: Vec<Entry>,
    /// Records by event and time; in the last row those that were lost, at the end of the loss.
    pub buckets: Buckets,
    /// Records and lost records in shorter columns.
    pub fine: FineCounts,
    /// Lost records, packets, and places where they were lost.
    pub lost: [u64; 3],
    /// A loss came in a packet that names no process: it may be of a kernel.
    pub has_unnamed_loss: bool,
    /// Number of the packet that is being read.
    packet: u64,
    newest: u64,
    /// What the records have that were kept aside: by event, and which events these are.
    aside: Vec<Aside>,
    touched: Vec<usize>,
    /// The column of their times: the first one, and the first behind.
    column: (u64, u64),
    /// The part of it that is in one fine column, and the records in that.
    part: (u64, u64),
    in_part: u64,
    /// Of all of them: how many, lowest and highest time.
    all: Aside,
}

/// Records that were kept aside.
#[derive(Clone, Copy, Debug)]
struct Aside {
    records: u64,
    first: u64,
    last: u64,
}

impl Aside {
    const NONE: Aside = Aside { records: 0, first: u64::MAX, last: 0 };

    #[inline]
    fn add(&mut self, cycles: u64) {
        self.records += 1;
        (self.first, self.last) = (self.first.min(cycles), self.last.max(cycles));
    }
}

impl Account {
    /// Of a stream of so many bytes, of a trace with so many events.
    pub fn new(events: usize, bytes: u64) -> Account {
        Account {
            events: (0..events).map(|event| EventCount { event, records: 0, first: u64::MAX, last: 0 }).collect(),
            entries: Vec::new(),
            buckets: Buckets::new(events + 1),
            fine: FineCounts::new(bytes),
            lost: [0; 3],
            has_unnamed_loss: false,
            packet: u64::MAX,
            newest: 0,
            aside: vec![Aside::NONE; events],
            touched: Vec::new(),
            column: (0, 0),
            part: (0, 0),
            in_part: 0,
            all: Aside::NONE,
        }
    }

    /// The packet of the next item. Whether it is another one than that of the item before.
    #[inline]
    pub fn packet(&mut self, mark: &PacketMark) -> bool {
        let is_next = mark.number != self.packet;
        if is_next {
            self.open(mark);
        }
        is_next
    }

    fn open(&mut self, mark: &PacketMark) {
        self.packet = mark.number;
        let is_long = |entry: &Entry| mark.offset.saturating_sub(entry.mark.offset) >= ENTRY_BYTES_MIN;
        if self.entries.last().is_none_or(is_long) {
            self.close_entry();
            let newest = self.newest;
            self.entries.push(Entry { mark: *mark, first: u64::MAX, newest, ..Entry::default() });
        }
        self.entries.last_mut().into_iter().for_each(|entry| entry.packets += 1);
    }

    /// A record.
    #[inline]
    pub fn record(&mut self, event: usize, cycles: u64) {
        if cycles < self.part.0 || cycles >= self.part.1 {
            self.begin_part(cycles);
        }
        self.in_part += 1;
        let aside = &mut self.aside[event];
        if aside.records == 0 {
            self.touched.push(event);
        }
        aside.add(cycles);
        self.all.add(cycles);
    }

    /// A loss.
    pub fn loss(&mut self, records: u64, packets: u64, (from, to): (u64, u64)) {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        self.lost = [sum(self.lost[0], records), sum(self.lost[1], packets), self.lost[2] + 1];
        // The columns may become others with it.
        self.end_column();
        self.buckets.add(self.events.len(), to, records);
        self.fine.add(to, 0, records);
        self.note(from, to);
        if let Some(entry) = self.entries.last_mut() {
            entry.lost = sum(entry.lost, records);
        }
    }

    /// All records are in the counts then; there may be more.
    pub fn finish(&mut self) {
        self.end_column();
        self.close_entry();
    }

    /// The columns of a time are those that records are kept aside for.
    #[cold]
    fn begin_part(&mut self, cycles: u64) {
        self.end_part();
        if cycles < self.column.0 || cycles >= self.column.1 {
            self.end_column();
            self.column = self.buckets.column_of(cycles);
        }
        let fine = self.fine.column_of(cycles);
        self.part = (self.column.0.max(fine.0), self.column.1.min(fine.1));
    }

    fn end_part(&mut self) {
        self.fine.add(self.part.0, std::mem::take(&mut self.in_part), 0);
    }

    /// Adds what was kept aside to counts and buckets.
    fn end_column(&mut self) {
        self.end_part();
        (self.column, self.part) = ((0, 0), (0, 0));
        for event in self.touched.drain(..) {
            let aside = std::mem::replace(&mut self.aside[event], Aside::NONE);
            let of = &mut self.events[event];
            of.records += aside.records;
            (of.first, of.last) = (of.first.min(aside.first), of.last.max(aside.last));
            self.buckets.add(event, aside.first, aside.records);
        }
    }

    /// Adds what was kept aside to the entry.
    fn close_entry(&mut self) {
        let all = std::mem::replace(&mut self.all, Aside::NONE);
        if all.records > 0 {
            self.note(all.first, all.last);
            self.entries.last_mut().into_iter().for_each(|entry| entry.records += all.records);
        }
    }

    fn note(&mut self, from: u64, to: u64) {
        self.newest = self.newest.max(to);
        if let Some(entry) = self.entries.last_mut() {
            (entry.first, entry.last, entry.newest) = (entry.first.min(from), entry.last.max(to), self.newest);
        }
    }
}

/// What the head of an index says of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Events that have records.
    pub events: Vec<EventCount>,
    /// Lost records, packets, and places where they were lost.
    pub lost: [u64; 3],
    /// Packets that have records or tell of losses.
    pub packets: u64,
    /// Places that are damaged.
    pub damaged: u64,
    /// Its [`Entry`]s.
    pub(crate) entries: Piece,
}

impl StreamCounts {
    /// Of an account.
    pub(crate) fn of(account: &Account, damaged: u64, entries: Piece) -> StreamCounts {
        StreamCounts {
            events: account.events.iter().filter(|event| event.records > 0).copied().collect(),
            lost: account.lost,
            packets: account.entries.iter().map(|entry| entry.packets).sum(),
            damaged,
            entries,
        }
    }

    /// Records of all events.
    pub fn records(&self) -> u64 {
        self.events.iter().map(|event| event.records).sum()
    }

    /// Lowest and highest time of a record, cycles.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.events.iter().map(|of| of.first).min()?, self.events.iter().map(|of| of.last).max()?))
    }

    pub(crate) fn put(&self, put: &mut Put) {
        put.number(self.events.len() as u64);
        for of in &self.events {
            [of.event as u64, of.records, of.first, of.last - of.first].iter().for_each(|number| put.number(*number));
        }
        self.lost.iter().for_each(|number| put.number(*number));
        put.number(self.packets);
        put.number(self.damaged);
        self.entries.put(put);
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Option<StreamCounts> {
        let mut counts = StreamCounts::default();
        for _ in 0..take.count()? {
            let (event, records, first) = (take.small()?, take.number()?, take.number()?);
            counts.events.push(EventCount { event, records, first, last: first.checked_add(take.number()?)? });
        }
        // Sums of them are made without a further look.
        counts.events.iter().try_fold(0u64, |sum, of| sum.checked_add(of.records))?;
        counts.lost = [take.number()?, take.number()?, take.number()?];
        counts.packets = take.number()?;
        counts.damaged = take.number()?;
        counts.entries = Piece::take(take)?;
        Some(counts)
    }
}

/// Entries as bytes: each as the difference from the one before.
pub(crate) fn put_entries(entries: &[Entry]) -> Vec<u8> {
    let mut put = Put::default();
    put.number(entries.len() as u64);
    let mut before = Entry::default();
    for entry in entries {
        put_mark(&mut put, &entry.mark, &before.mark);
        [entry.packets, entry.records, entry.lost].iter().for_each(|number| put.number(*number));
        let time = entry.mark.time;
        put.signed(entry.first.wrapping_sub(time) as i64);
        put.signed(entry.last.wrapping_sub(time) as i64);
        put.signed(entry.newest.wrapping_sub(time) as i64);
        before = *entry;
    }
    put.0
}

/// The same again.
pub(crate) fn take_entries(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut take = Take(bytes);
    let mut entries = Vec::new();
    let mut before = PacketMark::default();
    for _ in 0..take.count()? {
        let mark = take_mark(&mut take, &before)?;
        let (packets, records, lost) = (take.number()?, take.number()?, take.number()?);
        let mut time = || take.signed().map(|behind| mark.time.wrapping_add(behind as u64));
        entries.push(Entry { mark, packets, records, lost, first: time()?, last: time()?, newest: time()? });
        before = mark;
    }
    let is_sorted = entries.is_sorted_by_key(|entry| entry.newest) && entries.is_sorted_by_key(|e| e.mark.offset);
    (take.is_empty() && is_sorted).then_some(entries)
}

/// A mark, as what differs from another one.
pub(crate) fn put_mark(put: &mut Put, mark: &PacketMark, before: &PacketMark) {
    put.signed(mark.offset.wrapping_sub(before.offset) as i64);
    put.signed(mark.number.wrapping_sub(before.number) as i64);
    put.number(mark.class.into());
    put.signed(mark.time.wrapping_sub(before.time) as i64);
    put.signed(mark.content_end.wrapping_sub(mark.offset) as i64);
    put.option(mark.previous, |put, previous| {
        put.option(previous.end, |put, end| put.signed(end.wrapping_sub(mark.time) as i64));
        put.option(previous.discarded, Put::number);
        put.option(previous.sequence, Put::number);
    });
}

/// The same again.
pub(crate) fn take_mark(take: &mut Take<'_>, before: &PacketMark) -> Option<PacketMark> {
    let offset = before.offset.wrapping_add(take.signed()? as u64);
    let number = before.number.wrapping_add(take.signed()? as u64);
    let class = take.small()?;
    let time = before.time.wrapping_add(take.signed()? as u64);
    let content_end = offset.wrapping_add(take.signed()? as u64);
    let previous = take.option(|take| {
        Some(PreviousPacket {
            end: take.option(|take| take.signed().map(|end| time.wrapping_add(end as u64)))?,
            discarded: take.option(Take::number)?,
            sequence: take.option(Take::number)?,
        })
    })?;
    Some(PacketMark { offset, number, class, time, content_end, previous })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn mark()(
            numbers in any::<[u64; 4]>(),
            class in any::<u32>(),
            previous in prop::option::of(any::<[Option<u64>; 3]>()),
        ) -> PacketMark {
            let [offset, number, time, content_end] = numbers;
            let previous = previous.map(|[end, discarded, sequence]| PreviousPacket { end, discarded, sequence });
            PacketMark { offset, number, class, time, content_end, previous }
        }
    }

    /// An item of a stream: the event and the time of a record, or a loss.
    #[derive(Clone, Copy, Debug)]
    enum Item {
        Packet(u64),
        Record(usize, u64),
        Loss(u64, u64),
    }

    fn item() -> impl Strategy<Value = Item> {
        let time = || prop_oneof![8 => 0..5000u64, 2 => (1 << 40)..(1u64 << 40) + 9000, 1 => any::<u64>()];
        prop_oneof![
            1 => (1..100_000u64).prop_map(Item::Packet),
            9 => (0..3usize, time()).prop_map(|(event, cycles)| Item::Record(event, cycles)),
            1 => (time(), time()).prop_map(|(a, b)| Item::Loss(a.min(b), a.max(b))),
        ]
    }

    /// What an account has that adds every record at once.
    fn at_once(items: &[Item]) -> Account {
        let mut account = Account::new(3, 0);
        give(&mut account, items, |account| account.finish());
        account
    }

    fn give(account: &mut Account, items: &[Item], after: impl Fn(&mut Account)) {
        let (mut offset, mut number) = (0, 0);
        account.packet(&PacketMark::default());
        for item in items {
            match *item {
                Item::Packet(bytes) => {
                    (offset, number) = (offset + bytes, number + 1);
                    account.packet(&PacketMark { offset, number, ..PacketMark::default() });
                }
                Item::Record(event, cycles) => account.record(event, cycles),
                Item::Loss(from, to) => account.loss(2, 1, (from, to)),
            }
            after(account);
        }
        account.finish();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_kept_aside_is_counted(items in prop::collection::vec(item(), 0..80)) {
            let mut account = Account::new(3, 0);
            give(&mut account, &items, |_| {});
            let expect = at_once(&items);
            prop_assert_eq!(&account.events, &expect.events);
            prop_assert_eq!(&account.entries, &expect.entries);
            prop_assert_eq!(&account.buckets, &expect.buckets);
            for event in 0..3 {
                let times = items.iter().filter_map(|item| match *item {
                    Item::Record(of, cycles) if of == event => Some(cycles),
                    _ => None,
                });
                let of = account.events[event];
                prop_assert_eq!(of.records, times.clone().count() as u64);
                let ends = (times.clone().min().unwrap_or(u64::MAX), times.max().unwrap_or(0));
                prop_assert_eq!((of.first, of.last), ends);
            }
            let records: u64 = account.entries.iter().map(|entry| entry.records).sum();
            prop_assert_eq!(records, account.events.iter().map(|of| of.records).sum::<u64>());
        }

        #[test]
        fn entries_are_what_they_were(marks in prop::collection::vec((mark(), any::<[u64; 6]>()), 0..20)) {
            let entry = |(mark, [packets, records, lost, first, last, newest]): (PacketMark, [u64; 6])| {
                Entry { mark, packets, records, lost, first, last, newest }
            };
            let mut entries: Vec<Entry> = marks.into_iter().map(entry).collect();
            let (mut offset, mut newest) = (0, 0);
            for entry in &mut entries {
                entry.mark.offset = entry.mark.offset.max(offset);
                entry.newest = entry.newest.max(newest);
                (offset, newest) = (entry.mark.offset, entry.newest);
            }
            prop_assert_eq!(take_entries(&put_entries(&entries)), Some(entries));
        }

        #[test]
        fn bytes_of_anyone_as_entries_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = take_entries(&bytes);
            let _ = StreamCounts::take(&mut Take(&bytes));
        }
    }
}
