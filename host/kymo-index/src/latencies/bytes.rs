// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies of parts as bytes, and back [spec/index.md 5.3]: a piece of sums, one of cells, one of the longest.

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::{Begun, CallId, Interrupt, Name, Of, Request, SampleGroup, SampleSums};
use kymo_histogram::NUMBERS;

use crate::file::bits::{BitPut, BitTake};
use crate::latencies::part::{CELLS, DensityCell, LISTED_MAX, LatencyPart, LatencySeries, Listed, PastSample};
use crate::latencies::samples::{TIME_MAX, put_sample, take_sample};
use crate::latencies::who::{Who, WhoTable};
use crate::pictures::part::SHIFT_MAX;

/// Series of a part at most.
pub(crate) const SERIES_MAX: usize = 1024;

fn put_of(put: &mut Put, of: Of) {
    match of {
        Of::All => put.byte(0),
        Of::Interrupt(interrupt, name) => {
            put.byte(1);
            interrupt.put(put);
            put.text(name.as_str());
        }
        Of::Function(function) => {
            put.byte(2);
            put.number(function);
        }
        Of::Call(call) => {
            put.byte(3);
            put.number(call.0.into());
        }
        Of::Device(device) => {
            put.byte(4);
            put.number(device);
        }
        Of::Interface(name) => {
            put.byte(5);
            put.text(name.as_str());
        }
        Of::Span(number) => {
            put.byte(6);
            put.number(number.into());
        }
        // No part has these.
        Of::Keyed(..) | Of::Others => put.byte(7),
    }
}

fn take_of(take: &mut Take<'_>) -> Option<Of> {
    Some(match take.byte()? {
        0 => Of::All,
        1 => Of::Interrupt(Interrupt::take(take)?, Name::new(take.text()?)),
        2 => Of::Function(take.number()?),
        3 => Of::Call(CallId(take.small()?)),
        4 => Of::Device(take.number()?),
        5 => Of::Interface(Name::new(take.text()?)),
        6 => Of::Span(take.small()?),
        _ => return None,
    })
}

fn put_group(put: &mut Put, group: SampleGroup, of: Of) {
    put.byte(group as u8);
    put_of(put, of);
}

fn take_group(take: &mut Take<'_>) -> Option<(SampleGroup, Of)> {
    let group = SampleGroup::ALL.get(usize::from(take.byte()?)).copied()?;
    Some((group, take_of(take)?))
}

fn put_request(put: &mut Put, request: &Request) {
    match *request {
        Request::Block(device, key) => {
            put.byte(0);
            put.number(device);
            put.number(key);
        }
        Request::Net(key) => {
            put.byte(1);
            put.number(key);
        }
    }
}

fn take_request(take: &mut Take<'_>) -> Option<Request> {
    Some(match take.byte()? {
        0 => Request::Block(take.number()?, take.number()?),
        1 => Request::Net(take.number()?),
        _ => return None,
    })
}

fn list<'a, T>(take: &mut Take<'a>, mut one: impl FnMut(&mut Take<'a>) -> Option<T>) -> Option<Vec<T>> {
    let count = take.count().filter(|count| *count <= LISTED_MAX)?;
    (0..count).map(|_| one(take)).collect()
}

/// Numbers that ascend, and how often each is there, at least once.
fn put_counts(bits: &mut BitPut, list: impl Iterator<Item = (u64, u64)> + Clone, count: usize) {
    let (mut last, mut gaps, mut counts) = (0u64, 0u64, 0u64);
    for (at, (number, times)) in list.clone().enumerate() {
        gaps = gaps.saturating_add(if at == 0 { 0 } else { number - last - 1 });
        counts = counts.saturating_add(times - 1);
        last = number;
    }
    let first = list.clone().next().map_or(0, |(number, _)| number);
    let (gap_order, count_order) = (bits.order(gaps, count), bits.order(counts, count));
    bits.number(first, 8);
    last = first;
    for (at, (number, times)) in list.enumerate() {
        if at > 0 {
            bits.number(number - last - 1, gap_order);
        }
        bits.number(times - 1, count_order);
        last = number;
    }
}

