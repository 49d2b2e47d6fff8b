// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of the spans of a part, and of what has begun and not ended in front of it [spec/index.md 5.5].

use std::collections::BTreeMap;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::{Doubt, Name};

use crate::file::bits::{BitPut, BitTake, width};
use crate::latencies::samples::TIME_MAX;
use crate::pictures::part::SHIFT_MAX;
use crate::spans::pairs::WaitingSpan;
use crate::spans::part::{SpanCell, SpanEnd, SpanItem, SpanItems, SpanPart};

/// What counts of items, and gaps between levels, are small for.
const COUNT_ORDER: u32 = 4;

/// Items for which there is room at once: more may be claimed than there are.
const ITEMS_AT_ONCE: usize = 256;

/// Who ended a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ender {
    process: Option<i32>,
    name: Name,
    tid: Option<i32>,
}

/// What its records tell of a span beside its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SpanWord {
    span: u16,
    cpu: Option<u32>,
    is_clock: bool,
    is_nested: bool,
}

pub(crate) fn put_int(put: &mut Put, number: Option<i32>) {
    put.option(number, |put, number| put.signed(number.into()));
}

pub(crate) fn take_int(take: &mut Take<'_>) -> Option<Option<i32>> {
    take.option(|take| i32::try_from(take.signed()?).ok())
}

/// A time of the trace.
pub(crate) fn in_range(at: i64) -> Option<i64> {
    (-TIME_MAX..TIME_MAX).contains(&at).then_some(at)
}

/// Things that recur, each once, by when they come first.
struct Words<T> {
    list: Vec<T>,
    places: Map<T, u64>,
}

impl<T: Copy + Eq + std::hash::Hash> Words<T> {
    fn of(all: impl Iterator<Item = T>) -> Words<T> {
        let (mut list, mut places) = (Vec::new(), Map::default());
        for one in all {
            places.entry(one).or_insert_with(|| {
                list.push(one);
                list.len() as u64 - 1
            });
        }
        Words { list, places }
    }

    /// Bits of a place.
    fn width(list: &[T]) -> u32 {
        width(list.len().saturating_sub(1) as u64)
    }

    fn put(&self, one: &T, bits: &mut BitPut) {
        bits.bits(self.places.get(one).copied().unwrap_or_default(), Self::width(&self.list));
    }

    fn take(list: &[T], bits: &mut BitTake<'_>) -> Option<T> {
        list.get(usize::try_from(bits.bits(Self::width(list))?).ok()?).copied()
    }
}

impl Ender {
    fn of(span: &SpanEnd) -> Ender {
        Ender { process: span.process, name: span.name, tid: span.tid }
    }
}

impl SpanWord {
    fn of(span: &SpanEnd) -> SpanWord {
        let has = |doubt| span.doubt.has(doubt);
        SpanWord { span: span.span, cpu: span.cpu, is_clock: has(Doubt::CLOCK), is_nested: has(Doubt::NESTED) }
    }

    fn doubt(&self) -> Doubt {
        Doubt::CLOCK.when(self.is_clock) | Doubt::NESTED.when(self.is_nested)
    }
}

/// What is small for the numbers of a row.
#[derive(Clone, Copy)]
struct Orders {
    /// From the column before to the next one.
    gap: u32,
    count: u32,
    length: u32,
}