/// The same again: numbers are below `end`.
fn take_counts(bits: &mut BitTake<'_>, count: usize, end: u64, mut one: impl FnMut(u64, u64)) -> Option<()> {
    let (gap_order, count_order) = (bits.order()?, bits.order()?);
    let mut number = bits.number(8)?;
    for at in 0..count {
        if at > 0 {
            number = number.checked_add(bits.number(gap_order)?)?.checked_add(1)?;
        }
        if number >= end {
            return None;
        }
        one(number, bits.number(count_order)?.checked_add(1)?);
    }
    Some(())
}

/// As many as each has a bit at least.
fn count_of(take: &mut Take<'_>, bytes: usize) -> Option<usize> {
    take.small::<usize>().filter(|count| *count <= bytes.saturating_mul(8))
}

impl LatencyPart {
    /// Sums and all that is listed; cells; the longest.
    pub(crate) fn encode(&self, listed: Listed, who: &mut WhoTable) -> [Vec<u8>; 3] {
        [self.encode_sums(who), self.encode_cells(), self.encode_longest(listed, who)]
    }

    fn encode_sums(&self, who: &mut WhoTable) -> Vec<u8> {
        let (mut put, mut bits) = (Put::default(), BitPut::default());
        put.signed(self.from);
        put.number(self.to.abs_diff(self.from));
        put.number(self.shift.into());
        put.option(self.lost_to, |put, to| put.signed(to.wrapping_sub(self.from)));
        put.number(self.past.len() as u64);
        for past in &self.past {
            put_group(&mut put, past.group, past.of);
            put_sample(&mut put, self.from, &past.sample, who);
            put.byte(past.is_lost.into());
        }
        put.number(self.begun.len() as u64);
        for (request, begun) in &self.begun {
            put_request(&mut put, request);
            put.signed(begun.at.wrapping_sub(self.from));
            put.option(begun.tid, |put, tid| put.signed(tid.into()));
            put.text(begun.name.as_str());
        }
        put.number(self.ended.len() as u64);
        self.ended.iter().for_each(|request| put_request(&mut put, request));
        put.number(self.devices.len() as u64);
        for (device, name) in &self.devices {
            put.number(*device);
            put.text(name);
        }
        put.number(self.series.len() as u64);
        for of in &self.series {
            put_group(&mut put, of.group, of.of);
            put_sums(&mut put, &of.sums);
            let buckets = of.sums.buckets.iter().map(|(bucket, count)| (u64::from(*bucket), *count));
            if !of.sums.buckets.is_empty() {
                put_counts(&mut bits, buckets, of.sums.buckets.len());
            }
        }
        bits.finish(&mut put.0);
        put.0
    }

    fn encode_cells(&self) -> Vec<u8> {
        let (mut put, mut bits) = (Put::default(), BitPut::default());
        let first = self.series.iter().flat_map(|of| &of.cells).map(|cell| cell.column).min().unwrap_or(0);
        put.signed(first);
        for of in &self.series {
            put.number(of.cells.len() as u64);
            let number = |cell: &DensityCell| (cell.column.abs_diff(first) * CELLS + u64::from(cell.cell), cell.count);
            if !of.cells.is_empty() {
                put_counts(&mut bits, of.cells.iter().map(number), of.cells.len());
            }
        }
        bits.finish(&mut put.0);
        put.0
    }

    /// Sums and all that is listed. `who`: the threads that have numbers.
    pub(crate) fn decode(bytes: &[u8], who: &[Who]) -> Option<LatencyPart> {
        let mut take = Take(bytes);
        let from = take.signed().filter(|from| (-TIME_MAX..TIME_MAX).contains(from))?;
        let to = from.checked_add_unsigned(take.number()?)?;
        let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
        let lost_to = take.option(|take| from.checked_add(take.signed()?))?;
        let past = list(&mut take, |take| {
            let (group, of) = take_group(take).filter(|(group, _)| group.is_of_past())?;
            let sample = take_sample(take, from, who)?;
            let is_lost = take.byte().filter(|is_lost| *is_lost < 2)? == 1;
            Some(PastSample { group, of, sample, is_lost })
        })?;
        let begun = list(&mut take, |take| {
            let (request, at) = (take_request(take)?, from.checked_add(take.signed()?)?);
            let tid = take.option(|take| i32::try_from(take.signed()?).ok())?;
            Some((request, Begun { at, tid, name: Name::new(take.text()?) }))
        })?;
        let ended = list(&mut take, take_request)?;
        let devices = list(&mut take, |take| Some((take.number()?, take.text()?.to_owned())))?;
        let mut part = LatencyPart { from, to, shift, lost_to, series: Vec::new(), past, begun, ended, devices };
        let mut counts = Vec::new();
        for _ in 0..take.count().filter(|count| *count <= SERIES_MAX)? {
            let (group, of) = take_group(&mut take)?;
            let (sums, count) = take_sums(&mut take)?;
            counts.push(count);
            part.series.push(LatencySeries { sums, ..LatencySeries::new(group, of) });
        }
        let mut bits = BitTake::new(take.0);
        for (of, count) in part.series.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            of.sums.buckets.reserve_exact(count);
            let buckets = &mut of.sums.buckets;
            take_counts(&mut bits, count, NUMBERS.into(), |bucket, count| buckets.push((bucket as u16, count)))?;
        }
        (bits.is_at_end() && part.series.is_sorted_by(|a, b| (a.group, a.of) < (b.group, b.of))).then_some(part)
    }

    /// Takes its cells.
    pub fn decode_cells(&mut self, bytes: &[u8]) -> Option<()> {
        let mut take = Take(bytes);
        let column_end = TIME_MAX >> self.shift;
        let first = take.signed().filter(|first| (-column_end..column_end).contains(first))?;
        let end = column_end.abs_diff(first).saturating_mul(CELLS);
        let counts: Vec<usize> = self.series.iter().map(|_| count_of(&mut take, bytes.len())).collect::<Option<_>>()?;
        let mut bits = BitTake::new(take.0);
        for (of, count) in self.series.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            // A gap and a count have a bit each.
            if count > bits.left() / 2 + 1 {
                return None;
            }
            of.cells.reserve_exact(count);
            let cells = &mut of.cells;
            take_counts(&mut bits, count, end, |number, count| {
                let (column, cell) = (first.saturating_add_unsigned(number / CELLS), (number % CELLS) as u16);
                cells.push(DensityCell { column, cell, count });
            })?;
        }
        bits.is_at_end().then_some(())
    }
}

/// All but the buckets, of which it is only said how many they are.
fn put_sums(put: &mut Put, sums: &SampleSums) {
    put.number(sums.idle);
    put.number(sums.buckets.len() as u64);
    if !sums.buckets.is_empty() {
        put.number(sums.doubtful);
        put.number(sums.min_ns);
        put.number(sums.max_ns.wrapping_sub(sums.min_ns));
        put.number((sums.sum_ns >> 64) as u64);
        put.number(sums.sum_ns as u64);
    }
}

fn take_sums(take: &mut Take<'_>) -> Option<(SampleSums, usize)> {
    let idle = take.number()?;
    let count = take.small::<usize>().filter(|count| *count <= usize::from(NUMBERS))?;
    let mut sums = SampleSums { idle, ..SampleSums::default() };
    if count > 0 {
        sums.doubtful = take.number()?;
        sums.min_ns = take.number()?;
        sums.max_ns = sums.min_ns.checked_add(take.number()?)?;
        sums.sum_ns = u128::from(take.number()?) << 64 | u128::from(take.number()?);
    }
    Some((sums, count))
}

#[cfg(test)]
mod tests {
    use kymo_analyze::{Context, Doubt, Sample, Waker};
    use kymo_testing::Random;
    use proptest::prelude::*;

    use super::*;
    use crate::latencies::part::{LONGEST_MAX, cell_of};
    use crate::latencies::samples::TIME_MAX;