impl SpanPart {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let items = || self.rows.values().flat_map(|row| &row.0);
        let wholes = || {
            items().filter_map(|item| match item {
                SpanItem::Whole(span) => Some(span),
                SpanItem::Cell(_) => None,
            })
        };
        let (who, words) = (Words::of(wholes().map(Ender::of)), Words::of(wholes().map(SpanWord::of)));
        let mut put = Put::default();
        put.signed(self.from);
        put.number(self.to.abs_diff(self.from));
        put.number(self.shift.into());
        put.number(who.list.len() as u64);
        for ender in &who.list {
            put_int(&mut put, ender.process);
            put_int(&mut put, ender.tid);
            put.text(ender.name.as_str());
        }
        put.number(words.list.len() as u64);
        for word in &words.list {
            put.number(word.span.into());
            put.option(word.cpu, |put, cpu| put.number(cpu.into()));
            put.byte(u8::from(word.is_clock) | u8::from(word.is_nested) << 1);
        }
        put.number(self.rows.len() as u64);
        let mut bits = BitPut::default();
        for ((row, level), items) in &self.rows {
            put_int(&mut put, *row);
            put.number((*level).into());
            self.put_row(items, (&who, &words), &mut bits);
        }
        bits.finish(&mut put.0);
        put.0
    }

    fn put_row(&self, items: &SpanItems, (who, words): (&Words<Ender>, &Words<SpanWord>), bits: &mut BitPut) {
        let items = &items.0;
        let sum = |of: &dyn Fn(&SpanItem) -> u64| items.iter().map(of).fold(0, u64::saturating_add);
        bits.number(items.len() as u64, COUNT_ORDER);
        let (first, last) = (items.first().map_or(0, |item| self.column(item)), items.last());
        let columns = last.map_or(0, |item| self.column(item)).abs_diff(first);
        bits.signed(first.wrapping_sub(self.from >> self.shift), COUNT_ORDER);
        let orders = Orders {
            gap: bits.order(columns, items.len()),
            count: bits.order(sum(&|item| cell(item).map_or(0, |cell| cell.count - 1)), items.len()),
            length: bits.order(sum(&length), items.len()),
        };
        let mut at = first;
        for item in items {
            bits.flag(cell(item).is_some());
            let column = self.column(item);
            bits.number(column.abs_diff(at), orders.gap);
            at = column;
            bits.number(length(item), orders.length);
            match item {
                SpanItem::Cell(cell) => {
                    bits.number(cell.count - 1, orders.count);
                    bits.bits(cell.longest_at.abs_diff(column << self.shift), self.shift);
                }
                SpanItem::Whole(span) => {
                    bits.bits(span.from.abs_diff(column << self.shift), self.shift);
                    who.put(&Ender::of(span), bits);
                    words.put(&SpanWord::of(span), bits);
                }
            }
        }
    }

    /// The column in which an item begins.
    fn column(&self, item: &SpanItem) -> i64 {
        match item {
            SpanItem::Cell(cell) => cell.column,
            SpanItem::Whole(span) => span.from >> self.shift,
        }
    }

    /// The same again, of some rows.
    pub(crate) fn decode(bytes: &[u8], wants: impl Fn(Option<i32>) -> bool) -> Option<SpanPart> {
        let mut take = Take(bytes);
        let from = in_range(take.signed()?)?;
        let to = in_range(from.checked_add_unsigned(take.number()?)?)?;
        let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
        let ender = |take: &mut Take<'_>| {
            Some(Ender { process: take_int(take)?, tid: take_int(take)?, name: Name::new(take.text()?) })
        };
        let count = take.count()?;
        let who = (0..count).map(|_| ender(&mut take)).collect::<Option<Vec<_>>>()?;
        let word = |take: &mut Take<'_>| {
            let (span, cpu) = (take.small()?, take.option(Take::small)?);
            let doubts = take.byte().filter(|doubts| *doubts < 4)?;
            Some(SpanWord { span, cpu, is_clock: doubts & 1 != 0, is_nested: doubts & 2 != 0 })
        };
        let count = take.count()?;
        let words = (0..count).map(|_| word(&mut take)).collect::<Option<Vec<_>>>()?;
        let count = take.count()?;
        let places = (0..count).map(|_| Some((take_int(&mut take)?, take.small()?)));
        let places = places.collect::<Option<Vec<(Option<i32>, u16)>>>()?;
        let mut part = SpanPart { from, to, shift, rows: BTreeMap::new() };
        let mut bits = BitTake::new(take.0);
        for place in places {
            let items = part.take_row((&who, &words), &mut bits)?;
            if wants(place.0) {
                part.rows.insert(place, items);
            }
        }
        bits.is_at_end().then_some(part)
    }

    fn take_row(&self, (who, words): (&[Ender], &[SpanWord]), bits: &mut BitTake<'_>) -> Option<SpanItems> {
        let count = bits.count(COUNT_ORDER)?;
        let mut at = (self.from >> self.shift).checked_add(bits.signed(COUNT_ORDER)?)?;
        let orders = Orders { gap: bits.order()?, count: bits.order()?, length: bits.order()? };
        let mut items = Vec::with_capacity(count.min(ITEMS_AT_ONCE));
        for _ in 0..count {
            let is_cell = bits.flag()?;
            at = at.checked_add_unsigned(bits.number(orders.gap)?)?;
            let length = bits.number(orders.length)?;
            let begin = in_range(at.checked_mul(1 << self.shift)?)?;
            items.push(match is_cell {
                true => {
                    let count = bits.number(orders.count)?.checked_add(1)?;
                    let longest_at = begin.checked_add_unsigned(bits.bits(self.shift)?)?;
                    let is_within = length.checked_add(longest_at.abs_diff(begin))? >> self.shift == 0;
                    let cell = SpanCell { column: at, count, longest_ns: length, longest_at };
                    SpanItem::Cell(is_within.then_some(cell)?)
                }
                false => {
                    let from = begin.checked_add_unsigned(bits.bits(self.shift)?)?;
                    let to = in_range(from.checked_add_unsigned(length)?)?;
                    let Ender { process, name, tid } = Words::take(who, bits)?;
                    let word = Words::take(words, bits)?;
                    let (span, cpu, doubt) = (word.span, word.cpu, word.doubt());
                    SpanItem::Whole(SpanEnd { span, tid, process, name, cpu, from, to, doubt })
                }
            });
        }
        Some(SpanItems(items))
    }
}

fn cell(item: &SpanItem) -> Option<&SpanCell> {
    match item {
        SpanItem::Cell(cell) => Some(cell),
        SpanItem::Whole(_) => None,
    }
}

/// Of a cell that of the longest, ns.
fn length(item: &SpanItem) -> u64 {
    match item {
        SpanItem::Cell(cell) => cell.longest_ns,
        SpanItem::Whole(span) => span.to.abs_diff(span.from),
    }
}

/// What has begun and not ended at a time.
pub(crate) fn put_waiting(at: i64, list: &[WaitingSpan]) -> Vec<u8> {
    let mut put = Put::default();
    put.number(list.len() as u64);
    for of in list {
        put.number(of.span.into());
        put.signed(at.wrapping_sub(of.from));
        [of.tid, of.process].iter().for_each(|number| put_int(&mut put, *number));
        put.number(of.inner);
        put.number(of.level.into());
        put.option(of.cpu, |put, cpu| put.number(cpu.into()));
    }
    put.0
}

/// The same again.
pub(crate) fn take_waiting(at: i64, bytes: &[u8]) -> Option<Vec<WaitingSpan>> {
    let mut take = Take(bytes);
    let count = take.count()?;
    let one = |take: &mut Take<'_>| {
        Some(WaitingSpan {
            span: take.small()?,
            from: in_range(at.checked_sub(take.signed()?)?)?,
            tid: take_int(take)?,
            process: take_int(take)?,
            inner: take.number()?,
            level: take.small()?,
            cpu: take.option(Take::small)?,
        })
    };
    let list = (0..count).map(|_| one(&mut take)).collect::<Option<Vec<_>>>()?;
    take.is_empty().then_some(list)
}