    fn sample(random: &mut Random, from: i64) -> Sample {
        let bits = random.below(40u32);
        let (begin, value_ns) = (from + random.below(1i64 << 20), random.below(1u64 << bits));
        let late_ns = if random.below(9) == 0 { random.below(1000) } else { 0 };
        let away = if random.below(5) == 0 { random.below(500i64) } else { 0 };
        let tid = random.below(40i32) + 1;
        let waker = match random.below(4) {
            0 => Some(Waker { cpu: random.below(4u32), context: Context::Thread(tid + 1) }),
            1 => Some(Waker { cpu: u32::MAX, context: Context::Interrupt(Interrupt::Hrtimer(0xffff_0000_1234)) }),
            _ => None,
        };
        Sample {
            value_ns,
            from: begin,
            to: begin + value_ns as i64 + away,
            tid: Some(tid).filter(|tid| *tid > 2),
            process: Some(tid / 4).filter(|process| *process > 3),
            name: Name::new(["", "größer", "groß", "thread-117", "thread-118"][random.below(5) as usize]),
            prio: Some(tid as i16).filter(|_| tid % 3 > 0),
            cpu: Some(random.below(4u32)).filter(|_| tid != 7),
            waker,
            owner: Some(tid - 1).filter(|_| random.below(8) == 0),
            doubt: Doubt::LOST.when(random.below(6) == 0) | Doubt::NESTED.when(random.below(6) == 0),
            late_ns,
        }
    }

    /// With samples of some series, columns of 2 to the power of `shift`.
    fn part(random: &mut Random, from: i64, shift: u32) -> LatencyPart {
        let series = [
            (SampleGroup::Woken, Of::All),
            (SampleGroup::Irq, Of::Interrupt(Interrupt::Irq(7), Name::new("eth0"))),
            (SampleGroup::Futex, Of::Call(CallId(3))),
            (SampleGroup::Block, Of::Device(8 << 20)),
            (SampleGroup::Net, Of::Interface(Name::new("eth0"))),
            (SampleGroup::Timer, Of::Function(0xffff_ffff_8100_0000)),
            (SampleGroup::Span, Of::Span(300)),
        ];
        let mut part = LatencyPart { from, to: from + (1 << 21), shift, ..LatencyPart::default() };
        for (group, of) in series {
            let mut own = LatencySeries::new(group, of);
            let bits = random.below(10u32);
            for _ in 0..random.below(1u32 << bits) {
                let sample = sample(random, from);
                own.sums.merge(&SampleSums::of(&sample));
                let (column, cell) = (sample.to >> shift, cell_of(sample.value_ns));
                own.cells.push(DensityCell { column, cell, count: 1 + random.below(1000) });
                own.longest.push(sample);
            }
            own.sums.idle = random.below(5);
            part.series.push(own);
        }
        part.finish();
        for _ in 0..random.below(5u32) {
            let (sample, is_lost) = (sample(random, from - (1 << 30)), random.below(2) == 0);
            part.past.push(PastSample { group: SampleGroup::SoftirqRaise, of: Of::All, sample, is_lost });
            let begun = Begun { at: from + random.below(900i64), tid: sample.tid, name: sample.name };
            part.begun.push((Request::Block(8, random.word()), begun));
            part.ended.push(Request::Net(random.word()));
            part.devices.push((8 << 20, "sda".to_owned()));
        }
        part.lost_to = Some(from + random.below(900i64) - 400).filter(|_| random.below(2) == 0);
        part
    }

    fn taken([sums, cells, longest]: &[Vec<u8>; 3], who: &[Who]) -> Option<LatencyPart> {
        let mut part = LatencyPart::decode(sums, who)?;
        part.decode_cells(cells)?;
        part.decode_longest(longest, who)?;
        Some(part)
    }

    /// Put and taken again, behind parts that have numbered some threads.
    fn again(part: &LatencyPart, listed: Listed) -> Option<LatencyPart> {
        let mut table = WhoTable::default();
        for tid in [Some(7), None, Some(31)] {
            table.number(Who { tid, process: None, prio: None, name: Name::new("thread-117") });
        }
        let bytes = part.encode(listed, &mut table);
        taken(&bytes, table.all())
    }

    #[test]
    fn latencies_are_what_they_were() {
        let mut random = Random::new("latency_bytes", 1);
        for _ in 0..100 {
            let (from, shift) = (random.below(1i64 << 50) - (1 << 49), random.below(20u32));
            let whole = part(&mut random, from, shift);
            assert_eq!(again(&whole, Listed::ALL), Some(whole.clone()));
            let few = again(&whole, Listed { of_series: 10, of_all: 0 }).unwrap();
            for (few, whole) in few.series.iter().zip(&whole.series) {
                assert!(few.longest.len() <= 10 && whole.longest.starts_with(&few.longest));
                assert_eq!(few.is_cut, whole.is_cut || few.longest.len() < whole.longest.len());
            }
            let of_all = again(&whole, Listed { of_series: 1, of_all: 40 }).unwrap();
            let lengths = |of: &LatencyPart| {
                let mut all: Vec<_> = of.series.iter().flat_map(|of| &of.longest).map(|of| of.value_ns).collect();
                all.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
                all.truncate(40);
                all
            };
            assert_eq!(lengths(&of_all), lengths(&whole));
            assert!(of_all.series.iter().map(|of| of.longest.len()).sum::<usize>() < 60);
        }
    }

    #[test]
    fn a_longer_part_is_as_if_made_at_once() {
        let mut random = Random::new("latency_parts", 2);
        for _ in 0..50 {
            let from = random.below(1i64 << 40);
            let parts: Vec<LatencyPart> = (0..4).map(|at| part(&mut random, from + (at << 21), 5)).collect();
            let at_once = LatencyPart::of(&parts, 9).unwrap();
            let halves = [&parts[..2], &parts[2..]].map(|parts| LatencyPart::of(parts, 7).unwrap());
            let in_steps = LatencyPart::of(&halves, 9).unwrap();
            assert_eq!(again(&at_once, Listed::ALL), Some(at_once.clone()));
            for (at_once, in_steps) in at_once.series.iter().zip(&in_steps.series) {
                assert_eq!((&at_once.sums, &at_once.cells), (&in_steps.sums, &in_steps.cells));
                let count = at_once.longest.len().min(in_steps.longest.len());
                assert_eq!(at_once.longest[..count], in_steps.longest[..count]);
                assert!(count + 8 >= LONGEST_MAX.min(at_once.sums.count() as usize), "{count} are listed");
                assert_eq!(at_once.is_cut, in_steps.is_cut);
            }
            let listed = |part: &LatencyPart| (part.begun.clone(), part.ended.clone(), part.lost_to, part.past.clone());
            assert_eq!(listed(&at_once), listed(&in_steps));
        }
    }

    #[test]
    fn numbers_that_do_not_ascend_or_are_too_large_are_refused() {
        let mut random = Random::new("latency_refused", 3);
        let whole = part(&mut random, 1 << 40, 5);
        let refused = |change: &dyn Fn(&mut LatencyPart)| {
            let mut part = whole.clone();
            change(&mut part);
            again(&part, Listed::ALL).is_none()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|part| part.series.reverse()), "unsorted series");
        assert!(refused(&|part| part
            .series
            .push(LatencySeries::new(SampleGroup::Net, Of::Interface(Name::new("eth0"))))));
        assert!(refused(&|part| part.series.push(LatencySeries::new(SampleGroup::Net, Of::Others))));
        assert!(refused(&|part| part.shift = 60));
        assert!(refused(&|part| part.from = TIME_MAX));
        assert!(
            refused(&|part| part.past.push(PastSample { group: SampleGroup::Irq, ..part.past[0] }))
                || whole.past.is_empty()
        );
        let many = |part: &mut LatencyPart| part.ended = vec![Request::Net(1); LISTED_MAX + 1];
        assert!(refused(&many));
        let buckets = |part: &mut LatencyPart| part.series[0].sums.buckets = vec![(NUMBERS, 1)];
        assert!(refused(&buckets), "there is no such bucket");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_of_anyone_as_latencies_never_panic(
            seed in any::<u64>(),
            changes in prop::collection::vec((0..3usize, any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::of((0..3usize, any::<prop::sample::Index>())),
        ) {
            let mut random = Random(seed);
            let mut table = WhoTable::default();
            let mut pieces = part(&mut random, 1 << 40, 5).encode(Listed::ALL, &mut table);
            for (piece, at, byte) in changes {
                let at = at.index(pieces[piece].len());
                pieces[piece][at] = byte;
            }
            if let Some((piece, at)) = cut {
                let at = at.index(pieces[piece].len());
                pieces[piece].truncate(at);
            }
            if let Some(mut part) = LatencyPart::decode(&pieces[0], table.all()) {
                let _ = (part.decode_cells(&pieces[1]), part.decode_longest(&pieces[2], table.all()));
                let sum = LatencyPart::of(&[part.clone(), part], SHIFT_MAX);
                let _ = sum.map(|sum| again(&sum, Listed::ALL));
            }
        }
    }
}
